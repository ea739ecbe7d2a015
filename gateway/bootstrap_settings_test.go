package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/origin"
	"muster/store"
)

// TestBootstrapSettings: flags win over MUSTER_ variables, those over the NODE_ ones; what makes no sense is named.
func TestBootstrapSettings(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		want bootstrapSettings
		err  string
	}{
		{"none", nil, nil, bootstrapSettings{install: true, runtime: "docker.io"}, ""},
		{"aliases", nil, map[string]string{"NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME": "false", "NODE_BOOTSTRAP_CONTAINER_RUNTIME_PACKAGE": "podman",
			"NODE_BOOTSTRAP_RESOLVE_ADDRESS": "192.0.2.1"}, bootstrapSettings{runtime: "podman", resolve: "192.0.2.1"}, ""},
		{"no runtime", []string{"--bootstrap-install-container-runtime=false"}, nil, bootstrapSettings{runtime: "docker.io"}, ""},
		{"own names win", []string{"--bootstrap-registry", "r.example:5000"}, map[string]string{"NODE_BOOTSTRAP_RESOLVE_ADDRESS": "192.0.2.1", "MUSTER_BOOTSTRAP_RESOLVE_ADDRESS": "2001:db8::1",
			"MUSTER_BOOTSTRAP_REGISTRY": "other"}, bootstrapSettings{install: true, runtime: "docker.io", resolve: "2001:db8::1", registry: "r.example:5000"}, ""},
		{"an alias of nonsense", nil, map[string]string{"NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME": "perhaps"}, bootstrapSettings{}, "NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME"},
		{"no address", []string{"--bootstrap-resolve-address", "gw"}, nil, bootstrapSettings{}, "--bootstrap-resolve-address \"gw\" is not the IP address of a machine"},
		{"every address", []string{"--bootstrap-resolve-address", "0.0.0.0"}, nil, bootstrapSettings{}, "not the IP address of a machine"},
		{"every address, IPv6", []string{"--bootstrap-resolve-address", "::"}, nil, bootstrapSettings{}, "not the IP address of a machine"},
		{"a broadcast", nil, map[string]string{"NODE_BOOTSTRAP_RESOLVE_ADDRESS": "255.255.255.255"}, bootstrapSettings{}, "NODE_BOOTSTRAP_RESOLVE_ADDRESS \"255.255.255.255\" is not"},
		{"a multicast", nil, map[string]string{"MUSTER_BOOTSTRAP_RESOLVE_ADDRESS": "224.0.0.1"}, bootstrapSettings{}, "MUSTER_BOOTSTRAP_RESOLVE_ADDRESS \"224.0.0.1\" is not"},
		{"a flag over a variable", []string{"--bootstrap-registry=x:0"}, map[string]string{"NODE_BOOTSTRAP_REGISTRY": "r"}, bootstrapSettings{}, "--bootstrap-registry \"x:0\" is not"},
		{"another setting's variable", nil, map[string]string{"MUSTER_CERT_TTL": "1s"}, bootstrapSettings{}, "MUSTER_CERT_TTL 1s: write a value between"},
		{"no package", []string{"--bootstrap-container-runtime-package", "docker.io -y"}, nil, bootstrapSettings{}, "not the name of a Debian package"},
		{"no registry", []string{"--bootstrap-registry", "https://r"}, nil, bootstrapSettings{}, "is not HOST or HOST:PORT"},
		{"a credential for nothing", []string{"--bootstrap-registry-credential", "f"}, nil, bootstrapSettings{}, "needs a --bootstrap-registry; with an empty file (/dev/null)"},
		{"an end to a credential", []string{"--bootstrap-registry-credential", "/dev/null"}, nil, bootstrapSettings{install: true, runtime: "docker.io", credential: "/dev/null"}, ""},
		{"this network", []string{"--bootstrap-resolve-address", "0.1.2.3"}, nil, bootstrapSettings{}, "not the IP address of a machine"},
		{"reserved", []string{"--bootstrap-resolve-address", "240.0.0.1"}, nil, bootstrapSettings{}, "not the IP address of a machine"},
		{"hasty retention", []string{"--events-retention", "1s"}, nil, bootstrapSettings{}, "--events-retention 1s"},
		{"no retention", []string{"--events-retention", "soon"}, nil, bootstrapSettings{}, "is no duration"},
	} {
		s, err := parseSettings(append([]string{"--data", t.TempDir()}, c.args...), func(name string) string { return c.env[name] }, io.Discard)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v, want %s", c.name, err, c.err)
			}
			continue
		}
		if err != nil || s.bootstrap != c.want {
			t.Errorf("%s: got %+v, %v; want %+v", c.name, s.bootstrap, err, c.want)
		}
	}
	s, err := parseSettings([]string{"--events-retention", "90d"}, func(string) string { return "" }, io.Discard)
	if err != nil || time.Duration(s.retention) != 90*24*time.Hour || s.given["events-retention"] != "2160h0m0s" {
		t.Errorf("retention %s as %q, %v", time.Duration(s.retention), s.given["events-retention"], err)
	}
}

