package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/store"
	"muster/store/storetest"
)

// day is when the tests take place; every time in them is counted from it.
func day() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

func after(d time.Duration) time.Time { return day().Add(d) }

func pointer[T any](v T) *T { return &v }

func masterKey() []byte { return bytes.Repeat([]byte{7}, 32) }

// open returns a store in a new directory.
func open(t testing.TB) *store.Store {
	t.Helper()
	return storetest.Open(t, day)
}

func openAt(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: path, MasterKey: masterKey(), Now: day})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// must stops the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError checks an error that callers branch on; nil wants none.
func wantError(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

// token is a token of the tenant default with these uses, an hour long.
func token(id string, uses int) store.Token {
	return store.Token{ID: id, Tenant: "default", Uses: uses, Key: []byte("key of " + id), CreatedAt: day(), ExpiresAt: after(time.Hour),
		CreatedBy: "operator:socket"}
}

// enrolment makes a new node with a use of a token; every part of it is named after the node.
func enrolment(credential, name string) store.Enrolment {
	return store.Enrolment{
		ID: "enrolment-" + name, Credential: credential, ConsumeToken: true, KeyHash: "key-" + name, Address: "192.0.2.1",
		At:      after(time.Minute),
		Node:    store.Node{ID: "id-" + name, Name: name, Tenant: "default", State: "enrolled"},
		NewNode: true,
		Certificate: store.Certificate{Fingerprint: "print-" + name, PublicKey: []byte("public " + name), Chain: "chain of " + name,
			NotBefore: day(), NotAfter: after(24 * time.Hour), IssuedAt: after(time.Minute)},
		Agent: `{"version":"1.0"}`,
		Events: []store.Event{{At: after(time.Minute), Kind: "node.enrolled", Actor: "token:" + credential, NodeID: "id-" + name,
			NodeName: name,
			Tenant:   "default", Address: "192.0.2.1", Outcome: "ok", Security: true}},
	}
}

// enrolled returns a store with one token of many uses and these nodes.
func enrolled(t testing.TB, names ...string) *store.Store {
	t.Helper()
	s := open(t)
	must(t, s.CreateToken(t.Context(), token("mse_many", 1000)))
	for _, name := range names {
		must(t, s.Enrol(t.Context(), enrolment("mse_many", name)))
	}
	return s
}

func node(t testing.TB, s *store.Store, idOrName string) store.Node {
	t.Helper()
	n, err := s.Node(t.Context(), "", idOrName)
	must(t, err)
	return n
}

func countEvents(t testing.TB, s *store.Store, q store.EventQuery) int {
	t.Helper()
	events, err := s.Events(t.Context(), q)
	must(t, err)
	return len(events)
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	sealed := filepath.Join(dir, "sealed.db")
	must(t, openAt(t, sealed).Close())
	notDatabase := filepath.Join(dir, "text.db")
	must(t, os.WriteFile(notDatabase, bytes.Repeat([]byte("not a database "), 1000), 0o600))
	for _, c := range []struct {
		name, path string
		key        []byte
		want       error
		text       string
	}{
		{"wrong master key", sealed, bytes.Repeat([]byte{8}, 32), store.ErrWrongMasterKey, "sealed.db"},
		{"short master key", sealed, []byte("short"), nil, "5 bytes, want 32"},
		{"no directory", filepath.Join(dir, "none", "muster.db"), masterKey(), os.ErrNotExist, "database file"},
		{"not a database", notDatabase, masterKey(), nil, "not a database"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := store.Open(t.Context(), store.Options{Path: c.path, MasterKey: c.key})
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			if c.want != nil {
				wantError(t, err, c.want)
			}
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %q, want it to say %q", err, c.text)
			}
		})
	}
	openAt(t, sealed) // a refusal leaves the database as it was
}

func TestOpenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.Open(ctx, store.Options{Path: filepath.Join(t.TempDir(), "muster.db"), MasterKey: masterKey()})
	wantError(t, err, context.Canceled)
}

