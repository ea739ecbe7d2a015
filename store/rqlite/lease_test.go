package rqlite_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/store/engine"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
)

// TestSuspended: a lease ends by the wall clock too, for the other one may have stood still while the machine was suspended. A wall clock
// that is set back makes it no longer.
func TestSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jump atomic.Int64
		db, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: []string{"127.0.0.1:4001"}, Transport: rqlitetest.New(t),
			Now: func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }})
		must(t, err)
		defer db.Close()
		must(t, db.Take(t.Context(), rqlite.Lease{}, rqlite.Claim{Gateway: "gw1"}))
		jump.Store(int64(3 * time.Second))
		if !db.Holds() {
			t.Error("the lease is lost after 3 s")
		}
		jump.Store(int64(5 * time.Second))
		if db.Holds() {
			t.Error("the lease is held after 5 s of the wall clock")
		}
		jump.Store(int64(-time.Hour))
		if !db.Holds() {
			t.Error("the lease is lost by a clock that was set back")
		}
		time.Sleep(5 * time.Second)
		if db.Holds() {
			t.Error("a clock that was set back makes the lease longer")
		}
	})
}

// TestPutBack: nodes that were put back to an earlier state under the same lease end it: what its holder knows is not what they have.
func TestPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, n := active(t)
		over := make(chan error, 1)
		go func() { over <- db.Hold(t.Context()) }()
		time.Sleep(10*time.Second + time.Millisecond)
		var beat int64
		must(t, n.DB.QueryRow("SELECT beat FROM lease").Scan(&beat))
		if db.Beat() != beat || beat < 10 {
			t.Errorf("the beat is %d, and the holder knows of %d", beat, db.Beat())
		}
		_, err := n.DB.Exec("UPDATE lease SET beat = beat - 5")
		must(t, err)
		if err := <-over; !errors.Is(err, rqlite.ErrDeposed) || db.Holds() {
			t.Errorf("got %v", err)
		}
	})
}

// TestFresh: a read that a write's decision stands on waits for all that is stored, and never without a limit. So does the one by which a
// gateway learns that it has the lease.
func TestFresh(t *testing.T) {
	db, n := active(t)
	queries := func(from int) (all []string) {
		for _, path := range n.Paths()[from:] {
			if strings.HasPrefix(path, "/db/query") {
				all = append(all, path)
			}
		}
		return all
	}
	const limited = "level=linearizable&linearizable_timeout="
	if taken := queries(0); len(taken) != 1 || !strings.Contains(taken[0], limited) {
		t.Errorf("the lease was read with %q", taken)
	}
	before := len(n.Paths())
	_, err := db.Query(t.Context(), engine.Do("SELECT 1"))
	must(t, err)
	_, err = db.Query(engine.Fresh(t.Context()), engine.Do("SELECT 1"))
	must(t, err)
	if got := queries(before); len(got) != 2 || !strings.Contains(got[0], "level=weak") || !strings.Contains(got[1], limited) {
		t.Errorf("got %q", got)
	}
}
