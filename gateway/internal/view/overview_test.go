package view_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/view"
	"muster/store"
)

func TestPicture(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "b", Tenant: "platform", Provider: "vast_ai", InstanceID: "7", GPUsExpected: 2},
		map[string]string{"tier": "spot", "price_per_hour": "1.99"})
	h.node(store.Node{Name: "a", Tenant: "research"}, nil)
	h.must(h.store.SaveBeats(t.Context(), []store.Beat{{NodeID: "id-b", At: h.now, Interval: 30 * time.Second, Agent: `{"version":"1.2.3"}`,
		Hardware: h.reading(gpu(0, 50) + "," + gpu(1, 0))}}, h.now))
	if h.picture.Ready() {
		t.Error("ready before anything was read")
	}
	h.picture.Load(t.Context())
	if rows, _ := h.picture.Rows(view.Query{}); !h.picture.Ready() || names(rows) != "[a b]" {
		t.Fatalf("ready %v, rows %s", h.picture.Ready(), names(rows))
	}
	b := h.row("b")
	if b.Status != "online" || !b.Fresh || b.AgentVersion != "1.2.3" || len(b.GPUs) != 2 || *b.GPUs[0].UtilizationPercent != 50 ||
		*b.GPUs[0].MemoryFreeMiB != 81059 || *b.PricePerHour != 1.99 || *b.GPUsExpected != 2 || *b.CPUs != 64 || b.Load1 != nil ||
		b.Labels["tier"] != "spot" || !b.ReadAt.Equal(h.now) || *b.IntervalSeconds != 30 || b.Findings == nil || b.StateReasons == nil {
		t.Errorf("got %+v", b)
	}
	if a := h.row("a"); a.Status != "pending" || a.Fresh || a.GPUs != nil || a.LastSeen != nil || a.GPUsExpected != nil || a.Labels == nil {
		t.Errorf("a node that never reported: %+v", a)
	}
	if _, ok := h.picture.Row("id-c"); ok {
		t.Error("a row of a node that there is not")
	}
}

// TestUnread: a reading without a row tells that there is no GPU only if the program that reads them said so.
func TestUnread(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "a", Tenant: "x", GPUsExpected: 8}, nil)
	h.node(store.Node{Name: "b", Tenant: "x"}, nil)
	h.picture.Load(t.Context())
	for _, c := range []struct {
		node, state string
		known       bool
	}{
		{"a", wire.ProbeHung, false}, {"a", wire.ProbeFailed, false}, {"a", wire.ProbeAbsent, false}, {"a", wire.ProbeOK, true},
		{"b", wire.ProbeHung, false}, {"b", wire.ProbeFailed, false}, {"b", wire.ProbeAbsent, true},
	} {
		h.beat(c.node, strings.Replace(h.reading(""), wire.ProbeOK, c.state, 1))
		if g := h.row(c.node); (g.GPUs != nil) != c.known || g.Fresh != c.known || len(g.GPUs) != 0 {
			t.Errorf("%s, %s: GPUs %v, fresh %v", c.node, c.state, g.GPUs, g.Fresh)
		}
	}
	h.beat("a", strings.Replace(h.reading(""), wire.ProbeOK, wire.ProbeAbsent, 1))
	if _, totals := h.picture.Rows(view.Query{}); totals.GPUsUnknown != 1 || totals.GPUsSeen != 0 {
		t.Errorf("%+v", totals)
	}
	h.must(h.store.SetGPUs(t.Context(), "id-a", 0, true))
	h.picture.Load(t.Context())
	if g := h.row("a"); g.GPUs == nil || !g.Fresh {
		t.Errorf("nobody expects a GPU there any more: %+v", g)
	}
}

