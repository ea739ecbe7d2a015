package view_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/view"
	"muster/store"
)

// next is the next answer of a watch within a minute: names that changed, and ids that are gone.
func (h *house) next(w *view.Watch) string {
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	c, err := w.Next(ctx)
	if err != nil {
		return err.Error()
	}
	return names(slices.Concat(c.Nodes, c.Alive)) + fmt.Sprint(c.Gone)
}

// TestWatch: each node once, as it is now, and never one of another tenant.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		for _, name := range []string{"a", "b"} {
			h.node(store.Node{Name: name, Tenant: "x"}, nil)
		}
		h.node(store.Node{Name: "other", Tenant: "y"}, nil)
		h.reload()
		all := h.picture.Watch(view.Query{Tenant: "x"})
		online := h.picture.Watch(view.Query{Tenant: "x", Status: "online"})
		if got := h.next(all); got != context.DeadlineExceeded.Error() {
			t.Errorf("nothing has changed: %s", got)
		}
		for i := range 5 {
			h.beat("a", h.reading(gpu(0, i)))
		}
		h.beat("other", h.reading(gpu(0, 1)))
		h.beat("b", "")
		if got := h.next(all); got != "[b a][]" {
			t.Errorf("got %s", got)
		}
		if got := h.next(online); got != "[b a][]" {
			t.Errorf("online: got %s", got)
		}
		h.beat("other", h.reading(gpu(0, 2)))
		if got := h.next(online); got != context.DeadlineExceeded.Error() {
			t.Errorf("of another tenant: %s", got)
		}
		h.move("a", "active", "retired")
		h.reload()
		if got := h.next(online); got != "[][id-a]" {
			t.Errorf("gone: got %s", got)
		}
		h.reload()
		if got := h.next(online); got != context.DeadlineExceeded.Error() {
			t.Errorf("read again without a change: %s", got)
		}
		h.must(h.store.SetLabels(t.Context(), "id-a", map[string]string{"k": "v"}, nil))
		h.reload()
		if got := h.next(online); got != context.DeadlineExceeded.Error() {
			t.Errorf("a change of what is gone already: %s", got)
		}
	})
}

// TestWatchPace: one answer in a second at most, and none is lost meanwhile. A reader that leaves is told so.
func TestWatchPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.node(store.Node{Name: "a", Tenant: "x"}, nil)
		h.reload()
		w := h.picture.Watch(view.Query{})
		ctx, cancel := context.WithCancel(t.Context())
		answers := 0
		last := 0.0
		ended := make(chan error)
		go func() {
			for {
				c, err := w.Next(ctx)
				if err != nil {
					ended <- err
					return
				}
				answers++
				last = *slices.Concat(c.Nodes, c.Alive)[0].GPUs[0].UtilizationPercent
			}
		}()
		for i := range 100 {
			h.beat("a", h.reading(gpu(0, i)))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if answers < 5 || answers > 7 || last != 99 {
			t.Errorf("%d answers in 5 seconds, the last with %v", answers, last)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestWatchWakes: a reader who waits hears of a finding at once, also if no heartbeat comes.
func TestWatchWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.node(store.Node{Name: "a", Tenant: "x"}, nil)
		h.reload()
		w := h.picture.Watch(view.Query{})
		heard := make(chan string)
		go func() { heard <- h.next(w) }()
		time.Sleep(2 * time.Second)
		h.picture.Findings("id-a", []api.Finding{{Rule: "x"}})
		if got := <-heard; got != "[a][]" {
			t.Errorf("got %s", got)
		}
	})
}

// TestWatchAlive: a heartbeat that changes values alone is told apart from one that changes more, also if the values changed last.
func TestWatchAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.node(store.Node{Name: "a", Tenant: "x"}, nil)
		h.reload()
		w := h.picture.Watch(view.Query{})
		early := h.picture.Watch(view.Query{})
		want := func(what string, nodes, alive int) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if c, err := w.Next(ctx); err != nil || len(c.Nodes) != nodes || len(c.Alive) != alive {
				t.Errorf("%s: %d and %d, %v", what, len(c.Nodes), len(c.Alive), err)
			}
		}
		h.beat("a", h.reading(gpu(0, 1)))
		want("the first reading", 1, 0)
		h.beat("a", h.reading(gpu(0, 99)))
		want("another value", 0, 1)
		h.beat("a", "")
		want("no reading", 0, 1)
		h.beat("a", h.reading(gpu(0, 99)+","+gpu(1, 5)))
		h.beat("a", h.reading(gpu(0, 98)+","+gpu(1, 6)))
		want("one GPU more, and then other values", 1, 0)
		for _, other := range [][2]string{{"NVIDIA H100 80GB HBM3", "NVIDIA L40S"}, {"81559", "81000"}, {`"device"`, `"unified"`},
			{`"index"`, `"mig":true,"index"`}, {`"index"`, `"health":["lost"],"index"`}} {
			h.beat("a", h.reading(strings.Replace(gpu(0, 98), other[0], other[1], 1)+","+gpu(1, 6)))
			want(other[1], 1, 0)
			h.beat("a", h.reading(gpu(0, 98)+","+gpu(1, 6)))
			want("as before "+other[1], 1, 0)
		}
		h.picture.Findings("id-a", []api.Finding{{Rule: "x"}})
		want("a finding", 1, 0)
		h.must(h.store.SetLabels(t.Context(), "id-a", map[string]string{"k": "v"}, nil))
		h.reload()
		h.reload()
		want("a label, and the node was read once more before anybody looked", 1, 0)
		h.now = h.now.Add(time.Hour)
		h.reload()
		want("silence", 1, 0)
		h.beat("a", h.reading(gpu(0, 98)+","+gpu(1, 6)))
		w = early
		want("one who was away", 1, 0)
	})
}
