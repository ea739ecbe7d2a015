package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/audit"
	"muster/gateway/internal/kit"
	"muster/store"
)

type house struct {
	t     *testing.T
	store *store.Store
	log   bytes.Buffer
	got   []string
	tail  *audit.Tail
}

func newHouse(t *testing.T, before int) *house {
	t.Helper()
	h := &house{t: t}
	h.store = kit.Store(t, nil)
	h.add("before", before)
	take := func(_ context.Context, events []store.Event) {
		for _, e := range events {
			h.got = append(h.got, e.Kind)
		}
	}
	var err error
	h.tail, err = audit.OpenTail(t.Context(), audit.TailConfig{Store: h.store,
		Logger: slog.New(slog.NewTextHandler(&h.log, nil))})
	h.must(err)
	h.tail.Add(take)
	return h
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) add(kind string, n int) {
	h.t.Helper()
	var events []store.Event
	for i := range n {
		events = append(events, store.Event{Kind: fmt.Sprint(kind, i), Outcome: "ok"})
	}
	h.must(h.store.AddEvents(h.t.Context(), events...))
}

// run follows the log until do has ended.
func (h *house) run(do func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan error)
	go func() { ended <- h.tail.Run(ctx) }()
	do()
	time.Sleep(time.Second) // of the bubble's clock
	synctest.Wait()
	cancel()
	h.must(<-ended)
}

// TestTail: what was there before is not handed on, all else is, in order, also what takes several portions.
func TestTail(t *testing.T) {
	for _, before := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, before)
			h.run(func() {
				h.add("first", 1)
				time.Sleep(600 * time.Millisecond)
				h.add("new", 2500)
			})
			if len(h.got) != 2501 || h.got[0] != "first0" || h.got[1] != "new0" || h.got[2500] != "new2499" {
				t.Errorf("%d events: %.80v", len(h.got), h.got)
			}
			if h.tail.Last() != int64(before+2501) {
				t.Errorf("the last is %d", h.tail.Last())
			}
		})
	}
}

// TestAfter: a reader goes on where it was, if that is not too long ago.
func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 3)
		_, _, news := h.tail.After(3)
		h.run(func() { h.add("new", 5000) })
		select {
		case <-news:
		default:
			t.Error("nobody was told of the news")
		}
		for id, want := range map[int64]string{
			5003: "0 false", 5002: "1 false", 3000: "2003 false", 2: "more true", 0: "more true", 5004: "0 true", 1 << 40: "0 true",
		} {
			events, lost, _ := h.tail.After(id)
			got := fmt.Sprintf("%d %v", len(events), lost)
			if len(events) > 2047 {
				got = fmt.Sprintf("more %v", lost)
			}
			if got != want || len(events) > 0 && !lost && events[0].ID != id+1 {
				t.Errorf("after %d: got %s, want %s", id, got, want)
			}
		}
	})
}

func TestAfterNothing(t *testing.T) {
	h := newHouse(t, 3)
	if events, lost, _ := h.tail.After(3); len(events) != 0 || lost {
		t.Errorf("got %v, lost %v", events, lost)
	}
	if _, lost, _ := h.tail.After(1); !lost {
		t.Error("what was there before the start is not in memory, and nobody says so")
	}
}

// TestOutage: the log says once that events cannot be read, and Open says it too.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 0)
		h.must(h.store.Close())
		h.run(func() { time.Sleep(5 * time.Second) })
		if n := strings.Count(h.log.String(), "cannot be read"); n != 1 {
			t.Errorf("said %d times: %s", n, &h.log)
		}
		if _, err := audit.OpenTail(t.Context(), audit.TailConfig{Store: h.store}); err == nil {
			t.Error("opened without a database")
		}
	})
}
