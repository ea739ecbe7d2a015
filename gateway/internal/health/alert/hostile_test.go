package alert_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/alert"
	records "muster/store/alerts"
)

// unwell makes nodes unavailable, or well again.
func unwell(nodes []*api.NodeRow, reasons ...string) {
	for _, n := range nodes {
		n.State = wire.StateActive
		if len(reasons) > 0 {
			n.State = wire.StateUnavailable
		}
		n.StateReasons = reasons
	}
}

// look lets time pass in which nothing is written or told.
func (h *house) look(d time.Duration) {
	for end := h.clock().Add(d); h.clock().Before(end); {
		h.mu.Lock()
		h.now = h.now.Add(5 * time.Second)
		h.mu.Unlock()
		h.desk.Round()
	}
}

func (h *house) records() []records.Alert {
	h.t.Helper()
	rows, err := records.New(h.store.Records()).Alerts(h.t.Context(), 100_000)
	h.must(err)
	return rows
}

// TestAgainUnwritten: what was resolved and fired again while the database took no writes is written in the end, however much it is.
func TestAgainUnwritten(t *testing.T) {
	h := newHouse(t, fleet(150)...)
	unwell(h.nodes, wire.HealthProbeHung)
	h.look(20 * time.Second)
	h.desk.Flush(t.Context())
	unwell(h.nodes)
	h.look(70 * time.Second)
	unwell(h.nodes, wire.HealthProbeHung)
	h.look(20 * time.Second)
	h.desk.Flush(t.Context())
	open := 0
	rows := h.records()
	for _, a := range rows {
		if a.ResolvedAt == nil {
			open++
		}
	}
	if len(rows) != 300 || open != 150 {
		t.Errorf("%d alerts are on record, %d of them open; the log is %s", len(rows), open, &h.log)
	}
}

// TestForgotten: memory keeps no more resolved alerts than the database.
func TestForgotten(t *testing.T) {
	h := newHouse(t, fleet(300)...)
	for range 4 {
		unwell(h.nodes, wire.HealthProbeHung)
		h.look(20 * time.Second)
		unwell(h.nodes)
		h.look(70 * time.Second)
	}
	h.desk.Flush(t.Context())
	h.desk.Prune(t.Context())
	if all := len(h.desk.List(alert.Query{All: true})); all != 1000 || len(h.records()) != 1000 {
		t.Errorf("%d alerts are in memory, %d on record", all, len(h.records()))
	}
}

// TestForgottenPending: an alert that a receiver is still to be told of stays in memory.
func TestForgottenPending(t *testing.T) {
	h := newHouse(t, gpu("gpu-1"))
	k := newHook(t)
	k.answers(status(500))
	h.receiver(alert.KindWebhook, "ops", k)
	unwell(h.nodes, wire.HealthProbeHung)
	h.pass(20 * time.Second)
	unwell(h.nodes)
	h.pass(70 * time.Second)
	h.mu.Lock()
	h.now = h.now.Add(31 * 24 * time.Hour)
	h.mu.Unlock()
	h.desk.Prune(t.Context())
	if n := len(h.desk.List(alert.Query{All: true})); n != 1 {
		t.Errorf("%d alerts are left", n)
	}
	k.answers(status(200))
	h.pass(time.Hour)
	if list := h.desk.Receivers(); list[0].Waiting != 0 || list[0].GivenUp != 0 {
		t.Errorf("the receiver was not told: %+v", list[0])
	}
	h.desk.Prune(t.Context())
	if n := len(h.desk.List(alert.Query{All: true})); n != 0 {
		t.Errorf("%d alerts are left after all was told", n)
	}
}

// TestExpiredInSilence: when the certificates of many silent nodes end, their silence was told as one, and nothing more is.
func TestExpiredInSilence(t *testing.T) {
	h := newHouse(t, fleet(40)...)
	for _, n := range h.nodes {
		stale(n)
	}
	h.pass(2 * time.Minute)
	unwell(h.nodes, wire.ReasonExpired)
	h.pass(2 * time.Minute)
	h.want("their certificates have ended", "node_stale 40 nodes")
	h.nodes[0].StateReasons = []string{wire.ReasonExpired, wire.HealthProbeHung}
	h.pass(time.Minute)
	h.want("one is unavailable for a further reason", "node_stale 40 nodes, node_unavailable "+h.nodes[0].Name)
}

// TestExpiredThenSilent: what was told of a node whose certificate ended is not taken back because the node falls silent.
func TestExpiredThenSilent(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n, gpu("gpu-2"))
	unwell(h.nodes[:1], wire.ReasonExpired)
	h.pass(time.Minute)
	h.want("it ended", "node_unavailable gpu-1")
	stale(n)
	h.pass(5 * time.Minute)
	h.want("and the node is silent", "node_stale gpu-1, node_unavailable gpu-1")
}

// TestChangeWhileTold: a receiver may be changed while it is told. The race detector judges.
func TestChangeWhileTold(t *testing.T) {
	h := newHouse(t)
	h.config.Now = func() time.Time { return start } // the house's clock has a lock, which would hide a race
	h.open()
	h.receiver(alert.KindWebhook, "ops", newHook(t))
	var told sync.WaitGroup
	told.Go(func() {
		for range 100 {
			if trial, err := h.desk.Test(t.Context(), "ops", h.by); err != nil || trial.Error != "" {
				t.Errorf("%+v, error %v", trial, err)
			}
		}
	})
	for range 100 {
		if _, err := h.set("ops", api.AlertReceiverRequest{Kind: alert.KindWebhook, Replace: true}); err != nil {
			t.Error(err)
		}
	}
	told.Wait()
}

// TestAddedTwice: of many that add a receiver of one name at once, one does it.
func TestAddedTwice(t *testing.T) {
	h := newHouse(t)
	k := newHook(t)
	var wait sync.WaitGroup
	var added atomic.Int32
	for range 8 {
		wait.Go(func() {
			_, err := h.set("ops", api.AlertReceiverRequest{Kind: alert.KindWebhook, URL: k.URL})
			var refused *wire.ErrorDetail
			switch {
			case err == nil:
				added.Add(1)
			case !errors.As(err, &refused) || refused.Code != wire.CodeNameInUse:
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := added.Load(); n != 1 {
		t.Errorf("%d were added", n)
	}
}
