package rqlite_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/store/engine"
	"muster/store/rqlite/rqlitetest"
)

// TestReadsAfterElection: while all is well a read is one request. After a request without an answer a leader may be new, and the next read
// waits until it has applied all: once.
func TestReadsAfterElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, n := active(t)
		read := func() (levels string) {
			t.Helper()
			before := len(n.Paths())
			_, err := db.Query(t.Context(), engine.Do("SELECT k FROM t"))
			must(t, err)
			for _, path := range n.Paths()[before:] {
				_, level, _ := strings.Cut(path, "level=")
				level, _, _ = strings.Cut(level, "&")
				levels += " " + level
			}
			return levels
		}
		if got := read(); got != " weak" {
			t.Errorf("a read asks%s", got)
		}
		for _, fault := range []rqlitetest.Fault{rqlitetest.Refused, rqlitetest.Leaderless, rqlitetest.CutAfter} {
			n.Set(fault)
			done := make(chan error, 1)
			go func() {
				_, err := db.Batch(t.Context(), []engine.Statement{engine.Do("DELETE FROM t")})
				done <- err
			}()
			time.Sleep(time.Second)
			n.Set(rqlitetest.None)
			if err := <-done; err != nil && !errors.Is(err, engine.ErrAnswerLost) {
				t.Fatal(err)
			}
			if got := read() + read(); got != " linearizable weak weak" {
				t.Errorf("after a failure (%d) reads ask%s", fault, got)
			}
		}
	})
}
