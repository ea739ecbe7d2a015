package rqlite_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/store/engine"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
)

const schema = `CREATE TABLE t (k TEXT NOT NULL PRIMARY KEY, v TEXT) STRICT;
	CREATE VIEW guards(held) AS SELECT 1;
	CREATE TRIGGER guards_hold INSTEAD OF INSERT ON guards WHEN NEW.held IS NOT 1
	BEGIN SELECT RAISE(ABORT, 'a condition of the write did not hold'); END;`

// open gives a gateway's end of a node. It holds no lease.
func open(t testing.TB, n *rqlitetest.Node) *rqlite.DB {
	t.Helper()
	db, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: []string{"127.0.0.1:4001"}, Transport: n})
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// active gives one that holds the lease, and a node with a table.
func active(t testing.TB) (*rqlite.DB, *rqlitetest.Node) {
	t.Helper()
	n := rqlitetest.New(t)
	_, err := n.DB.Exec(schema)
	must(t, err)
	db := open(t, n)
	must(t, db.Take(t.Context(), rqlite.Lease{}, rqlite.Claim{Gateway: "gw1"}))
	return db, n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(k, v string) engine.Statement { return engine.Do("INSERT INTO t(k, v) VALUES (?, ?)", k, v) }

func content(t testing.TB, n *rqlitetest.Node) string {
	t.Helper()
	var all string
	must(t, n.DB.QueryRow("SELECT coalesce(group_concat(k || '=' || v, ' ' ORDER BY k), '') FROM t").Scan(&all))
	return all
}

// TestBatch: all of a batch is stored, or nothing; what it says is as of the embedded engine.
func TestBatch(t *testing.T) {
	db, n := active(t)
	got, err := db.Batch(t.Context(), []engine.Statement{put("a", "1"), put("b", "2"),
		engine.Do("UPDATE t SET v = v || '!'"), engine.Do("DELETE FROM t WHERE k = ?", "nobody")})
	must(t, err)
	if text := fmt.Sprint(got); text != "[{1} {1} {2} {0}]" {
		t.Errorf("got %s", text)
	}
	for _, bad := range []engine.Statement{put("a", "again"), engine.Guard("(SELECT count(*) FROM t) = ?", int64(7))} {
		if _, err := db.Batch(t.Context(), []engine.Statement{put("c", "3"), bad}); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("%s: %v", bad.SQL, err)
		}
	}
	_, err = db.Batch(t.Context(), []engine.Statement{put("c", "3"), engine.Do("NONSENSE")})
	if err == nil || errors.Is(err, engine.ErrConflict) {
		t.Errorf("nonsense: %v", err)
	}
	if all := content(t, n); all != "a=1! b=2!" {
		t.Errorf("the table has %q", all)
	}
}

// TestTexts: each text comes back as it was sent, also one that rqlite would take for a BLOB.
func TestTexts(t *testing.T) {
	db, _ := active(t)
	for i, text := range []string{"", "x'48'", " X'' ", "x'4'", "x'48", "?", "'?'", "\u00e9\u4e16", "<&>\u2028", strings.Repeat("x", 1<<16)} {
		k := fmt.Sprint(i)
		_, err := db.Batch(t.Context(), []engine.Statement{engine.Do("INSERT INTO t(v, k) VALUES ('?' || ?, ?)", text, k)})
		must(t, err)
		rows, err := db.Query(t.Context(), engine.Do("SELECT v, ?, k FROM t WHERE k = ?", text, k))
		must(t, err)
		if len(rows) != 1 || rows[0][0] != "?"+text || rows[0][1] != text {
			t.Errorf("%q came back as %q", text, rows)
		}
	}
	rows, err := db.Query(t.Context(), engine.Do("SELECT NULL, 9007199254740993"))
	must(t, err)
	if text := fmt.Sprintf("%v", rows); text != "[[<nil> 9007199254740993]]" {
		t.Errorf("got %s", text)
	}
}

