package rqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/store"
	"muster/store/engine"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
	"muster/store/storetest"
)

// file is a database in a file, furnished for a load.
func file(t *testing.T, above int64) (path string, fence int64, counts map[string]int64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "muster.db")
	s, err := store.Open(t.Context(), store.Options{Path: path, MasterKey: storetest.MasterKey()})
	must(t, err)
	must(t, s.SetMeta(t.Context(), "of", "the file"))
	for range 2 { // what an earlier load left in it counts
		fence, err = rqlite.Furnish(t.Context(), s.Records(), above, rqlite.Claim{Gateway: "loader", Schema: 3})
		must(t, err)
	}
	counts, err = rqlite.Counts(t.Context(), s.Records())
	must(t, err)
	must(t, s.Close())
	return path, fence, counts
}

// TestLoad: a database that is loaded is the one that the nodes have, with all its rows and triggers. Who held the lease is deposed, and
// another one takes it. A lost answer is no failure, and nothing is sent twice.
func TestLoad(t *testing.T) {
	for _, fault := range []rqlitetest.Fault{rqlitetest.None, rqlitetest.CutAfter} {
		before, n := active(t)
		db := open(t, n)
		path, fence, counts := file(t, 100)
		if fence < 200_000 {
			t.Errorf("the fence is %d", fence)
		}
		n.Set(fault)
		done := make(chan error, 1)
		go func() { done <- db.Load(t.Context(), path, fence) }()
		if fault != rqlitetest.None {
			for !strings.Contains(strings.Join(n.Paths(), " "), "/db/load") {
				time.Sleep(time.Millisecond)
			}
			n.Set(rqlitetest.None)
		}
		must(t, <-done)
		if loads := strings.Count(strings.Join(n.Paths(), " "), "/db/load"); loads != 1 {
			t.Errorf("it was sent %d times", loads)
		}
		must(t, rqlite.Same(t.Context(), db, counts))
		if _, err := before.Batch(t.Context(), []engine.Statement{engine.Do("SELECT 1")}); !errors.Is(err, rqlite.ErrDeposed) {
			t.Errorf("the holder from before: %v", err)
		}
		if _, err := db.Batch(t.Context(), []engine.Statement{engine.Do("SELECT 1")}); err != nil || !db.Holds() {
			t.Errorf("who has loaded it: %v", err)
		}
		next := storetest.Take(t, "127.0.0.1:4001", n)
		if next.Fence() != fence+1 {
			t.Errorf("the next fence is %d, after %d", next.Fence(), fence)
		}
		s, err := store.Open(t.Context(), store.Options{Cluster: next, MasterKey: storetest.MasterKey()})
		must(t, err)
		if of, err := s.Meta(t.Context(), "of"); of != "the file" || err != nil {
			t.Errorf("got %q, %v", of, err)
		}
		must(t, s.Close())
		counts["meta"]++
		if err := rqlite.Same(t.Context(), open(t, n), counts); err == nil || !strings.Contains(err.Error(), "same rows") {
			t.Errorf("another number of rows: %v", err)
		}
	}
}

// TestLoadFails: a database that the nodes have not taken is an error, whatever they say.
func TestLoadFails(t *testing.T) {
	for fault, want := range map[rqlitetest.Fault]string{rqlitetest.Refused: "refused", rqlitetest.CutBefore: "have not taken",
		rqlitetest.Leaderless: "no leader", rqlitetest.Unauthorized: "refuses this user", rqlitetest.Elsewhere: "status 301"} {
		path, fence, _ := file(t, 1)
		synctest.Test(t, func(t *testing.T) {
			db, n := active(t)
			n.Set(fault)
			go func() {
				time.Sleep(20 * time.Second)
				n.Set(rqlitetest.None)
			}()
			if err := db.Load(t.Context(), path, fence); err == nil || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			n.Set(rqlitetest.None)
			if text := content(t, n); text != "" {
				t.Errorf("the table has %s", text)
			}
			time.Sleep(time.Minute)
		})
	}
}

// TestStrip: a copy that is to be no shared store has nothing of one.
func TestStrip(t *testing.T) {
	path, _, counts := file(t, 1)
	s, err := store.Open(t.Context(), store.Options{Path: path, MasterKey: storetest.MasterKey()})
	must(t, err)
	defer s.Close()
	must(t, rqlite.Strip(t.Context(), s.Records()))
	must(t, rqlite.Same(t.Context(), s.Records(), counts))
	rows, err := s.Records().Query(t.Context(), engine.Do("SELECT name FROM sqlite_master WHERE tbl_name IN ('lease', 'batches')"))
	if err != nil || len(rows) > 0 {
		t.Errorf("left: %v, %v", rows, err)
	}
}
