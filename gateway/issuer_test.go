package main

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/authority/stepca"
	"muster/gateway/internal/kit"
)

func TestIssuerFlags(t *testing.T) {
	const all = "--step-ca-url https://ca.example --step-ca-root root.crt --step-ca-provisioner nodes --step-ca-key nodes.jwk"
	for _, test := range []struct {
		args, want string // part of the error, empty: good
	}{
		{"", ""},
		{"--issuer builtin", ""},
		{"--issuer step-ca " + all, ""},
		{"--issuer step-ca --step-ca-cert nodes.crt " + all, ""},
		{"--issuer vault", `--issuer "vault": write builtin or step-ca`},
		{"--issuer step-ca", "needs --step-ca-url"},
		{"--issuer step-ca --step-ca-url https://ca.example", "--step-ca-key"},
		{"--step-ca-url https://ca.example", "need --issuer step-ca"},
		{"--issuer builtin --step-ca-cert nodes.crt", "need --issuer step-ca"},
	} {
		s, err := parseSettings(strings.Fields(test.args), func(string) string { return "" }, nil)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want %q", test.args, err, test.want)
		}
		if err == nil && strings.Contains(test.args, "step-ca") && s.StepCA.KeyFile != "nodes.jwk" {
			t.Errorf("%s: %+v", test.args, s.StepCA)
		}
	}
	_, err := parseSettings(nil, func(name string) string { return map[string]string{"MUSTER_ISSUER": "step-ca"}[name] }, nil)
	if err == nil || !strings.Contains(err.Error(), "needs --step-ca-url") {
		t.Errorf("from the environment: %v", err)
	}
}

// TestLeaveStepCA: a service's settings keep the flags of step-ca. --issuer builtin alone takes such a gateway back to its own CA.
func TestLeaveStepCA(t *testing.T) {
	kept := map[string]string{"MUSTER_ISSUER": "step-ca", "MUSTER_STEP_CA_URL": "https://ca.example", "MUSTER_STEP_CA_ROOT": "root.crt",
		"MUSTER_STEP_CA_PROVISIONER": "nodes", "MUSTER_STEP_CA_KEY": "nodes.jwk"}
	getenv := func(name string) string { return kept[name] }
	f, err := serveFlags([]string{"--issuer", "builtin"}, getenv)
	if err != nil || f.Given["issuer"] != issuerBuiltIn || len(f.Files) != 0 {
		t.Errorf("--issuer builtin over the settings: %v, %v, files %v", err, f.Given, f.Files)
	}
	kept["MUSTER_ISSUER"] = issuerBuiltIn
	if _, err := serveFlags(nil, getenv); err != nil {
		t.Errorf("the next start: %v", err)
	}
	if _, err := serveFlags([]string{"--step-ca-url", "https://other.example"}, getenv); err == nil {
		t.Error("took an argument for step-ca beside --issuer builtin")
	}
	delete(kept, "MUSTER_ISSUER")
	if _, err := serveFlags(nil, getenv); err == nil {
		t.Error("took the settings of step-ca without an issuer")
	}
}

func TestOpenIssuer(t *testing.T) {
	t.Parallel()
	db := kit.Store(t, nil)
	quiet := slog.New(slog.DiscardHandler)
	own, err := openAuthority(t.Context(), settings{}, quiet, db)
	if err != nil || own.issuer != authority.Issuer(own.authority) {
		t.Fatalf("without flags: %v, %T", err, own.issuer)
	}
	s := settings{Issuer: issuerStepCA, StepCA: stepca.Settings{
		URL: "https://127.0.0.1:1", RootFile: filepath.Join(t.TempDir(), "root.crt"), Provisioner: "nodes", KeyFile: "nodes.jwk",
	}}
	if _, err := openAuthority(t.Context(), s, quiet, db); err == nil || !strings.Contains(err.Error(), "step ca root") {
		t.Errorf("without a root: %v", err)
	}
	if err := os.WriteFile(s.StepCA.RootFile, []byte(own.authority.RootPEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openAuthority(t.Context(), s, quiet, db); err == nil || !strings.Contains(err.Error(), "provisioner's key") {
		t.Errorf("without a key: %v", err)
	}
}

// TestServeFiles: muster service install learns which flags name files, so that it can check them.
func TestServeFiles(t *testing.T) {
	dir := t.TempDir()
	args := "--tls-cert a --tls-key b --master-key-file c --issuer step-ca --step-ca-url https://ca.example --step-ca-root d " +
		"--step-ca-provisioner nodes --step-ca-key e --step-ca-cert f --bootstrap-registry r.example " +
		"--bootstrap-registry-credential g --data " + dir
	got, err := serveFlags(strings.Fields(args), func(string) string { return "" })
	want := map[string]bool{"tls-cert": true, "tls-key": true, "master-key-file": true, "step-ca-root": true, "step-ca-key": true,
		"step-ca-cert": true, "bootstrap-registry-credential": false}
	if err != nil || !maps.Equal(got.Files, want) {
		t.Errorf("%v, %v", got.Files, err)
	}
}
