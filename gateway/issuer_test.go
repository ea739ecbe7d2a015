package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/authority/stepca"
	"muster/store"
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
		if err == nil && strings.Contains(test.args, "step-ca") && s.stepCA.KeyFile != "nodes.jwk" {
			t.Errorf("%s: %+v", test.args, s.stepCA)
		}
	}
	_, err := parseSettings(nil, func(name string) string { return map[string]string{"MUSTER_ISSUER": "step-ca"}[name] }, nil)
	if err == nil || !strings.Contains(err.Error(), "needs --step-ca-url") {
		t.Errorf("from the environment: %v", err)
	}
}

func TestOpenIssuer(t *testing.T) {
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "muster.db"), MasterKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	g := &gateway{store: db, log: slog.New(slog.DiscardHandler)}
	if g.authority, err = authority.Open(t.Context(), authority.Config{Store: db}); err != nil {
		t.Fatal(err)
	}
	if err := g.openIssuer(); err != nil || g.issuer != authority.Issuer(g.authority) {
		t.Errorf("without flags: %v, %T", err, g.issuer)
	}
	g.settings = settings{issuer: issuerStepCA, stepCA: stepca.Settings{
		URL: "https://127.0.0.1:1", RootFile: filepath.Join(t.TempDir(), "root.crt"), Provisioner: "nodes", KeyFile: "nodes.jwk",
	}}
	if err := g.openIssuer(); err == nil || !strings.Contains(err.Error(), "step ca root") {
		t.Errorf("without a root: %v", err)
	}
	if err := os.WriteFile(g.settings.stepCA.RootFile, []byte(g.authority.RootPEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.openIssuer(); err == nil || !strings.Contains(err.Error(), "provisioner's key") {
		t.Errorf("without a key: %v", err)
	}
}
