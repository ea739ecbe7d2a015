package rqlite_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/store/engine"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
)

// held is the way to a node, on which weak reads or batches wait until they may pass.
type held struct {
	*rqlitetest.Node
	what string // a part of what waits: of its path or its body
	pass chan struct{}
	sent atomic.Int64

	mu      sync.Mutex
	longest string // body of what waited
}

func (h *held) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if strings.Contains(r.URL.RequestURI()+string(body), h.what) {
		h.sent.Add(1)
		h.mu.Lock()
		if len(body) > len(h.longest) {
			h.longest = string(body)
		}
		h.mu.Unlock()
		select {
		case <-h.pass:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return h.Node.RoundTrip(r)
}

func heldNode(t *testing.T, what string) (*rqlite.DB, *held) {
	t.Helper()
	h := &held{Node: rqlitetest.New(t), what: what, pass: make(chan struct{})}
	db, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: []string{"127.0.0.1:4001"}, Transport: h})
	must(t, err)
	return db, h
}

// TestReadsShare: reads that come while three requests are on their way go together in the next one. Each caller gets the answer to its own
// read, one whose read is wrong gets an error alone, and one who has gone is not asked for.
func TestReadsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, h := heldNode(t, "level=weak")
		defer db.Close()
		ctx, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for i := range int64(40) {
			callers.Go(func() {
				switch i {
				case 20:
					if _, err := db.Query(t.Context(), engine.Do("NONSENSE")); err == nil || !strings.Contains(err.Error(), "syntax error") {
						t.Errorf("nonsense: %v", err)
					}
				case 30:
					if _, err := db.Query(ctx, engine.Do("SELECT 'of who has gone'")); !errors.Is(err, context.Canceled) {
						t.Errorf("who has gone: %v", err)
					}
				default:
					if rows, err := db.Query(t.Context(), engine.Do("SELECT ?", i)); err != nil || len(rows) != 1 || rows[0][0] != i {
						t.Errorf("read %d: %v, %v", i, rows, err)
					}
				}
			})
			synctest.Wait()
		}
		if sent := h.sent.Load(); sent != 3 {
			t.Fatalf("%d requests are on their way, want 3", sent)
		}
		leave()
		synctest.Wait()
		for range 4 {
			h.pass <- struct{}{}
		}
		callers.Wait()
		if sent := h.sent.Load(); sent != 4 {
			t.Errorf("%d requests for 40 reads, want 4", sent)
		}
		if strings.Contains(h.longest, "who has gone") || strings.Count(h.longest, "SELECT") != 35 {
			t.Errorf("the reads that waited went as %s", h.longest)
		}
	})
}

// TestReadsClosed: when the database is closed, no read waits any longer, whether it is on its way or not.
func TestReadsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, h := heldNode(t, "level=weak")
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				if _, err := db.Query(t.Context(), engine.Do("SELECT 1")); !errors.Is(err, engine.ErrClosed) {
					t.Errorf("got %v", err)
				}
			})
			synctest.Wait()
		}
		must(t, db.Close())
		callers.Wait()
		if sent := h.sent.Load(); sent != 3 {
			t.Errorf("%d requests", sent)
		}
	})
}

// TestReadsGoOn: nobody waits long for reads that take long, nor for a node that has fallen silent. Reads that share a request without an
// answer go by themselves, and one whose caller has gone is not sent again.
func TestReadsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, h := heldNode(t, "slow")
		defer db.Close()
		ctx, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		ask := func(ctx context.Context, text string, want error) {
			callers.Go(func() {
				if _, err := db.Query(ctx, engine.Do("SELECT ?", text)); !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", text, err, want)
				}
			})
			synctest.Wait()
		}
		for range 3 {
			ask(ctx, "slow", context.Canceled)
		}
		ask(t.Context(), "quick", nil)
		ask(t.Context(), "slow", nil)
		time.Sleep(600 * time.Millisecond)
		began := time.Now()
		if _, err := db.Query(t.Context(), engine.Do("SELECT 'quick, too'")); err != nil || time.Since(began) > 0 {
			t.Errorf("a read beside three that take long: %v after %s", err, time.Since(began))
		}
		time.Sleep(time.Second)
		leave()
		time.Sleep(4 * time.Second) // what was shared goes alone
		before := h.sent.Load()
		h.pass <- struct{}{}
		callers.Wait()
		if sent := h.sent.Load(); sent != before || sent != 5 {
			t.Errorf("%d slow requests, want 5: three, the one that was shared, and its slow part alone", sent)
		}
	})
}