// TestFirstHop: where a machine fetches its script that trusts nothing yet, and where it goes from there.
func TestFirstHop(t *testing.T) {
	for _, c := range []struct {
		name, public, plain, resolve string
		own                          bool
		node, hop                    string
		trust                        bootstrap.Trust
	}{
		{"own certificate", "https://gw:7443", "", "", true, "https://gw:7443", "https://gw:7443", bootstrap.PinnedTrust},
		{"public certificate", "https://gw", "", "", false, "https://gw", "https://gw", bootstrap.SystemTrust},
		{"plain", "http://gw:80", ":80", "", true, "https://gw:7443", "http://gw:80", bootstrap.PlainTrust},
		{"no name, plain", "https://gw:7443", ":7480", "192.0.2.1", true, "https://gw:7443", "http://192.0.2.1:7480", bootstrap.PlainTrust},
		{"no name, plain at the address", "https://gw:7443", "192.0.2.1:7480", "192.0.2.1", true, "https://gw:7443", "http://192.0.2.1:7480", bootstrap.PlainTrust},
		{"no name, plain for a tunnel alone", "https://gw:7443", "127.0.0.1:7480", "192.0.2.1", true, "https://gw:7443", "https://192.0.2.1:7443", bootstrap.PinnedTrust},
		{"no name, IPv6", "https://gw:7443", "", "2001:db8::1", true, "https://gw:7443", "https://[2001:db8::1]:7443", bootstrap.PinnedTrust},
		{"no name, public certificate", "https://gw", "", "192.0.2.1", false, "https://gw", "https://gw", bootstrap.SystemTrust},
	} {
		g := &gateway{settings: settings{listen: ":7443", plainListen: c.plain, publicURL: c.public, publicGiven: true}}
		if !c.own {
			g.settings.tlsCert = "cert.pem"
		}
		hop, trust := g.firstHop(bootstrap.Site{NodeURL: g.nodeURL(), OwnCertificate: c.own, ResolveAddress: c.resolve})
		if g.nodeURL() != c.node || hop != c.hop || trust != c.trust {
			t.Errorf("%s: got %s, %s by %s; want %s, %s by %s", c.name, g.nodeURL(), hop, trust, c.node, c.hop, c.trust)
		}
	}
}