// TestLostAnswers: whatever is lost on the way, a batch is stored once, and its caller knows.
func TestLostAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		fault rqlitetest.Fault
		want  error
	}{
		"refused":         {rqlitetest.Refused, nil},
		"not sent":        {rqlitetest.CutBefore, nil},
		"no leader":       {rqlitetest.Leaderless, nil},
		"a proxy's page":  {rqlitetest.Page, nil},
		"a redirect":      {rqlitetest.Elsewhere, nil},
		"an error inside": {rqlitetest.InBody, nil},
		"no answer":       {rqlitetest.CutAfter, engine.ErrAnswerLost},
		"half an answer":  {rqlitetest.Short, engine.ErrAnswerLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, n := active(t)
				n.Set(c.fault)
				done := make(chan error, 1)
				go func() {
					_, err := db.Batch(t.Context(), []engine.Statement{put("a", "1")})
					done <- err
				}()
				time.Sleep(time.Second) // of the bubble's clock
				n.Set(rqlitetest.None)
				if err := <-done; !errors.Is(err, c.want) || c.want == nil && err != nil {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if all := content(t, n); all != "a=1" {
					t.Errorf("the table has %q", all)
				}
				for _, path := range n.Paths() {
					if strings.Contains(path, "queue") || strings.Contains(path, "strong") {
						t.Errorf("asked for %s", path)
					}
				}
			})
		})
	}
}

// TestOutage: what was certainly not stored ends with an outage; what may have been stored is asked again until that is known.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, n := active(t)
		told := 0
		db.Outages(func(error) { told++ })
		n.Set(rqlitetest.Refused)
		_, err := db.Batch(t.Context(), []engine.Statement{put("a", "1")})
		var outage *engine.Outage
		if !errors.As(err, &outage) || told != 1 {
			t.Errorf("got %v, told %d times", err, told)
		}
		n.Set(rqlitetest.CutBefore)
		done := make(chan error, 1)
		go func() {
			_, err := db.Batch(t.Context(), []engine.Statement{put("b", "1")})
			done <- err
		}()
		time.Sleep(10 * time.Minute)
		select {
		case err := <-done:
			t.Errorf("an unknown outcome ended with %v", err)
		default:
		}
		n.Set(rqlitetest.None)
		must(t, <-done)
		if all := content(t, n); all != "b=1" {
			t.Errorf("the table has %q", all)
		}
	})
}

// TestDeposed: once another gateway has the lease, nothing that the first one sends is stored.
func TestDeposed(t *testing.T) {
	db, n := active(t)
	other := open(t, n)
	if _, err := other.Batch(t.Context(), []engine.Statement{put("b", "1")}); !errors.Is(err, rqlite.ErrDeposed) || other.Holds() {
		t.Errorf("without the lease: %v", err)
	}
	seen, err := other.Lease(t.Context())
	must(t, err)
	if seen.Holder != "gw1" || seen.Fence != 1 || !db.Holds() {
		t.Errorf("%+v", seen)
	}
	must(t, other.Take(t.Context(), seen, rqlite.Claim{Gateway: "gw2", URL: "https://gw2:7444", Schema: 3}))
	if _, err := db.Batch(t.Context(), []engine.Statement{put("a", "1")}); !errors.Is(err, rqlite.ErrDeposed) {
		t.Errorf("the deposed one: %v", err)
	}
	if err := db.Hold(t.Context()); !errors.Is(err, rqlite.ErrDeposed) || db.Holds() {
		t.Errorf("its renewal: %v", err)
	}
	if err := db.Take(t.Context(), seen, rqlite.Claim{Gateway: "gw1"}); !errors.Is(err, rqlite.ErrDeposed) {
		t.Errorf("by what it saw before: %v", err)
	}
	_, err = other.Batch(t.Context(), []engine.Statement{put("b", "1")})
	must(t, err)
	if all := content(t, n); all != "b=1" {
		t.Errorf("the table has %q", all)
	}
	now, err := db.Lease(t.Context())
	if err != nil || now.Holder != "gw2" || now.Fence != 2 || now.URL != "https://gw2:7444" || now.Schema != 3 {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestTakeLost: a lease that was taken by a request without an answer is held.
func TestTakeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		db := open(t, n)
		n.Set(rqlitetest.CutAfter)
		done := make(chan error, 1)
		go func() { done <- db.Take(t.Context(), rqlite.Lease{}, rqlite.Claim{Gateway: "gw1"}) }()
		time.Sleep(time.Second)
		n.Set(rqlitetest.None)
		if err := <-done; err != nil || !db.Holds() {
			t.Error(err)
		}
		if now, err := db.Lease(t.Context()); err != nil || now.Fence != 1 {
			t.Errorf("%+v, %v", now, err)
		}
	})
}

