package masterkey

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"muster/store"
)

// TestDamaged: whoever starts a gateway on a damaged database learns what to do next.
func TestDamaged(t *testing.T) {
	for name, damage := range map[string]func(text []byte) []byte{
		"another file":   func([]byte) []byte { return []byte("not a database at all, but long enough to be looked at") },
		"an overwritten": func(text []byte) []byte { return append(text[:100:100], make([]byte, len(text)-100)...) },
		"a cut off":      func(text []byte) []byte { return text[:len(text)/2] },
	} {
		s := Source{Data: t.TempDir(), Getenv: nothing, Say: io.Discard}
		sealed(t, s, "x")
		text, err := os.ReadFile(s.database())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.database(), damage(text), 0o600); err != nil {
			t.Fatal(err)
		}
		opened, err := s.Open(t.Context())
		if err == nil {
			opened.Close()
		}
		if !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range []string{s.database(), "muster restore FILE --data " + s.Data + " --force", "muster help lost-gateway"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, which does not say %s", name, err, want)
			}
		}
	}
}