// TestTotals: what is not known of now is not added up, and unknown is null.
func TestTotals(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "a", Tenant: "x", GPUsExpected: 2}, map[string]string{"price_per_hour": "2"})
	h.node(store.Node{Name: "b", Tenant: "x", GPUsExpected: 8}, map[string]string{"price_per_hour": "0.5"})
	h.node(store.Node{Name: "c", Tenant: "x", GPUsExpected: 8}, map[string]string{"price_per_hour": "9"})
	h.picture.Load(t.Context())
	if _, totals := h.picture.Rows(view.Query{}); totals.UtilizationPercent != nil || totals.GPUsUnknown != 3 {
		t.Errorf("nothing is known: %+v", totals)
	}
	h.beat("b", h.reading(gpu(2, 10)))
	h.now = h.now.Add(time.Hour)
	h.beat("a", h.reading(gpu(0, 50)+","+gpu(1, 100)))
	h.move("c", "active", "retired")
	h.picture.Findings("id-a", []api.Finding{{Rule: "x", Severity: api.SeverityNote}, {Rule: "y", Severity: api.SeveritySevere}})
	h.reload()
	_, totals := h.picture.Rows(view.Query{All: true})
	want := "{3 map[active:2 retired:1] map[online:1 stale:1] 0 map[severe:1] 10 2 1 0 0 2 1000 163118 {2 0 "
	if got := fmt.Sprint(totals); !strings.HasPrefix(got, want) || *totals.UtilizationPercent != 75 || *totals.PowerWatts != 140 || *totals.PricePerHour != 2.5 {
		t.Errorf("got %s, %v, %v, %v", got, *totals.UtilizationPercent, *totals.PowerWatts, *totals.PricePerHour)
	}
	if rows, _ := h.picture.Rows(view.Query{}); names(rows) != "[a b]" {
		t.Errorf("retired nodes are not left out: %s", names(rows))
	}
}

// reload reads all again.
func (h *house) reload() { h.picture.Load(h.t.Context()) }

// TestHeartbeats: a heartbeat without a reading leaves the last one, silence makes a node stale, and a row that is older than what was
// heard changes nothing of that.
func TestHeartbeats(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "a", Tenant: "x"}, nil)
	h.picture.Load(t.Context())
	h.beat("a", h.reading(gpu(0, 50)))
	before := h.row("a")
	h.now = h.now.Add(30 * time.Second)
	h.picture.Take(t.Context(), []view.Sample{{NodeID: "id-a", At: h.now, Interval: 30 * time.Second, Address: "192.0.2.7"}})
	now := h.row("a")
	if len(now.GPUs) != 1 || now.Address != "192.0.2.7" || !now.LastSeen.Equal(h.now) || !now.ReadAt.Equal(h.now.Add(-30*time.Second)) ||
		!now.Fresh {
		t.Errorf("got %+v", now)
	}
	if before.LastSeen.Equal(*now.LastSeen) {
		t.Error("a row that somebody may have was changed")
	}
	h.reload()
	if again := h.row("a"); !again.LastSeen.Equal(h.now) || again.Address != "192.0.2.7" {
		t.Errorf("the row of before took back what was heard: %+v", again)
	}
	h.picture.Take(t.Context(), []view.Sample{{NodeID: "id-a", At: h.now.Add(-time.Hour)}})
	if again := h.row("a"); !again.LastSeen.Equal(h.now) {
		t.Errorf("an old heartbeat was taken: %+v", again)
	}
}

// TestWholeRows: the whole row of a GPU and the kernel's events stay as they came, also if a heartbeat brings none and the node is read
// again.
func TestWholeRows(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "a", Tenant: "x"}, nil)
	h.picture.Load(t.Context())
	row := strings.TrimSuffix(gpu(0, 50), "}") + `,"clocks":{"sm_mhz":1980}}`
	h.beat("a", strings.TrimSuffix(h.reading(row), "}")+`,"xids":{"state":"ok","events":[{"kind":"xid","uuid":"GPU-0","code":79}]}}`)
	check := func() {
		t.Helper()
		n := h.row("a")
		if len(n.GPUs) != 1 || n.GPUs[0].Row == nil || *n.GPUs[0].Row.Clocks.SMMHz != 1980 || n.Xids == nil || len(n.Xids.Events) != 1 {
			t.Errorf("got %+v", n)
		}
	}
	check()
	h.now = h.now.Add(30 * time.Second)
	h.picture.Take(t.Context(), []view.Sample{{NodeID: "id-a", At: h.now, Interval: 30 * time.Second}})
	check()
	h.reload()
	check()
}