// TestHold: the lease is renewed each second. It ends four seconds after the last renewal that was sent and done.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, n := active(t)
		over := make(chan error, 1)
		go func() { over <- db.Hold(t.Context()) }()
		time.Sleep(10*time.Second + time.Millisecond)
		if now, err := db.Lease(t.Context()); err != nil || now.Beat != 12 || !db.Holds() { // taken, at once, and ten times
			t.Errorf("%+v, %v", now, err)
		}
		n.Set(rqlitetest.CutBefore)
		lost := time.Now()
		err := <-over
		if took := time.Since(lost); !errors.Is(err, rqlite.ErrSilent) || db.Holds() || took > 4*time.Second || took < 3*time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// TestNumbersGo: the numbers of batches that nobody sends again leave the table with the next renewal, and those of lost answers stay.
func TestNumbersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, n := active(t)
		for i := range 3 {
			_, err := db.Batch(t.Context(), []engine.Statement{put(fmt.Sprint(i), "1")})
			must(t, err)
		}
		count := func() (rows int) {
			must(t, n.DB.QueryRow("SELECT count(*) FROM batches").Scan(&rows))
			return rows
		}
		if rows := count(); rows != 3 {
			t.Errorf("%d numbers of 3 batches", rows)
		}
		n.Set(rqlitetest.CutBatch)
		done := make(chan error, 1)
		go func() {
			_, err := db.Batch(t.Context(), []engine.Statement{put("lost", "1")})
			done <- err
		}()
		go func() { _ = db.Hold(t.Context()) }()
		time.Sleep(3*time.Second + time.Millisecond)
		if rows := count(); rows != 1 {
			t.Errorf("%d numbers are left beside that of the lost answer", rows-1)
		}
		n.Set(rqlitetest.None)
		if err := <-done; !errors.Is(err, engine.ErrAnswerLost) {
			t.Errorf("got %v", err)
		}
		if all := content(t, n); all != "0=1 1=1 2=1 lost=1" {
			t.Errorf("the table has %q", all)
		}
	})
}

// TestRelease: a lease that was given back has no holder, and whoever had it writes no more.
func TestRelease(t *testing.T) {
	db, n := active(t)
	must(t, db.Release(t.Context(), ""))
	if _, err := db.Batch(t.Context(), []engine.Statement{put("a", "1")}); !errors.Is(err, rqlite.ErrDeposed) || db.Holds() {
		t.Errorf("after it: %v", err)
	}
	if err := db.Release(t.Context(), ""); !errors.Is(err, rqlite.ErrDeposed) {
		t.Errorf("twice: %v", err)
	}
	other := open(t, n)
	seen, err := other.Lease(t.Context())
	if err != nil || seen.Holder != "" || seen.Fence != 2 {
		t.Errorf("%+v, %v", seen, err)
	}
	must(t, other.Take(t.Context(), seen, rqlite.Claim{Gateway: "gw2"}))
}

// TestOlderTakesNothing: a gateway of an older schema does not take the lease.
func TestOlderTakesNothing(t *testing.T) {
	db := open(t, rqlitetest.New(t))
	must(t, db.Take(t.Context(), rqlite.Lease{}, rqlite.Claim{Gateway: "gw1", Schema: 7}))
	must(t, db.Release(t.Context(), ""))
	seen, err := db.Lease(t.Context())
	must(t, err)
	if err := db.Take(t.Context(), seen, rqlite.Claim{Gateway: "gw2", Schema: 6}); !errors.Is(err, engine.ErrNewerDatabase) {
		t.Errorf("got %v", err)
	}
	must(t, db.Take(t.Context(), seen, rqlite.Claim{Gateway: "gw2", Schema: 7}))
}

// TestRefusedNodes: a node without TLS that is not on this machine is never spoken to, and an address has a host and a port.
func TestRefusedNodes(t *testing.T) {
	for _, endpoints := range [][]string{nil, {"10.0.0.1:4001"}, {"127.0.0.1:4001", "gw.example:4001"}, {"127.0.0.1"}, {":4001"}} {
		n := rqlitetest.New(t)
		if db, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: endpoints, Transport: n}); err == nil {
			db.Close()
			t.Errorf("%v is taken", endpoints)
		}
		if len(n.Paths()) > 0 {
			t.Errorf("%v: asked for %v", endpoints, n.Paths())
		}
	}
}

