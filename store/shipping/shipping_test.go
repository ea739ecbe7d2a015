package shipping_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"muster/store"
	"muster/store/shipping"
)

// TestRules: the rules are listed by name, and other secrets are not.
func TestRules(t *testing.T) {
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "muster.db"), MasterKey: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, name := range []string{shipping.SecretName("prod"), "another", shipping.SecretName("lab")} {
		if err := s.SetSecret(t.Context(), name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	names, err := shipping.New(s.Records()).Rules(t.Context())
	if err != nil || !slices.Equal(names, []string{"lab", "prod"}) {
		t.Errorf("%v, error %v", names, err)
	}
}