// run keeps the view until do has ended.
func (h *house) run(do func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan error)
	go func() { ended <- h.picture.Run(ctx) }()
	synctest.Wait()
	do()
	cancel()
	if err := <-ended; err != nil {
		h.t.Error(err)
	}
}

// pass lets time pass, also for the view.
func (h *house) pass(d time.Duration) {
	h.later(d)
	time.Sleep(2 * time.Second) // of the bubble's clock
	synctest.Wait()
}

// TestRun: events and heartbeats of unknown nodes have nodes read, and silence makes a node stale.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.node(store.Node{Name: "a", Tenant: "x"}, nil)
		h.run(func() {
			h.node(store.Node{Name: "b", Tenant: "x"}, nil)
			h.node(store.Node{Name: "0", Tenant: "x"}, nil)
			h.beat("b", h.reading(gpu(0, 1)+","+gpu(1, 1)))
			h.picture.Changed(t.Context(), []store.Event{{NodeID: "id-0", Kind: "node.created"}, {Kind: "token.created"}, {NodeID: "id-none"}})
			synctest.Wait()
			if rows, _ := h.picture.Rows(view.Query{}); names(rows) != "[0 a b]" {
				t.Errorf("got %s", names(rows))
			}
			h.must(h.store.SetLabels(t.Context(), "id-a", map[string]string{"k": "v"}, nil))
			h.picture.Changed(t.Context(), []store.Event{{NodeID: "id-a", Kind: "task.created"}})
			synctest.Wait()
			if h.row("a").Labels["k"] != "" {
				t.Error("an event about a task had its node read")
			}
			h.pass(15 * time.Second)
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if h.row("a").Labels["k"] != "v" {
				t.Error("the slow round did not read the node")
			}
			h.pass(time.Hour)
			if g := h.row("b"); g.Status != "stale" || g.Fresh || len(g.GPUs) != 2 {
				t.Errorf("after an hour of silence: %+v", g)
			}
		})
	})
}

// TestMoved: a node that was just changed is in the view at once, also a new one. Without the database nothing changes.
func TestMoved(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "a", Tenant: "x"}, map[string]string{"price_per_hour": "4.20"})
	h.picture.Load(t.Context())
	h.node(store.Node{Name: "b", Tenant: "x"}, nil)
	h.move("a", "active", "retired")
	for _, id := range []string{"id-a", "id-b", "id-none"} {
		h.picture.Moved(t.Context(), store.Node{ID: id})
	}
	rows, totals := h.picture.Rows(view.Query{All: true})
	if names(rows) != "[a b]" || totals.States["retired"] != 1 || totals.Rent.PricePerHour != nil || totals.Rent.Text() != "" {
		t.Errorf("got %s, %+v", names(rows), totals)
	}
	h.move("b", "active", "retired")
	h.must(h.store.Close())
	if h.picture.Moved(t.Context(), store.Node{ID: "id-b"}); h.row("b").State != "active" {
		t.Errorf("read from nothing: %+v", h.row("b"))
	}
}

// TestRaised: a heartbeat that raises the record of the node's GPUs has the node read; one of a node of which a person said the number
// does not.
func TestRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.node(store.Node{Name: "a", Tenant: "x"}, nil)
		h.run(func() {
			h.beat("a", h.reading(gpu(0, 1)))
			h.must(h.store.SetGPUs(t.Context(), "id-a", 1, false))
			h.beat("a", h.reading(gpu(0, 1)))
			synctest.Wait()
			if g := h.row("a"); g.GPUsExpected == nil || *g.GPUsExpected != 1 {
				t.Errorf("got %v", g.GPUsExpected)
			}
		})
	})
}

// TestClockBack: after the clock was set back, all nodes are read again, and times of the future go.
func TestClockBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.node(store.Node{Name: "a", Tenant: "x"}, nil)
		h.run(func() {
			h.later(24 * time.Hour)
			h.beat("a", h.reading(gpu(0, 1)))
			h.later(-24 * time.Hour)
			h.must(h.store.ClockSetBack(t.Context(), store.ClockStep{Now: h.now, By: 24 * time.Hour}))
			h.picture.Changed(t.Context(), []store.Event{{Kind: "clock.stepped"}})
			synctest.Wait()
			if g := h.row("a"); g.LastSeen.After(h.now) {
				t.Errorf("heard at %s, in the future", g.LastSeen)
			}
		})
	})
}

