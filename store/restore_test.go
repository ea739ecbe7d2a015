package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/store"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func openKeyed(t *testing.T, path string, key byte) (*store.Store, error) {
	t.Helper()
	return store.Open(t.Context(), store.Options{Path: path, MasterKey: bytes.Repeat([]byte{key}, 32)})
}

// TestReseal: everything that is sealed opens under the new key alone, and after a scrub nothing of before is in the file.
func TestReseal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	s, err := openKeyed(t, path, 1)
	if err != nil {
		t.Fatal(err)
	}
	token := store.Token{ID: "mse_a", Tenant: "default", Uses: 1, Key: []byte("token key"), CreatedAt: noon, ExpiresAt: noon.Add(time.Hour)}
	noError(t, s.SetSecret(t.Context(), "one", []byte("first secret")), s.CreateToken(t.Context(), token),
		s.SetPSK(t.Context(), store.PSK{ID: "psk-1", Key: []byte("psk key"), Mark: []byte("psk mark"), CreatedAt: noon}))
	sealed, err := os.ReadFile(path + "-wal")
	noError(t, err, s.Reseal(t.Context(), bytes.Repeat([]byte{2}, 32), store.Event{At: noon, Kind: "master_key.rotated"}), s.Close())
	if _, err := openKeyed(t, path, 1); !errors.Is(err, store.ErrWrongMasterKey) {
		t.Errorf("the key before: %v", err)
	}
	s, err = openKeyed(t, path, 2)
	noError(t, err)
	defer s.Close()
	noError(t, s.Scrub(t.Context()))
	secret, err := s.Secret(t.Context(), "one")
	noError(t, err)
	kept, err := s.Token(t.Context(), "mse_a")
	noError(t, err)
	psk, err := s.PSK(t.Context(), "psk-1")
	noError(t, err)
	if string(secret) != "first secret" || string(kept.Key) != "token key" || string(psk.Key) != "psk key" ||
		string(psk.Mark) != "psk mark" {
		t.Errorf("got %q, %q, %q, %q", secret, kept.Key, psk.Key, psk.Mark)
	}
	if events, err := s.Events(t.Context(), store.EventQuery{}); err != nil || len(events) != 1 {
		t.Errorf("%d events, %v", len(events), err)
	}
	left := sealedTexts(t, path)
	for text := range sealedIn(sealed) {
		if left[text] {
			t.Errorf("a value that was sealed under the key before is still in the file")
		}
	}
	if len(left) == 0 || len(sealedIn(sealed)) < 3 {
		t.Errorf("%d sealed values before, %d after: the test looks in the wrong place", len(sealedIn(sealed)), len(left))
	}
}

func noError(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func sealedTexts(t *testing.T, path string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, name := range []string{path, path + "-wal"} {
		content, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for text := range sealedIn(content) {
			all[text] = true
		}
	}
	return all
}

// sealedIn finds the beginnings of sealed values.
func sealedIn(content []byte) map[string]bool {
	found := map[string]bool{}
	for {
		_, rest, ok := bytes.Cut(content, []byte("v1:"))
		if !ok || len(rest) < 24 {
			return found
		}
		found[string(rest[:24])] = true
		content = rest
	}
}

func TestResealRefuses(t *testing.T) {
	s, err := openKeyed(t, filepath.Join(t.TempDir(), "muster.db"), 1)
	noError(t, err)
	if err := s.Reseal(t.Context(), []byte("short")); err == nil {
		t.Error("a short key was taken")
	}
	noError(t, s.Close())
	if err := s.Reseal(t.Context(), bytes.Repeat([]byte{2}, 32)); err == nil {
		t.Error("a closed store was sealed anew")
	}
}

// TestRestoration: what a restore leaves on record, and what it ends.
func TestRestoration(t *testing.T) {
	s, err := openKeyed(t, filepath.Join(t.TempDir(), "muster.db"), 1)
	noError(t, err)
	defer s.Close()
	if _, err := s.Restoration(t.Context()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	if _, err := s.BackupAt(t.Context()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	earlier := noon.Add(-time.Hour)
	for _, token := range []store.Token{{ID: "mse_open", ExpiresAt: noon.Add(time.Hour)},
		{ID: "mse_over", ExpiresAt: noon.Add(-time.Minute)}, {ID: "mse_ended", ExpiresAt: noon.Add(time.Hour), RevokedAt: &earlier}} {
		token.Uses = 1
		token.Key = []byte("k")
		token.CreatedAt = earlier
		noError(t, s.CreateToken(t.Context(), token))
	}
	want := store.Restoration{At: noon, BackupAt: earlier, AdoptUntil: noon.Add(72 * time.Hour)}
	noError(t, s.NoteBackup(t.Context(), earlier), s.NoteRestore(t.Context(), want, store.Event{At: noon, Kind: "gateway.restored"}))
	if got, err := s.Restoration(t.Context()); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if at, err := s.BackupAt(t.Context()); err != nil || !at.Equal(earlier) {
		t.Errorf("got %v, %v", at, err)
	}
	for id, at := range map[string]*time.Time{"mse_open": &noon, "mse_over": nil, "mse_ended": &earlier} {
		token, err := s.Token(t.Context(), id)
		if err != nil || (token.RevokedAt == nil) != (at == nil) || at != nil && !token.RevokedAt.Equal(*at) {
			t.Errorf("%s: %+v, %v", id, token.RevokedAt, err)
		}
	}
	noError(t, s.SetMeta(t.Context(), "restored_at", "soon"))
	if _, err := s.Restoration(t.Context()); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("a time of air: %v", err)
	}
}

func TestAddMeta(t *testing.T) {
	s, err := openKeyed(t, filepath.Join(t.TempDir(), "muster.db"), 1)
	noError(t, err)
	defer s.Close()
	noError(t, s.AddMeta(t.Context(), "k", "v", store.Event{At: noon, Kind: "x"}))
	if err := s.AddMeta(t.Context(), "k", "w", store.Event{At: noon, Kind: "x"}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("twice: %v", err)
	}
	if events, err := s.Events(t.Context(), store.EventQuery{}); err != nil || len(events) != 1 {
		t.Errorf("%d events, %v", len(events), err)
	}
}
