package main

import (
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/bootstrap"
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
		{"none", nil, nil, bootstrapSettings{runtime: "docker.io"}, ""},
		{"aliases", nil, map[string]string{"NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME": "true", "NODE_BOOTSTRAP_CONTAINER_RUNTIME_PACKAGE": "podman",
			"NODE_BOOTSTRAP_RESOLVE_ADDRESS": "192.0.2.1"}, bootstrapSettings{install: true, runtime: "podman", resolve: "192.0.2.1"}, ""},
		{"own names win", []string{"--bootstrap-registry", "r.example:5000"}, map[string]string{"NODE_BOOTSTRAP_RESOLVE_ADDRESS": "192.0.2.1", "MUSTER_BOOTSTRAP_RESOLVE_ADDRESS": "2001:db8::1",
			"MUSTER_BOOTSTRAP_REGISTRY": "other"}, bootstrapSettings{runtime: "docker.io", resolve: "2001:db8::1", registry: "r.example:5000"}, ""},
		{"an alias of nonsense", nil, map[string]string{"NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME": "perhaps"}, bootstrapSettings{}, "NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME"},
		{"no address", []string{"--bootstrap-resolve-address", "gw"}, nil, bootstrapSettings{}, "is not an IP address"},
		{"no package", []string{"--bootstrap-container-runtime-package", "docker.io -y"}, nil, bootstrapSettings{}, "not the name of a Debian package"},
		{"no registry", []string{"--bootstrap-registry", "https://r"}, nil, bootstrapSettings{}, "is not HOST or HOST:PORT"},
		{"a credential for nothing", []string{"--bootstrap-registry-credential", "f"}, nil, bootstrapSettings{}, "needs a --bootstrap-registry"},
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

// TestPrune deletes in batches what is older than events are kept, and says so.
func TestPrune(t *testing.T) {
	opened, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "db"), MasterKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	old := make([]store.Event, pruneBatch+1)
	for i := range old {
		old[i] = store.Event{At: now.Add(-49 * time.Hour), Kind: "old"}
	}
	if err := opened.AddEvents(t.Context(), append(old, store.Event{At: now.Add(-47 * time.Hour), Kind: "young"})...); err != nil {
		t.Fatal(err)
	}
	g := &gateway{store: opened, settings: settings{retention: days(48 * time.Hour)}, log: slog.New(slog.DiscardHandler)}
	for range 2 {
		if err := g.pruneOnce(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	left, err := opened.Events(t.Context(), store.EventQuery{Limit: 1000})
	if err != nil || len(left) != 3 || left[0].Detail["deleted"] != "1" || left[1].Detail["deleted"] != "5000" || left[2].Kind != "young" || !left[0].Security {
		t.Errorf("left %+v, %v", left, err)
	}
	g.settings.retention = 0
	g.prune(t.Context()) // for ever: it has nothing to do and returns
}
