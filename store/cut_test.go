package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"muster/store"
	"muster/store/engine"
	"muster/store/rqlite/rqlitetest"
	"muster/store/storetest"
)

// stopping is the way to a node of rqlite that does so many writes and no more: then the process that writes ends, as it seems to the node.
type stopping struct {
	*rqlitetest.Node
	left int
	stop func()
}

func (s *stopping) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/db/execute" {
		if s.left--; s.left < 0 {
			s.stop()
			return nil, errors.New("stopped")
		}
	}
	return s.Node.RoundTrip(r)
}

// cut opens a store on a node with a master key. run runs a write on it that is stopped after so many batches; -1: it is not.
func cut(t *testing.T, node *rqlitetest.Node, key []byte, writes int, run func(context.Context, *store.Store) error) error {
	t.Helper()
	way := &stopping{Node: node, left: 1 << 30}
	db := storetest.Take(t, "127.0.0.1:4001", way)
	s, err := store.Open(t.Context(), store.Options{Cluster: db, MasterKey: key, Now: day})
	if err != nil {
		return err
	}
	defer s.Close()
	if writes >= 0 {
		way.left = writes
		way.stop = func() { go s.Close() }
	}
	return run(t.Context(), s)
}

// TestResealInPieces: resealing that is stopped between two pieces goes on when it is done again, and until then the old key opens the store.
func TestResealInPieces(t *testing.T) {
	node := rqlitetest.New(t)
	next := bytes.Repeat([]byte{9}, 32)
	names := make([]string, 2*engine.Piece+1)
	must(t, cut(t, node, masterKey(), -1, func(ctx context.Context, s *store.Store) error {
		for i := range names {
			names[i] = fmt.Sprint("secret-", i)
			if err := s.SetSecret(ctx, names[i], []byte(names[i])); err != nil {
				return err
			}
		}
		return nil
	}))
	reseal := func(ctx context.Context, s *store.Store) error {
		return s.Reseal(ctx, next, store.Event{At: day(), Kind: "master_key.rotated"})
	}
	none := func(context.Context, *store.Store) error { return nil }
	for _, writes := range []int{1, 0} { // of the first try one piece is stored, of the second nothing
		if cut(t, node, masterKey(), writes, reseal) == nil {
			t.Fatal("a stop between two pieces: got no error")
		}
		wantError(t, cut(t, node, next, -1, none), store.ErrWrongMasterKey)
	}
	must(t, cut(t, node, masterKey(), -1, reseal))
	wantError(t, cut(t, node, masterKey(), -1, none), store.ErrWrongMasterKey)
	must(t, cut(t, node, next, -1, func(ctx context.Context, s *store.Store) error {
		for _, name := range names {
			if got, err := s.Secret(ctx, name); err != nil || string(got) != name {
				t.Fatalf("%s is %q, %v", name, got, err)
			}
		}
		if n := countEvents(t, s, store.EventQuery{Kind: "master_key.rotated"}); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
		return nil
	}))
}

// TestRestoreInPieces: a restore that is stopped between two pieces is not on record, and the same again ends what is left.
func TestRestoreInPieces(t *testing.T) {
	node := rqlitetest.New(t)
	const many = engine.Piece + 1
	must(t, cut(t, node, masterKey(), -1, func(ctx context.Context, s *store.Store) error {
		for i := range many {
			if err := s.CreateToken(ctx, token(fmt.Sprint("mse_", i), 1)); err != nil {
				return err
			}
		}
		must(t, s.CreateToken(ctx, token("mse_many", 1)))
		must(t, s.Enrol(ctx, enrolment("mse_many", "n")))
		for i := range many {
			q := queued(fmt.Sprint("task-", i), "n")
			q.Repeats = 3
			must(t, s.CreateTask(ctx, q))
		}
		return nil
	}))
	restored := store.Restoration{At: after(time.Minute), BackupAt: day(), AdoptUntil: after(time.Hour)}
	note := func(ctx context.Context, s *store.Store) error {
		return s.NoteRestore(ctx, restored, store.Event{At: day(), Kind: "gateway.restored"})
	}
	left := func(tasks, repeated, tokens, noted int) {
		t.Helper()
		must(t, cut(t, node, masterKey(), -1, func(ctx context.Context, s *store.Store) error {
			count := func(query string) int {
				rows, err := s.Records().Query(ctx, engine.Do(query))
				must(t, err)
				return len(rows)
			}
			got := fmt.Sprint(count("SELECT 1 FROM tasks WHERE finished_at IS NULL"), count("SELECT 1 FROM tasks WHERE repeats > 0"),
				count("SELECT 1 FROM tokens WHERE revoked_at IS NULL"), count("SELECT 1 FROM events WHERE kind = 'gateway.restored'"))
			if want := fmt.Sprint(tasks, repeated, tokens, noted); got != want {
				t.Errorf("open tasks, those that are repeated, usable tokens, restores: %s, want %s", got, want)
			}
			if n := count("SELECT 1 FROM events WHERE kind = 'task.lost'"); n != many-tasks {
				t.Errorf("%d events of lost tasks, want %d", n, many-tasks)
			}
			if _, err := s.Restoration(ctx); (err == nil) != (noted == 1) {
				t.Errorf("noted %d: %v", noted, err)
			}
			return nil
		}))
	}
	left(many, many, many+1, 0)
	for _, try := range []struct{ writes, tasks, repeated, tokens int }{{0, many, many, many + 1}, {1, 1, many, many + 1}, {4, 0, 0, 2}} {
		if cut(t, node, masterKey(), try.writes, note) == nil {
			t.Fatal("a stop between two pieces: got no error")
		}
		left(try.tasks, try.repeated, try.tokens, 0)
	}
	must(t, cut(t, node, masterKey(), -1, note))
	left(0, 0, 0, 1)
}
