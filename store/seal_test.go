package store_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"muster/store"
)

func TestSwappedSecretsDoNotOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	s := openAt(t, path)
	ctx := t.Context()
	must(t, s.CreateToken(ctx, token("mse_a", 1)))
	must(t, s.CreateToken(ctx, token("mse_b", 1)))
	must(t, s.SetSecret(ctx, "a", []byte("1")))
	must(t, s.SetSecret(ctx, "b", []byte("2")))
	must(t, s.SetPSK(ctx, store.PSK{ID: "psk-a", Key: []byte("3"), Mark: []byte("4"), CreatedAt: day()}))
	c := raw(t, path)
	execute(t, c, "UPDATE tokens SET key = (SELECT key FROM tokens WHERE id = 'mse_b') WHERE id = 'mse_a'")
	execute(t, c, "UPDATE secrets SET value = (SELECT value FROM secrets WHERE name = 'b') WHERE name = 'a'")
	execute(t, c, "UPDATE psks SET id = 'psk-b'")
	for _, read := range []struct {
		what string
		do   func() error
	}{
		{"token", func() error { _, err := s.Token(ctx, "mse_a"); return err }},
		{"secret", func() error { _, err := s.Secret(ctx, "a"); return err }},
		{"secret once", func() error { _, err := s.SecretOnce(ctx, "a", []byte("1")); return err }},
		{"psk", func() error { _, err := s.PSK(ctx, "psk-b"); return err }},
		{"psks", func() error { _, err := s.PSKs(ctx); return err }},
	} {
		if err := read.do(); err == nil {
			t.Errorf("%s: a value from another row opened", read.what)
		}
	}
	if _, err := s.Token(ctx, "mse_b"); err != nil {
		t.Errorf("the untouched row: %v", err)
	}
}

func TestRowMismatch(t *testing.T) {
	good := []any{"text", int64(1), int64(1), int64(1), nil, "AAAA", "{}"}
	must(t, store.ReadAll(good...))
	for i, wrong := range []any{int64(1), "x", "x", "x", "x", "not base64", "not json"} {
		values := append([]any{}, good...)
		values[i] = wrong
		if err := store.ReadAll(values...); err == nil {
			t.Errorf("column %d: %v was read", i, fmt.Sprintf("%T", wrong))
		}
	}
	if err := store.ReadAll(good[:3]...); err == nil {
		t.Error("columns that are not there were read")
	}
}

// TestSecretNames: names are listed by prefix, in order, and other secrets are not.
func TestSecretNames(t *testing.T) {
	s := open(t)
	for _, name := range []string{"registry/b", "registry/a", "registryx", "other/registry/"} {
		must(t, s.SetSecret(t.Context(), name, []byte("v")))
	}
	names, err := s.Secrets(t.Context(), "registry/")
	if err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("got %v, %v", names, err)
	}
}
