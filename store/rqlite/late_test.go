package rqlite_test

import (
	"bytes"
	"context"
	"errors"
	"io"
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

// holding is a way to a node that can keep requests back, and bring them later.
type holding struct {
	*rqlitetest.Node

	mu      sync.Mutex
	barring func() // is called when a number is about to be barred
	holds   bool
	kept    [][]byte
}

func (h *holding) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.mu.Lock()
	barring := h.barring
	h.mu.Unlock()
	if barring != nil && bytes.Contains(body, []byte("RETURNING barred")) {
		barring()
	}
	h.mu.Lock()
	held := h.holds && strings.HasPrefix(r.URL.Path, "/db/execute")
	if held {
		h.kept = append(h.kept, body)
	}
	h.mu.Unlock()
	if held {
		return nil, io.ErrUnexpectedEOF
	}
	return h.Node.RoundTrip(r)
}

func (h *holding) hold(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = on
}

// arrive brings what was kept back.
func (h *holding) arrive() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, body := range h.kept {
		h.Again(body)
	}
	h.kept = nil
}

func newHolding(t *testing.T) (*rqlite.DB, *holding) {
	t.Helper()
	h := &holding{Node: rqlitetest.New(t)}
	_, err := h.DB.Exec(schema)
	must(t, err)
	db, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: []string{"127.0.0.1:4001"}, Transport: h})
	must(t, err)
	must(t, db.Take(t.Context(), rqlite.Lease{}, rqlite.Claim{Gateway: "gw1"}))
	return db, h
}

// TestLateRenewal: a network has held back a renewal and a batch, and both were done by another way meanwhile. When they arrive the batch is
// not done again, though its row is gone.
func TestLateRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, h := newHolding(t)
		_, err := h.DB.Exec("INSERT INTO t(k, v) VALUES ('a', '')")
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		held := make(chan error, 1)
		h.hold(true)
		go func() { held <- db.Hold(ctx) }()
		done := make(chan error, 1)
		go func() {
			_, err := db.Batch(t.Context(), []engine.Statement{engine.Do("UPDATE t SET v = v || '!'")})
			done <- err
		}()
		synctest.Wait()
		h.hold(false)
		if err := <-done; err != nil && !errors.Is(err, engine.ErrAnswerLost) {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		h.mu.Lock()
		if len(h.kept) < 2 {
			t.Errorf("%d requests are held back", len(h.kept))
		}
		h.mu.Unlock()
		h.arrive()
		if all := content(t, h.Node); all != "a=!" {
			t.Errorf("the table has %q", all)
		}
		cancel()
		must(t, <-held)
		must(t, db.Close())
	})
}

// TestDeposedByWorker: a gateway that was deposed hears that, also if the new one has written more than it.
func TestDeposedByWorker(t *testing.T) {
	db, n := active(t)
	other := open(t, n)
	seen, err := other.Lease(t.Context())
	must(t, err)
	must(t, other.Take(t.Context(), seen, rqlite.Claim{Gateway: "gw2"}))
	_, err = n.DB.Exec("UPDATE lease SET settled = 1000")
	must(t, err)
	if _, err := db.Batch(t.Context(), []engine.Statement{put("a", "1")}); !errors.Is(err, rqlite.ErrDeposed) {
		t.Errorf("got %v", err)
	}
}

// TestLateConflict: what a caller was told is not stored is not stored later, when a copy of it arrives that a network has held back. If
// that copy is faster, the caller hears that it is stored.
func TestLateConflict(t *testing.T) {
	for _, faster := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db, h := newHolding(t)
			h.hold(true)
			done := make(chan error, 1)
			go func() {
				_, err := db.Batch(t.Context(), []engine.Statement{engine.Guard("(SELECT count(*) FROM t) = ?", int64(1)), put("mine", "1")})
				done <- err
			}()
			synctest.Wait()
			another := func() {
				_, err := h.DB.Exec("INSERT INTO t(k, v) VALUES ('other', '1')")
				must(t, err)
				h.arrive()
			}
			want, rows := engine.ErrConflict, "other=1"
			if faster {
				want, rows = engine.ErrAnswerLost, "mine=1 other=1"
				h.mu.Lock()
				h.barring = another
				h.mu.Unlock()
			}
			h.hold(false)
			if err := <-done; !errors.Is(err, want) {
				t.Errorf("got %v", err)
			}
			if !faster {
				another()
			}
			if all := content(t, h.Node); all != rows {
				t.Errorf("the table has %q", all)
			}
			must(t, db.Close())
		})
	}
}

// noTriggers is a node whose disk is full when the triggers are to be made.
type noTriggers struct{ *rqlitetest.Node }

func (n noTriggers) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte("CREATE TRIGGER")) {
		n.Set(rqlitetest.Full)
		defer n.Set(rqlitetest.None)
	}
	return n.Node.RoundTrip(r)
}

// TestOpenWithoutTriggers: without the triggers nobody is fenced, so the database is not opened.
func TestOpenWithoutTriggers(t *testing.T) {
	n := rqlitetest.New(t)
	_, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: []string{"127.0.0.1:4001"}, Transport: noTriggers{n}})
	if err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("got %v", err)
	}
}