// TestClosed: a write that waits for an answer ends with the database, and says that its outcome is not known.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, n := active(t)
		n.Set(rqlitetest.CutAfter)
		done := make(chan error, 1)
		go func() {
			_, err := db.Batch(t.Context(), []engine.Statement{put("a", "1")})
			done <- err
		}()
		time.Sleep(time.Second)
		must(t, db.Close())
		if err := <-done; !errors.Is(err, engine.ErrClosed) || !strings.Contains(err.Error(), "not known") {
			t.Errorf("got %v", err)
		}
		if _, err := db.Batch(t.Context(), []engine.Statement{put("b", "1")}); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("a write after it: %v", err)
		}
		if _, err := db.Query(t.Context(), engine.Do("SELECT 1")); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("a read after it: %v", err)
		}
	})
}

// TestUnauthorized: a wrong password is said at once, and is in no error.
func TestUnauthorized(t *testing.T) {
	n := rqlitetest.New(t)
	n.Set(rqlitetest.Unauthorized)
	_, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: []string{"127.0.0.1:4001"}, Transport: n, User: "muster", Password: "s3cret"})
	if err == nil || !strings.Contains(err.Error(), "refuses this user") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}

// ways are a transport for each node.
type ways map[string]http.RoundTripper

func (w ways) RoundTrip(r *http.Request) (*http.Response, error) { return w[r.URL.Host].RoundTrip(r) }

// hangs never answers.
type hangs struct{}

func (hangs) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestNodeHangs: the lease is kept, and writes are done, where the node that was asked so far does not answer any more.
func TestNodeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		_, err := n.DB.Exec(schema)
		must(t, err)
		w := ways{"127.0.0.1:4001": n, "127.0.0.1:4002": n}
		db, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: []string{"127.0.0.1:4001", "127.0.0.1:4002"}, Transport: w})
		must(t, err)
		defer db.Close()
		must(t, db.Take(t.Context(), rqlite.Lease{}, rqlite.Claim{Gateway: "gw1"}))
		w["127.0.0.1:4001"] = hangs{}
		over := make(chan error, 1)
		go func() { over <- db.Hold(t.Context()) }()
		time.Sleep(time.Minute)
		if len(over) > 0 || !db.Holds() {
			t.Errorf("the lease is lost: %v", <-over)
		}
		_, err = db.Batch(t.Context(), []engine.Statement{put("a", "1")})
		must(t, err)
		if all := content(t, n); all != "a=1" {
			t.Errorf("the table has %q", all)
		}
	})
}

// TestSentTwice: a node that passes a batch to the leader may send it twice by itself. It is stored once, and is no conflict.
func TestSentTwice(t *testing.T) {
	db, n := active(t)
	n.Set(rqlitetest.Twice)
	if _, err := db.Batch(t.Context(), []engine.Statement{put("a", "1")}); !errors.Is(err, engine.ErrAnswerLost) {
		t.Errorf("got %v", err)
	}
	if all := content(t, n); all != "a=1" {
		t.Errorf("the table has %q", all)
	}
}

// TestLateCopy: a copy of a batch that the network has held back does nothing, however late it comes.
func TestLateCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, n := active(t)
		_, err := db.Batch(t.Context(), []engine.Statement{engine.Do("INSERT INTO t(k, v) VALUES ('n', '1') ON CONFLICT DO UPDATE SET v = v || '1'")})
		must(t, err)
		late := n.Last()
		ctx, stop := context.WithCancel(t.Context())
		var holds sync.WaitGroup
		holds.Go(func() { _ = db.Hold(ctx) })
		for range 3 {
			if said := n.Again(late); !strings.Contains(said, "error") {
				t.Errorf("the late copy was done: %s", said)
			}
			time.Sleep(time.Minute)
		}
		if all := content(t, n); all != "n=1" {
			t.Errorf("the table has %q", all)
		}
		stop()
		holds.Wait() // a renewal may be on its way
		must(t, db.Close())
	})
}

// TestDiskFull: a full disk of a node is an outage, and no conflict.
func TestDiskFull(t *testing.T) {
	db, n := active(t)
	told := 0
	db.Outages(func(error) { told++ })
	n.Set(rqlitetest.Full)
	_, err := db.Batch(t.Context(), []engine.Statement{put("a", "1")})
	var outage *engine.Outage
	if !errors.As(err, &outage) || told != 1 || !strings.Contains(outage.Unavailable(), "disk") {
		t.Errorf("got %v, told %d times", err, told)
	}
}