func TestFileModes(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, filepath.Join(dir, "odd ?#% name.db"))
	must(t, s.SetMeta(t.Context(), "k", "v"))
	must(t, s.Backup(t.Context(), filepath.Join(dir, "copy.db")))
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 4 { // database, -wal, -shm, copy
		t.Errorf("got %d files, want 4: %v", len(entries), entries)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		must(t, err)
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has mode %o, want 600", entry.Name(), got)
		}
	}
}

func TestClosed(t *testing.T) {
	s := open(t)
	must(t, s.Ready(t.Context()))
	must(t, s.Close())
	must(t, s.Close())
	wantError(t, s.Ready(t.Context()), store.ErrClosed)
	if _, err := s.Meta(t.Context(), "ready_at"); err == nil {
		t.Error("a closed store answered a read")
	}
}

func TestBackup(t *testing.T) {
	s := enrolled(t, "a", "b")
	path := filepath.Join(t.TempDir(), "it's a copy.db")
	must(t, s.Backup(t.Context(), path))
	if err := s.Backup(t.Context(), path); !errors.Is(err, os.ErrExist) {
		t.Errorf("second backup to the same file: got %v, want %v", err, os.ErrExist)
	}
	if err := s.Backup(t.Context(), filepath.Join(path, "x")); err == nil {
		t.Error("a backup below a file was made")
	}
	copied := openAt(t, path)
	if got := node(t, copied, "b").ID; got != "id-b" {
		t.Errorf("got node %q in the copy, want id-b", got)
	}
	got, err := copied.Token(t.Context(), "mse_many")
	must(t, err)
	if string(got.Key) != "key of mse_many" {
		t.Errorf("got key %q in the copy", got.Key)
	}
}

func TestBackupCancelled(t *testing.T) {
	s := enrolled(t, "a")
	path := filepath.Join(t.TempDir(), "copy.db")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, s.Backup(ctx, path), context.Canceled)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failed backup left a file: %v", err)
	}
}

func TestMeta(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	_, err := s.Meta(ctx, "k")
	wantError(t, err, store.ErrNotFound)
	for _, c := range []struct{ value, want string }{{"first", "first"}, {"second", "first"}} {
		got, err := s.MetaOnce(ctx, "k", c.value)
		must(t, err)
		if got != c.want {
			t.Errorf("MetaOnce(%q) = %q, want %q", c.value, got, c.want)
		}
	}
	for _, value := range []string{"third", "x'48'", "", "['a'] \x01 ü 雪", strings.Repeat("long ", 10000)} {
		must(t, s.SetMeta(ctx, "k", value))
		got, err := s.Meta(ctx, "k")
		must(t, err)
		if got != value {
			t.Errorf("got %.40q back, want %.40q", got, value)
		}
	}
	must(t, s.Ready(ctx))
	if got, err := s.Meta(ctx, "ready_at"); err != nil || got != fmt.Sprint(day().UnixMilli()) {
		t.Errorf("ready_at = %q, %v", got, err)
	}
}

func TestSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	s := openAt(t, path)
	ctx := t.Context()
	_, err := s.Secret(ctx, "trust")
	wantError(t, err, store.ErrNotFound)
	for _, value := range []string{"plain-secret-1", "plain-secret-2"} {
		got, err := s.SecretOnce(ctx, "trust", []byte(value))
		must(t, err)
		if string(got) != "plain-secret-1" {
			t.Errorf("SecretOnce(%q) = %q, want the first", value, got)
		}
	}
	must(t, s.SetSecret(ctx, "trust", []byte("plain-secret-3")))
	got, err := s.Secret(ctx, "trust")
	must(t, err)
	if string(got) != "plain-secret-3" {
		t.Errorf("got %q", got)
	}
	must(t, s.Close())
	for _, file := range []string{path, path + "-wal"} {
		raw, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		must(t, err)
		if bytes.Contains(raw, []byte("plain-secret")) {
			t.Errorf("%s holds a secret in the clear", filepath.Base(file))
		}
	}
}
