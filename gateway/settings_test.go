package main

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/bootstrap"
)

// TestBootstrapSettings: flags win over MUSTER_ variables, and those over NODE_ variables. A wrong value is refused by its flag's or its
// variable's name.
func TestBootstrapSettings(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		want bootstrap.Settings
		err  string
	}{
		{"none", nil, nil, bootstrap.Settings{InstallRuntime: true, RuntimePackage: "docker.io"}, ""},
		{"aliases", nil, map[string]string{"NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME": "false",
			"NODE_BOOTSTRAP_CONTAINER_RUNTIME_PACKAGE": "podman",
			"NODE_BOOTSTRAP_RESOLVE_ADDRESS":           "192.0.2.1"}, bootstrap.Settings{RuntimePackage: "podman", ResolveAddress: "192.0.2.1"}, ""},
		{"no runtime", []string{"--bootstrap-install-container-runtime=false"}, nil, bootstrap.Settings{RuntimePackage: "docker.io"}, ""},
		{"own names win", []string{"--bootstrap-registry", "r.example:5000"},
			map[string]string{"NODE_BOOTSTRAP_RESOLVE_ADDRESS": "192.0.2.1", "MUSTER_BOOTSTRAP_RESOLVE_ADDRESS": "2001:db8::1",
				"MUSTER_BOOTSTRAP_REGISTRY": "other"}, bootstrap.Settings{InstallRuntime: true, RuntimePackage: "docker.io",
				ResolveAddress: "2001:db8::1", Registry: "r.example:5000"}, ""},
		{"an alias of nonsense", nil, map[string]string{"NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME": "perhaps"}, bootstrap.Settings{},
			"NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME"},
		{"no address", []string{"--bootstrap-resolve-address", "gw"}, nil, bootstrap.Settings{},
			"--bootstrap-resolve-address \"gw\" is not the IP address of a machine"},
		{"every address", []string{"--bootstrap-resolve-address", "0.0.0.0"}, nil, bootstrap.Settings{}, "not the IP address of a machine"},
		{"every address, IPv6", []string{"--bootstrap-resolve-address", "::"}, nil, bootstrap.Settings{}, "not the IP address of a machine"},
		{"a broadcast", nil, map[string]string{"NODE_BOOTSTRAP_RESOLVE_ADDRESS": "255.255.255.255"}, bootstrap.Settings{},
			"NODE_BOOTSTRAP_RESOLVE_ADDRESS \"255.255.255.255\" is not"},
		{"a multicast", nil, map[string]string{"MUSTER_BOOTSTRAP_RESOLVE_ADDRESS": "224.0.0.1"}, bootstrap.Settings{},
			"MUSTER_BOOTSTRAP_RESOLVE_ADDRESS \"224.0.0.1\" is not"},
		{"a flag over a variable", []string{"--bootstrap-registry=x:0"}, map[string]string{"NODE_BOOTSTRAP_REGISTRY": "r"},
			bootstrap.Settings{}, "--bootstrap-registry \"x:0\" is not"},
		{"another setting's variable", nil, map[string]string{"MUSTER_CERT_TTL": "1s"}, bootstrap.Settings{},
			"MUSTER_CERT_TTL 1s: write a value between"},
		{"no package", []string{"--bootstrap-container-runtime-package", "docker.io -y"}, nil, bootstrap.Settings{},
			"not the name of a Debian package"},
		{"no registry", []string{"--bootstrap-registry", "https://r"}, nil, bootstrap.Settings{}, "is not HOST or HOST:PORT"},
		{"a credential for nothing", []string{"--bootstrap-registry-credential", "f"}, nil, bootstrap.Settings{},
			"needs a --bootstrap-registry; with an empty file (/dev/null)"},
		{"an end to a credential", []string{"--bootstrap-registry-credential", "/dev/null"}, nil,
			bootstrap.Settings{InstallRuntime: true, RuntimePackage: "docker.io", CredentialFile: "/dev/null"}, ""},
		{"this network", []string{"--bootstrap-resolve-address", "0.1.2.3"}, nil, bootstrap.Settings{}, "not the IP address of a machine"},
		{"reserved", []string{"--bootstrap-resolve-address", "240.0.0.1"}, nil, bootstrap.Settings{}, "not the IP address of a machine"},
		{"hasty retention", []string{"--events-retention", "1s"}, nil, bootstrap.Settings{}, "--events-retention 1s"},
		{"hasty recordings", []string{"--recordings-keep", "1m"}, nil, bootstrap.Settings{}, "--recordings-keep 1m0s: write 0 (for ever)"},
		{"a small recording", []string{"--recording-max", "1KiB"}, nil, bootstrap.Settings{}, "--recording-max 1KiB: write at least 64KiB"},
		{"a quota below one", nil, map[string]string{"MUSTER_RECORDINGS_QUOTA": "1MiB"}, bootstrap.Settings{},
			"MUSTER_RECORDINGS_QUOTA is less than the 256MiB of one recording"},
		{"no retention", []string{"--events-retention", "soon"}, nil, bootstrap.Settings{}, "is no duration"},
	} {
		s, err := parseSettings(append([]string{"--data", t.TempDir()}, c.args...), func(name string) string { return c.env[name] }, io.Discard)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v, want %s", c.name, err, c.err)
			}
			continue
		}
		if err != nil || s.Bootstrap != c.want {
			t.Errorf("%s: got %+v, %v; want %+v", c.name, s.Bootstrap, err, c.want)
		}
	}
	s, err := parseSettings([]string{"--events-retention", "90d"}, func(string) string { return "" }, io.Discard)
	if err != nil || time.Duration(s.EventsRetention) != 90*24*time.Hour || s.given["events-retention"] != "90d" {
		t.Errorf("retention %s as %q, %v", time.Duration(s.EventsRetention), s.given["events-retention"], err)
	}
}

