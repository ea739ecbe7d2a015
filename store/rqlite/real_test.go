//go:build real

package rqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"muster/store/engine"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
	"muster/store/storetest"
)

// TestRealNode: what stands in for a node in the other tests answers as a node does.
func TestRealNode(t *testing.T) {
	c := rqlitetest.NewNodes(t, 1)
	rqlitetest.Empty(t, c.HTTP[0])
	stands := rqlitetest.New(t)
	answers := func(db *rqlite.DB) (all []string) {
		note := func(results any, err error) {
			if err != nil {
				results = errors.Is(err, engine.ErrConflict)
			}
			all = append(all, fmt.Sprintf("%v", results))
		}
		for _, batch := range [][]engine.Statement{
			{engine.Do(schema)},
			{put("a", "1"), put("b", ""), engine.Do("DELETE FROM t WHERE k = 'none'")},
			{put("a", "2")},
			{engine.Guard("(SELECT count(*) FROM t) = ?", int64(7))},
			{engine.Do("NONSENSE")},
			{engine.Do("UPDATE t SET v = v || 'x'")},
			{put("c", "x'48'"), put("d", " X'' "), put("e", "\u00e9\u0000\u2028")},
		} {
			note(db.Batch(t.Context(), batch))
		}
		for _, query := range []string{"SELECT k, v FROM t ORDER BY k", "SELECT 1 WHERE 0", "SELECT NULL, 9007199254740993", "NONSENSE"} {
			note(db.Query(t.Context(), engine.Do(query)))
		}
		return all
	}
	real, stand := answers(storetest.Take(t, c.HTTP[0], nil)), answers(storetest.Take(t, "127.0.0.1:4001", stands))
	for i := range real {
		if real[i] != stand[i] {
			t.Errorf("answer %d: a node gives\n%s\nand what stands in for it\n%s", i, real[i], stand[i])
		}
	}
}

// TestRealStore: the tests of the store, over three nodes.
func TestRealStore(t *testing.T) {
	c := rqlitetest.NewNodes(t, 3)
	q := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-p=1", "muster/store", "muster/store/alerts", "muster/store/costs",
		"muster/store/health", "muster/store/registry", "muster/store/releases", "muster/store/sessions")
	q.Env = append(os.Environ(), storetest.Engine+"="+c.HTTP[c.Leader()])
	if out, err := q.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRealLeaderKilled: the leader is killed again and again while eight writers write. All that was acknowledged is there, and nothing of
// what was said not to be stored.
func TestRealLeaderKilled(t *testing.T) {
	c := rqlitetest.NewNodes(t, 3)
	db, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: c.HTTP})
	must(t, err)
	defer db.Close()
	must(t, db.Take(t.Context(), rqlite.Lease{}, rqlite.Claim{Gateway: "gw1"}))
	_, err = db.Batch(t.Context(), []engine.Statement{engine.Do(schema)})
	must(t, err)

	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var mu sync.Mutex
	stored, not, lost := map[string]bool{}, map[string]bool{}, 0
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("%d-%d", w, i)
				_, err := db.Batch(context.Background(), []engine.Statement{put(key, "x")})
				var outage *engine.Outage
				mu.Lock()
				switch {
				case err == nil:
					stored[key] = true
				case errors.Is(err, engine.ErrAnswerLost):
					stored[key] = true
					lost++
				case errors.As(err, &outage):
					not[key] = true
				default:
					t.Errorf("%s: %v", key, err)
				}
				mu.Unlock()
			}
		})
	}
	const kills = 6
	for range kills {
		at := c.Leader()
		<-time.After(2 * time.Second)
		c.Kill(at)
		<-time.After(5 * time.Second)
		c.Start(at)
		<-time.After(time.Second)
	}
	stop()
	writers.Wait()
	rows, err := db.Query(t.Context(), engine.Do("SELECT k FROM t"))
	must(t, err)
	t.Logf("%d kills: %d writes, %d of them with a lost answer, %d not stored", kills, len(stored), lost, len(not))
	for _, row := range rows {
		key := row[0].(string)
		if not[key] {
			t.Errorf("%s is stored, and its writer was told that it is not", key)
		}
		delete(stored, key)
	}
	for key := range stored {
		t.Errorf("%s was acknowledged, and is lost", key)
	}
	path := filepath.Join(t.TempDir(), "copy.db")
	must(t, db.Backup(t.Context(), path))
}

// TestRealLoad: a database is loaded through a node that does not lead, and all nodes have it, also one that was away.
func TestRealLoad(t *testing.T) {
	c := rqlitetest.NewNodes(t, 3)
	leader := c.Leader()
	follower, away := (leader+1)%3, (leader+2)%3
	c.Kill(away)
	path, fence, counts := file(t, 1)
	db, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: c.HTTP[follower : follower+1]})
	must(t, err)
	defer db.Close()
	must(t, db.Take(t.Context(), rqlite.Lease{}, rqlite.Claim{Gateway: "gw1"}))
	must(t, db.Load(t.Context(), path, fence))
	must(t, rqlite.Same(t.Context(), db, counts))
	_, err = db.Batch(t.Context(), []engine.Statement{engine.Do("INSERT INTO meta(key, value) VALUES ('since', 'x')")})
	must(t, err)
	c.Start(away)
	c.Kill(leader)
	counts["meta"]++
	other, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: []string{c.HTTP[away], c.HTTP[follower]}})
	must(t, err)
	defer other.Close()
	must(t, rqlite.Same(t.Context(), other, counts))
}
