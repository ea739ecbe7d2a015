package authority_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"muster/agent/disk/disktest"
	"muster/gateway/internal/authority"
)

// TestPowerCuts: a key that has left the database is in its file after a loss of power at any step. The database is on another disk here,
// and loses nothing.
func TestPowerCuts(t *testing.T) {
	for name, c := range map[string]struct {
		export func(a *authority.Authority, path string) error
		back   func(a *authority.Authority, path string) error
	}{
		"root": {func(a *authority.Authority, path string) error { return a.ExportRoot(t.Context(), path) },
			func(_ *authority.Authority, path string) error {
				_, err := tls.LoadX509KeyPair(filepath.Join(path, authority.RootCertificateFile), filepath.Join(path, authority.RootKeyFile))
				return err
			}},
		"trust": {func(a *authority.Authority, path string) error {
			return a.ExportTrustKey(t.Context(), filepath.Join(path, "key"))
		},
			func(a *authority.Authority, path string) error {
				return a.ImportTrustKey(t.Context(), filepath.Join(path, "key"))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			var a *authority.Authority
			left := false
			disktest.CutEverywhere(t, func(m *disktest.Machine) {
				if err := os.Mkdir(filepath.Join(m.Dir, "keys"), 0o700); err != nil {
					t.Fatal(err)
				}
			}, func(m *disktest.Machine) {
				s := newStore(t)
				cut, err := authority.Open(t.Context(), authority.Config{Store: s, Now: newClock().Now, Disk: m.Steps})
				if err != nil {
					t.Fatal(err)
				}
				_ = c.export(cut, filepath.Join(m.Dir, "keys"))
				a = open(t, s, newClock().Now)
				left = c.export(a, t.TempDir()) != nil // it is not in the database any more
			}, func(dir, happened string) {
				if err := c.back(a, filepath.Join(dir, "keys")); left && err != nil {
					t.Errorf("%s: %v", happened, err)
				}
			})
		})
	}
}