// TestEndsTLS: a token goes into a URL only where nobody between the machine and the gateway reads it.
func TestEndsTLS(t *testing.T) {
	proxies, err := origin.NewResolver([]string{"127.0.0.1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, public, plain, cert string
		proxied, want             bool
	}{
		{"own certificate", "https://gw:7443", "", "", false, true},
		{"own certificate, another port outside", "https://gw", ":80", "", false, true},
		{"own certificate behind a proxy on the same port", "https://gw:7443", "", "", true, true}, // the root vouches for it
		{"behind a proxy", "https://gw", "127.0.0.1:7480", "", true, false},
		{"behind a proxy, with a certificate of its own behind", "https://gw:7443", "", "cert.pem", true, false},
		{"public certificate", "https://gw:7443", "", "cert.pem", false, true},
		{"public certificate, another port outside", "https://gw", "", "cert.pem", false, true},
		{"public certificate, first hop without TLS", "https://gw:7443", ":80", "cert.pem", false, true},
		{"perhaps a tunnel to the plain port", "https://gw", "127.0.0.1:7480", "cert.pem", false, false},
		{"no TLS", "http://gw", ":80", "", false, false},
	} {
		g := &gateway{settings: settings{listen: ":7443", plainListen: c.plain, publicURL: c.public, publicGiven: true, tlsCert: c.cert}}
		if c.proxied {
			g.origin = proxies
		}
		if got := g.endsTLS(c.public); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestSealCredential: where the registry's credential comes from, and what ends it.
func TestSealCredential(t *testing.T) {
	opened, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "db"), MasterKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	var log bytes.Buffer
	g := &gateway{store: opened, log: slog.New(slog.NewTextHandler(&log, nil)), bootstrap: bootstrap.New(bootstrap.Config{Store: opened})}
	dir := t.TempDir()
	for _, c := range []struct {
		name, registry, text string
		mode                 os.FileMode
		err, logged          string
		sealed               bool
	}{
		{"missing", "r.example", "", 0, "no credential for r.example is sealed", "", false},
		{"nonsense", "r.example", "robot", 0o600, "not one line of USERNAME:PASSWORD", "", false},
		{"good", "r.example", "robot:secret\n", 0o600, "", "", true},
		{"missing", "r.example", "", 0, "", "the sealed one serves", true},
		{"missing", "other.example", "", 0, "no credential for other.example is sealed", "", false},
		{"open", "r.example", "robot:secret\n", 0o644, "", "others than its owner can read", true},
		{"group", "r.example", "robot:secret\n", 0o640, "", "others than its owner can read", true},
		{"", "r.example", "", 0, "", "goes on serving", true},
		{"", "other.example", "", 0, "", "still sealed from an earlier start", false},
		{"", "", "", 0, "", "still sealed from an earlier start", false},
		{"empty", "r.example", " \n", 0o600, "", "credential is removed", false},
		{"", "r.example", "", 0, "", "", false},
		{"good", "r.example", "robot:secret\n", 0o600, "", "", true},
		{"empty", "", "", 0o600, "", "credential is removed", false},
	} {
		log.Reset()
		file := filepath.Join(dir, c.name)
		if c.mode != 0 {
			if err := os.WriteFile(file, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
		}
		if c.name == "" { // the setting is left out
			file = ""
		}
		g.settings.bootstrap = bootstrapSettings{registry: c.registry, credential: file}
		err := g.sealCredential(t.Context())
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.err)
		}
		if !strings.Contains(log.String(), c.logged) || c.logged == "" && strings.Contains(log.String(), "WARN") || strings.Contains(log.String(), "secret") {
			t.Errorf("%s: the log says %s", c.name, log.String())
		}
		if sealed, err := g.bootstrap.SealedRegistry(t.Context()); err != nil || (sealed != "" && sealed == c.registry) != c.sealed {
			t.Errorf("%s: sealed for %q, %v", c.name, sealed, err)
		}
	}
	g.settings.bootstrap.credential = dir
	if err := g.sealCredential(t.Context()); err == nil || !strings.Contains(err.Error(), "--bootstrap-registry-credential") {
		t.Errorf("a directory: %v", err)
	}
}

func TestYesNo(t *testing.T) {
	for value, want := range map[string]string{"true": "true", "1": "true", "yes": "true", "on": "true", "TRUE": "true", "false": "false", "0": "false", "no": "false", "off": "false",
		"perhaps": "NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME=\"perhaps\": write true, 1, yes or on, or false, 0, no or off"} {
		env := func(name string) string {
			return map[string]string{"NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME": value}[name]
		}
		s, err := parseSettings([]string{"--data", t.TempDir()}, env, io.Discard)
		if got := s.bootstrap.install.String(); err == nil && got != want || err != nil && err.Error() != want {
			t.Errorf("%s: got %s, %v", value, got, err)
		}
	}
	for _, args := range [][]string{{"--bootstrap-install-container-runtime"}, {"--bootstrap-install-container-runtime=on"}} {
		if s, err := parseSettings(append(args, "--data", t.TempDir()), func(string) string { return "" }, io.Discard); err != nil || !bool(s.bootstrap.install) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestHostPort(t *testing.T) {
	for text, want := range map[string]bool{"r": true, "r.example": true, "r.example:5000": true, "192.0.2.1:5000": true, "[2001:db8::1]": true, "[2001:db8::1]:5000": true,
		"": false, "a:99999": false, "x:0": false, "a:": false, "a..b": false, ".a": false, "-a": false, "a-": false, "a:b:1": false, "[a]": false, "[2001:db8::1": false, "2001:db8::1": false,
		"[192.0.2.1]": false, "https://r": false, "a_b": false, "a:+1": false, "999.1.1.1": false, "1.2.3": false, "7": false, "a.7": false, "0.1.2.3:5000": false, "7.a": true, strings.Repeat("a.", 127) + "a": false} {
		if got := hostPort(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