func TestYesNo(t *testing.T) {
	for value, want := range map[string]string{"true": "true", "1": "true", "yes": "true", "on": "true", "TRUE": "true", "false": "false",
		"0": "false", "no": "false", "off": "false",
		"perhaps": "NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME has the value \"perhaps\": write true, 1, yes or on, or false, 0, no or off"} {
		env := func(name string) string {
			return map[string]string{"NODE_BOOTSTRAP_INSTALL_CONTAINER_RUNTIME": value}[name]
		}
		s, err := parseSettings([]string{"--data", t.TempDir()}, env, io.Discard)
		if got := strconv.FormatBool(s.Bootstrap.InstallRuntime); err == nil && got != want || err != nil && err.Error() != want {
			t.Errorf("%s: got %s, %v", value, got, err)
		}
	}
	for _, args := range [][]string{{"--bootstrap-install-container-runtime"}, {"--bootstrap-install-container-runtime=on"}} {
		if s, err := parseSettings(append(args, "--data", t.TempDir()), func(string) string { return "" }, io.Discard); err != nil ||
			!s.Bootstrap.InstallRuntime {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestRegistrySettings: sizes with a unit, the bounds that hold if nothing is said, and what is no size.
func TestRegistrySettings(t *testing.T) {
	for _, c := range []struct{ quota, want string }{
		{"", "20GiB"}, {"0", "0"}, {"1", "1"}, {"1024", "1KiB"}, {"1500MiB", "1500MiB"}, {"7TiB", "7TiB"}, {"8388607TiB", "8388607TiB"},
		{"-1", ""}, {"+1", ""}, {"GiB", ""}, {"1GB", ""}, {"1.5GiB", ""}, {"1 GiB", ""}, {"8388608TiB", ""}, {"9223372036854775808", ""},
	} {
		s, err := parseSettings([]string{"--data", t.TempDir()}, func(name string) string {
			return map[string]string{"MUSTER_REGISTRY_QUOTA": c.quota}[name]
		}, io.Discard)
		if err == nil && (s.RegistryQuota.String() != c.want || s.RegistryMaxBlob.String() != "2GiB") || err != nil &&
			(c.want != "" || !strings.Contains(err.Error(), "MUSTER_REGISTRY_QUOTA")) {
			t.Errorf("%q: %s, %v", c.quota, &s.RegistryQuota, err)
		}
	}
	s, err := parseSettings([]string{"--data", t.TempDir(), "--registry-max-blob", "0"}, func(string) string { return "" }, io.Discard)
	if err != nil || s.RegistryMaxBlob != 0 {
		t.Errorf("no bound: %s, %v", &s.RegistryMaxBlob, err)
	}
}

// TestSessionSettings: the limits of sessions, and what is none.
func TestSessionSettings(t *testing.T) {
	for _, c := range []struct {
		flag, value string
		fits        bool
	}{{"--session-idle", "0", true}, {"--session-idle", "1m", true}, {"--session-idle", "59s", false}, {"--session-idle", "25h", false},
		{"--session-limit", "24h", true}, {"--session-limit", "0", false}, {"--session-limit", "25h", false}} {
		s, err := parseSettings([]string{"--data", t.TempDir(), c.flag, c.value}, func(string) string { return "" }, io.Discard)
		if (err == nil) != c.fits || err != nil && !strings.Contains(err.Error(), c.flag) {
			t.Errorf("%s %s: %v, %v, %v", c.flag, c.value, s.SessionIdle, s.SessionLimit, err)
		}
	}
	if s, err := parseSettings([]string{"--data", t.TempDir()}, func(string) string { return "" }, io.Discard); err != nil ||
		s.SessionIdle != 30*time.Minute || s.SessionLimit != 12*time.Hour {
		t.Errorf("got %v and %v, %v", s.SessionIdle, s.SessionLimit, err)
	}
}