// TestOutage: while the database cannot be read the log says so once, and the view is not ready.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		var log bytes.Buffer
		h.picture.Logger = slog.New(slog.NewTextHandler(&log, nil))
		h.must(h.store.Close())
		h.run(func() {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if h.picture.Ready() {
				t.Error("ready without a database")
			}
		})
		if n := strings.Count(log.String(), "cannot be read"); n != 1 || h.picture.Ready() {
			t.Errorf("the log says it %d times:\n%s", n, &log)
		}
	})
}

// TestOutageOfOne: a node that cannot be read is not forgotten.
func TestOutageOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		var log bytes.Buffer
		h.picture.Logger = slog.New(slog.NewTextHandler(&log, nil))
		h.run(func() {
			h.must(h.store.Close())
			h.picture.Changed(t.Context(), []store.Event{{NodeID: "id-a"}})
			time.Sleep(5 * time.Second)
			synctest.Wait()
		})
		if n := strings.Count(log.String(), "cannot be read"); n != 1 {
			t.Errorf("the log says it %d times:\n%s", n, &log)
		}
	})
}

// TestIdle: ten minutes of readings in which nothing works, of all GPUs; a stale node is not idle.
func TestIdle(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "a", Tenant: "x"}, nil)
	h.picture.Load(t.Context())
	start := h.now
	rest := func() {
		for range 21 {
			h.beat("a", h.reading(gpu(0, 0)+","+gpu(1, 0)))
			h.now = h.now.Add(30 * time.Second)
		}
	}
	rest()
	if g := h.row("a"); g.IdleSince == nil || !g.IdleSince.Equal(start) || !g.GPUs[1].IdleSince.Equal(start) {
		t.Errorf("idle since %v, want %s", g.IdleSince, start)
	}
	if rows, totals := h.picture.Rows(view.Query{Idle: true}); names(rows) != "[a]" || totals.GPUsIdle != 2 {
		t.Errorf("got %s, %+v", names(rows), totals)
	}
	old := h.reading(gpu(0, 0) + "," + gpu(1, 0))
	h.beat("a", h.reading(gpu(0, 0)+","+gpu(1, 90)))
	if g := h.row("a"); g.IdleSince != nil || g.GPUs[0].IdleSince == nil || g.GPUs[1].IdleSince != nil {
		t.Errorf("one of two works: %+v", g)
	}
	h.now = h.now.Add(10 * time.Minute)
	h.beat("a", old)
	if g := h.row("a"); g.IdleSince != nil || g.GPUs[0].IdleSince != nil || g.Fresh {
		t.Errorf("rows that are not of now say idle: %+v", g)
	}
	rest()
	h.now = h.now.Add(time.Hour)
	h.reload()
	if rows, _ := h.picture.Rows(view.Query{Idle: true}); names(rows) != "[]" || h.row("a").GPUs[0].IdleSince != nil {
		t.Errorf("a stale node is idle: %+v", h.row("a"))
	}
}

// TestFindings: the severe first, kept when the node is read again, and gone when they are cured.
func TestFindings(t *testing.T) {
	h := newHouse(t)
	h.picture.Findings("id-a", []api.Finding{{Rule: "n", Severity: api.SeverityNote}, {Rule: "s", Severity: api.SeveritySevere},
		{Rule: "w", Severity: api.SeverityWarn}})
	h.node(store.Node{Name: "a", Tenant: "x"}, nil)
	h.reload()
	h.reload()
	if f := h.row("a").Findings; len(f) != 3 || f[0].Rule != "s" || f[2].Rule != "n" {
		t.Errorf("got %+v", f)
	}
	h.picture.Findings("id-a", nil)
	if f := h.row("a").Findings; f == nil || len(f) != 0 {
		t.Errorf("cured: %+v", f)
	}
}
