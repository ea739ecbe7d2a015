//go:build real

package rqlite_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"muster/store/engine"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
)

// TestRealReadsOwnWrites: the leader dies as soon as it has acknowledged a write, and the next one is asked from its first moment on. No read
// misses what was acknowledged before it began.
func TestRealReadsOwnWrites(t *testing.T) {
	c := rqlitetest.NewNodes(t, 3)
	db, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: c.HTTP})
	must(t, err)
	defer db.Close()
	must(t, db.Take(t.Context(), rqlite.Lease{}, rqlite.Claim{Gateway: "gw1"}))
	_, err = db.Batch(t.Context(), []engine.Statement{engine.Do(schema)})
	must(t, err)
	for i := range 5 {
		at := c.Leader()
		key := fmt.Sprint(i)
		_, err = db.Batch(t.Context(), []engine.Statement{put(key, "x")})
		must(t, err)
		c.Kill(at)
		var readers sync.WaitGroup
		for n := range 40 {
			readers.Go(func() {
				<-time.After(time.Duration(n) * 5 * time.Millisecond) // so that they ask in turn
				rows, err := db.Query(t.Context(), engine.Do("SELECT v FROM t WHERE k = ?", key))
				if err != nil || len(rows) != 1 {
					t.Errorf("write %d, reader %d: %v, %v", i, n, rows, err)
				}
			})
		}
		readers.Wait()
		c.Start(at)
	}
}
