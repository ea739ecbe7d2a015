package bootstrap_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/kit"
)

// TestTakeCredential: where the registry's credential comes from, and what ends it.
func TestTakeCredential(t *testing.T) {
	opened := kit.Store(t, nil)
	var log bytes.Buffer
	b := bootstrap.New(bootstrap.Config{Store: opened, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	named := func(flag string) string { return "--" + flag }
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
		err := b.TakeCredential(t.Context(), bootstrap.Settings{Registry: c.registry, CredentialFile: file}, named)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.err)
		}
		if !strings.Contains(log.String(), c.logged) || c.logged == "" && strings.Contains(log.String(), "WARN") ||
			strings.Contains(log.String(), "secret") {
			t.Errorf("%s: the log says %s", c.name, log.String())
		}
		if sealed, err := b.SealedRegistry(t.Context()); err != nil || (sealed != "" && sealed == c.registry) != c.sealed {
			t.Errorf("%s: sealed for %q, %v", c.name, sealed, err)
		}
	}
	if err := b.TakeCredential(t.Context(), bootstrap.Settings{Registry: "r.example", CredentialFile: dir}, named); err == nil ||
		!strings.Contains(err.Error(), "--bootstrap-registry-credential") {
		t.Errorf("a directory: %v", err)
	}
}
