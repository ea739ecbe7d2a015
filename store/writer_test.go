package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"muster/store"
)

// raw opens the database beside the store.
func raw(t testing.TB, path string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	must(t, err)
	t.Cleanup(func() { db.Close() })
	c, err := db.Conn(t.Context())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func execute(t testing.TB, c *sql.Conn, text string, args ...any) {
	t.Helper()
	_, err := c.ExecContext(t.Context(), text, args...)
	must(t, err)
}

func TestGroupIsolation(t *testing.T) {
	s := open(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name  string
		keys  []string
		ended int // index of the caller whose context has ended, -1 none
		want  []error
	}{
		{"all good", []string{"a", "b", "c"}, -1, []error{nil, nil, nil}},
		{"one guard fails", []string{"d", "", "e"}, -1, []error{nil, store.ErrConflict, nil}},
		{"two guards fail", []string{"", "f", ""}, -1, []error{store.ErrConflict, nil, store.ErrConflict}},
		{"alone and failing", []string{""}, -1, []error{store.ErrConflict}},
		{"a context ended", []string{"g", "withdrawn", "h"}, 1, []error{nil, context.Canceled, nil}},
		{"a context ended and a guard fails", []string{"withdrawn", "i", ""}, 0, []error{context.Canceled, nil, store.ErrConflict}},
	} {
		t.Run(c.name, func(t *testing.T) {
			contexts := slices.Repeat([]context.Context{t.Context()}, len(c.keys))
			if c.ended >= 0 {
				contexts[c.ended] = ended
			}
			got := store.SetMetaGroup(s, c.keys, contexts)
			for i, want := range c.want {
				wantError(t, got[i], want)
				if _, err := s.Meta(t.Context(), c.keys[i]); (err == nil) != (want == nil) {
					t.Errorf("key %q: stored is %v, want %v", c.keys[i], err == nil, want == nil)
				}
			}
			if _, err := s.Meta(t.Context(), "partial"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a failed batch left something behind: %v", err)
			}
		})
	}
}

func TestGroupMalformed(t *testing.T) {
	s := open(t)
	got := store.SetMetaGroup(s, []string{"a", "malformed", "b"}, slices.Repeat([]context.Context{t.Context()}, 3))
	if got[0] != nil || got[2] != nil {
		t.Errorf("neighbours got %v and %v", got[0], got[2])
	}
	if got[1] == nil || errors.Is(got[1], store.ErrConflict) {
		t.Errorf("a statement that does not compile got %v, want an error that is no conflict", got[1])
	}
}

func TestDiskFull(t *testing.T) {
	s := open(t)
	must(t, store.FillDisk(s))
	contexts := slices.Repeat([]context.Context{t.Context()}, 2)
	big := strings.Repeat("k", 1<<20)
	for i, err := range store.SetMetaGroup(s, []string{"small", big}, contexts) {
		if err == nil || !strings.Contains(err.Error(), "full") || errors.Is(err, store.ErrConflict) {
			t.Errorf("caller %d got %v, want an error that says the disk is full", i, err)
		}
	}
	if _, err := s.Meta(t.Context(), "small"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a batch that was told it failed is stored: %v", err)
	}
	must(t, s.SetMeta(t.Context(), "after", "v")) // on a new connection
	must(t, s.SetMeta(t.Context(), big, "v"))
}

func TestConcurrentWrites(t *testing.T) {
	s := open(t)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			name := fmt.Sprint("account-", i%150) // the last 50 meet names that are taken
			err := s.CreateAccount(t.Context(), store.Account{ID: fmt.Sprint("msa_", i), Name: name, CreatedAt: day()},
				store.Event{At: day(), Kind: "account.created", Tenant: name})
			if err != nil && !errors.Is(err, store.ErrConflict) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	accounts, err := s.Accounts(t.Context(), "")
	must(t, err)
	events := countEvents(t, s, store.EventQuery{Limit: 1000})
	if len(accounts) != 150 || events != 150 {
		t.Errorf("got %d accounts and %d events, want 150 of each", len(accounts), events)
	}
}

func TestContextEndsInQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	s := openAt(t, path)
	other := raw(t, path)
	execute(t, other, "BEGIN IMMEDIATE") // the writer now waits in its next commit
	first := make(chan error)
	go func() { first <- s.SetMeta(context.Background(), "first", "v") }()
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error)
	go func() { second <- s.SetMeta(ctx, "second", "v") }()
	cancel()
	execute(t, other, "COMMIT")
	must(t, <-first)
	// It may have been the one that the writer held, and then it is skipped or stored: what its caller is told has to be so.
	told := <-second
	_, err := s.Meta(t.Context(), "second")
	if (told == nil) != (err == nil) {
		t.Errorf("told %v, but reading says %v", told, err)
	}
	if told != nil {
		wantError(t, told, context.Canceled)
	}
}

func TestReadsDoNotWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	s := openAt(t, path)
	must(t, s.SetMeta(t.Context(), "k", "v"))
	other := raw(t, path)
	execute(t, other, "BEGIN IMMEDIATE")
	execute(t, other, "UPDATE meta SET value = 'uncommitted'")
	if got, err := s.Meta(t.Context(), "k"); err != nil || got != "v" {
		t.Errorf("got %q, %v while another process writes; want the committed value", got, err)
	}
	execute(t, other, "ROLLBACK")
}

func TestReadCancelled(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Meta(ctx, "k")
	wantError(t, err, context.Canceled)
	wantError(t, s.SetMeta(ctx, "k", "v"), context.Canceled)
}
