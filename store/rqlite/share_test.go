package rqlite_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/store/engine"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
)

// crowd is a database in which one batch is on its way, and others wait for it.
type crowd struct {
	*testing.T
	*rqlite.DB
	node    *held
	callers sync.WaitGroup
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{T: t}
	c.DB, c.node = heldNode(t, "INSERT INTO t")
	must(t, c.Take(t.Context(), rqlite.Lease{}, rqlite.Claim{Gateway: "gw1"}))
	_, err := c.Batch(t.Context(), []engine.Statement{engine.Do(schema)})
	must(t, err)
	_, err = c.Batch(t.Context(), []engine.Statement{engine.Do("CREATE TABLE log (k TEXT) STRICT")})
	must(t, err)
	return c
}

// put stores a key and its trace.
func (c *crowd) put(ctx context.Context, key string, check func([]engine.Result, error)) {
	c.callers.Go(func() {
		check(c.Batch(ctx, []engine.Statement{put(key, "1"), engine.Do("INSERT INTO log VALUES (?)", key)}))
	})
	synctest.Wait()
}

func (c *crowd) keys() (keys []string) {
	c.Helper()
	rows, err := c.Query(c.Context(), engine.Do("SELECT k FROM log ORDER BY rowid"))
	must(c.T, err)
	for _, row := range rows {
		keys = append(keys, row[0].(string))
	}
	return keys
}

// TestWritesShare: batches that come while another one is on its way go together, in one transaction. Each caller gets its own results. One
// whose condition does not hold is told so alone, after the others are stored, and one that was withdrawn is not stored.
func TestWritesShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		defer c.Close()
		ctx, withdraw := context.WithCancel(t.Context())
		stored := func(key string) func([]engine.Result, error) {
			return func(r []engine.Result, err error) {
				if err != nil || len(r) != 2 || r[0].Affected != 1 || r[1].Affected != 1 {
					t.Errorf("%s: %v, %v", key, r, err)
				}
			}
		}
		refused := func(_ []engine.Result, err error) {
			if !errors.Is(err, engine.ErrConflict) {
				t.Errorf("a key that is there: %v", err)
			}
		}
		c.put(t.Context(), "first", stored("first"))
		c.put(t.Context(), "first", refused)
		c.put(t.Context(), "a", stored("a"))
		c.put(ctx, "withdrawn", func(_ []engine.Result, err error) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("who has withdrawn: %v", err)
			}
		})
		c.put(t.Context(), "a", refused)
		c.put(t.Context(), "b", stored("b"))
		if sent := c.node.sent.Load(); sent != 1 {
			t.Fatalf("%d batches are on their way", sent)
		}
		withdraw()
		synctest.Wait()
		close(c.node.pass)
		c.callers.Wait()
		// the first, the group, the group without each of two, and each of the two
		if sent := c.node.sent.Load(); sent != 6 {
			t.Errorf("%d requests", sent)
		}
		if keys := c.keys(); !slices.Equal(keys, []string{"first", "a", "b"}) {
			t.Errorf("stored: %q", keys)
		}
	})
}

// TestWritesShareAFate: what becomes of a request becomes of all batches in it. None is stored twice.
func TestWritesShareAFate(t *testing.T) {
	for name, c := range map[string]struct {
		fault rqlitetest.Fault
		want  string
		keys  int
	}{
		"the answer was lost": {rqlitetest.CutBatch, engine.ErrAnswerLost.Error(), 3},
		"the disk is full":    {rqlitetest.Full, "database or disk is full", 1},
		"it was closed":       {rqlitetest.None, engine.ErrClosed.Error(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCrowd(t)
				defer w.Close()
				w.put(t.Context(), "first", func(_ []engine.Result, err error) { must(t, err) })
				for _, key := range []string{"a", "b"} {
					w.put(t.Context(), key, func(_ []engine.Result, err error) {
						if err == nil || !strings.Contains(err.Error(), c.want) {
							t.Errorf("%s: %v", key, err)
						}
					})
				}
				if c.fault == rqlitetest.None {
					go w.Close()
					synctest.Wait()
				}
				w.node.pass <- struct{}{}
				synctest.Wait()
				w.node.Set(c.fault)
				if c.fault == rqlitetest.CutBatch {
					w.node.pass <- struct{}{}
					synctest.Wait()
					w.node.Set(rqlitetest.None)
				}
				close(w.node.pass)
				w.callers.Wait()
				w.node.Set(rqlitetest.None)
				var stored int
				must(t, w.node.DB.QueryRow("SELECT count(*) FROM log").Scan(&stored))
				if stored != c.keys {
					t.Errorf("%d are stored, want %d", stored, c.keys)
				}
			})
		})
	}
}

// TestWritesGoOn: a batch without an answer does not keep others waiting. Large ones do not share a request.
func TestWritesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		defer c.Close()
		stored := func(_ []engine.Result, err error) { must(t, err) }
		c.put(t.Context(), "first", stored)
		c.put(t.Context(), "a", stored)
		c.put(t.Context(), strings.Repeat("b", 300<<10), stored) // twice in its batch
		c.put(t.Context(), strings.Repeat("c", 300<<10), stored)
		if sent := c.node.sent.Load(); sent != 1 {
			t.Fatalf("%d batches are on their way", sent)
		}
		time.Sleep(600 * time.Millisecond)
		if sent := c.node.sent.Load(); sent != 2 {
			t.Errorf("%d batches after a while, want a second one beside the slow one", sent)
		}
		close(c.node.pass)
		c.callers.Wait()
		if sent := c.node.sent.Load(); sent != 3 {
			t.Errorf("%d batches, want 3: two large ones go apart", sent)
		}
	})
}

// TestTooLarge: a request that something in between refuses for its size is not sent again and again.
func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, n := active(t)
		n.Set(rqlitetest.TooLarge)
		began := time.Now()
		_, err := db.Batch(t.Context(), []engine.Statement{engine.Do("DELETE FROM t")})
		var outage *engine.Outage
		if !errors.As(err, &outage) || !strings.Contains(err.Error(), "status 413") || time.Since(began) > time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}
