package view_test

import (
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/api"
	"muster/store"
)

// TestToday: what a node has cost comes with its heartbeats, and goes when the day is over.
func TestToday(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		seconds := int64(0)
		h.picture.ShowCosts(func(id string) *api.Today {
			if id != "id-a" {
				return nil
			}
			seconds += 30
			return &api.Today{Day: h.clock().UTC().Format(time.DateOnly), WatchedSeconds: seconds}
		})
		h.node(store.Node{Name: "a", Tenant: "x"}, nil)
		h.node(store.Node{Name: "b", Tenant: "x"}, nil)
		h.run(func() {
			for range 2 {
				h.beat("a", h.reading(gpu(0, 1)))
				h.beat("b", h.reading(gpu(0, 1)))
			}
			if a, b := h.row("a").Today, h.row("b").Today; a == nil || a.WatchedSeconds < 60 || b != nil {
				t.Errorf("got %+v and %+v", a, b)
			}
			was := *h.row("a").Today
			h.reload()
			if now := h.row("a").Today; now == nil || *now != was {
				t.Errorf("read again without a heartbeat: %+v", now)
			}
			h.later(24 * time.Hour)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if now := h.row("a").Today; now != nil {
				t.Errorf("a day later: %+v", now)
			}
		})
	})
}
