package cost_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/history/cost"
	"muster/gateway/internal/kit"
	"muster/store"
	"muster/store/costs"
)

// house is a Service on a database of its own, with nodes and a clock that the test sets.
type house struct {
	*cost.Service
	t       testing.TB
	store   *store.Store
	records costs.Records
	now     time.Time
	ready   bool
	nodes   []*api.NodeRow
	log     bytes.Buffer
}

func newHouse(t testing.TB, nodes ...*api.NodeRow) *house {
	t.Helper()
	h := &house{t: t, now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), ready: true, nodes: nodes}
	h.store = kit.Store(t, func() time.Time { return h.now })
	h.records = costs.New(h.store.Records())
	h.restart()
	return h
}

func (h *house) restart() {
	h.Service = cost.New(cost.Config{Records: h.records, Ready: func() bool { return h.ready },
		Nodes: func() []*api.NodeRow { return h.nodes },
		Now:   func() time.Time { return h.now }, Logger: slog.New(slog.NewTextHandler(&h.log, nil))})
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// passes lets time pass, with a look every ten seconds.
func (h *house) passes(d time.Duration) {
	for end := h.now.Add(d); h.now.Before(end); {
		h.now = h.now.Add(10 * time.Second)
		h.Look(h.t.Context())
	}
}

// says is today of a node, as a person reads it.
func (h *house) says(id string) string {
	t := h.Today(id)
	if t == nil {
		return "nothing"
	}
	text := fmt.Sprintf("%s watched %d idle %d", t.Day, t.WatchedSeconds, t.IdleGPUSeconds)
	if t.Cost == nil {
		return text
	}
	if t.KnownIdleCost() == nil {
		return text + fmt.Sprintf(" cost - of %.2f", *t.Cost)
	}
	return text + fmt.Sprintf(" cost %.2f of %.2f", *t.IdleCost, *t.Cost)
}

func to[T any](v T) *T { return &v }

// node is one with some GPUs, of which the first are idle.
func node(id string, gpus, idle int, price float64) *api.NodeRow {
	g := &api.NodeRow{ID: id, Name: id, State: wire.StateActive, Status: wire.StatusOnline, Fresh: true}
	if price > 0 {
		g.PricePerHour = &price
	}
	for i := range gpus {
		g.GPUs = append(g.GPUs, api.GPU{UUID: fmt.Sprint("GPU-", i), Use: api.UseBusy})
		if i < idle {
			g.GPUs[i].IdleSince = to(time.Unix(0, 0))
		}
	}
	return g
}

// TestHour: what an hour of different nodes counts. What is not known is nothing, and never zero.
func TestHour(t *testing.T) {
	missing := node("missing", 3, 3, 4)
	missing.GPUsExpected = to(4)
	mute := node("mute", 2, 0, 4)
	mute.GPUs[0].Use, mute.GPUs[1].Use = "", ""
	half := node("half", 2, 1, 4)
	half.GPUs[1].Use = ""
	hung := node("hung", 4, 4, 4)
	hung.Fresh = false
	stale := node("stale", 4, 4, 4)
	stale.Status = wire.StatusStale
	retired := node("retired", 4, 4, 4)
	retired.State = wire.StateRetired
	h := newHouse(t, node("one", 4, 1, 4), node("all", 2, 2, 3), node("free", 2, 2, 0), node("bare", 0, 0, 1), missing, mute, half, hung,
		stale, retired)
	h.Look(t.Context())
	h.passes(time.Hour)
	for id, want := range map[string]string{
		"one":     "2026-11-22 watched 3600 idle 3600 cost 1.00 of 4.00",
		"all":     "2026-11-22 watched 3600 idle 7200 cost 3.00 of 3.00",
		"free":    "2026-11-22 watched 3600 idle 7200",
		"bare":    "2026-11-22 watched 3600 idle 0 cost 0.00 of 1.00",
		"missing": "2026-11-22 watched 3600 idle 10800 cost 3.00 of 4.00",
		"mute":    "2026-11-22 watched 0 idle 0 cost - of 4.00",
		"half":    "2026-11-22 watched 3600 idle 3600 cost 2.00 of 4.00",
		"hung":    "2026-11-22 watched 0 idle 0 cost - of 4.00",
		"stale":   "nothing", "retired": "nothing", "none": "nothing",
	} {
		if got := h.says(id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	sums, err := h.Sums(t.Context(), h.now, h.now, func(string) bool { return true })
	h.must(err)
	for id, want := range map[string]float64{"one": 4, "all": 3, "bare": 0, "missing": 3, "mute": 0, "half": 2, "hung": 0} {
		if got := sums[id].MeasuredCost; got == nil || math.Abs(*got-want) > 1e-5 {
			t.Errorf("%s: measured %v, want %g", id, got, want)
		}
	}
	if sums["free"].MeasuredCost != nil {
		t.Error("what has no price was measured")
	}
}

// TestPriceChanges: a price counts from when it is seen.
func TestPriceChanges(t *testing.T) {
	h := newHouse(t, node("a", 1, 1, 2))
	h.Look(t.Context())
	h.passes(time.Hour)
	h.nodes[0] = node("a", 1, 1, 10)
	h.passes(time.Hour)
	h.nodes[0] = node("a", 1, 1, 0)
	h.passes(time.Hour)
	if got := h.says("a"); got != "2026-11-22 watched 10800 idle 10800 cost 12.00 of 12.00" {
		t.Error(got)
	}
}

// TestRestart: a gateway that starts again goes on with the day, and counts no time in which it did not run.
func TestRestart(t *testing.T) {
	h := newHouse(t, node("a", 1, 1, 2))
	h.ready = false
	h.Look(t.Context())
	h.passes(time.Hour)
	if got := h.says("a"); got != "nothing" {
		t.Errorf("before the nodes are known: %s", got)
	}
	h.ready = true
	h.Look(t.Context())
	h.passes(time.Hour)
	h.must(h.Write(t.Context()))
	h.must(h.Write(t.Context()))
	h.restart()
	h.now = h.now.Add(2 * time.Hour)
	h.Look(t.Context())
	h.passes(time.Hour)
	if got := h.says("a"); got != "2026-11-22 watched 7200 idle 7200 cost 4.00 of 4.00" {
		t.Error(got)
	}
	h.now = h.now.Add(time.Hour) // the machine slept, or nobody looked
	h.Look(t.Context())
	if got := h.says("a"); !strings.Contains(got, " watched 7230 ") {
		t.Errorf("after a pause: %s", got)
	}
}

// TestClock: a clock that is set moves the day, and counts no second twice.
func TestClock(t *testing.T) {
	h := newHouse(t, node("a", 1, 1, 1))
	h.Look(t.Context())
	h.passes(time.Hour)
	for range 2 {
		h.now = h.now.Add(24 * time.Hour)
		h.Look(t.Context())
		h.passes(time.Hour)
		h.now = h.now.Add(-25 * time.Hour)
		h.Look(t.Context())
	}
	h.must(h.Write(t.Context()))
	days, err := h.records.Days(t.Context(), 0, math.MaxInt64)
	h.must(err)
	var text string
	for _, day := range days {
		rows, err := h.records.OfDay(t.Context(), day)
		h.must(err)
		text += fmt.Sprintf("%s %d; ", day.Time().Format(time.DateOnly), rows[0].Watched)
	}
	if text != "2026-11-22 3660; 2026-11-23 7200; " { // a step forward counts as much as one look at most
		t.Error(text)
	}
}

// TestMidnight: the next day begins with nothing, and the day before is in the database.
func TestMidnight(t *testing.T) {
	h := newHouse(t, node("a", 1, 1, 1))
	h.Look(t.Context())
	h.passes(13 * time.Hour)
	if got := h.says("a"); got != "2026-11-23 watched 3600 idle 3600 cost 1.00 of 1.00" {
		t.Error(got)
	}
	sums, err := h.Sums(t.Context(), h.now.Add(-24*time.Hour), h.now, func(string) bool { return true })
	h.must(err)
	a := sums["a"]
	if a.Days != 2 || a.WatchedSeconds != 13*3600 || a.IdleGPUSeconds != 13*3600 || math.Abs(*a.Cost-13) > 0.01 ||
		math.Abs(*a.IdleCost-13) > 0.01 ||
		len(a.Prices) != 1 || *a.Prices[0].PricePerHour != 1 {
		t.Errorf("%+v", a)
	}
}

// TestSums: the nodes and the days that are asked for, and each price from its day on.
func TestSums(t *testing.T) {
	h := newHouse(t)
	for day, price := range []*int64{nil, to(int64(2e6)), to(int64(2e6)), to(int64(3e6)), nil, nil} {
		h.must(h.records.Save(t.Context(), costs.Day(100+day), []costs.Row{{NodeID: "a", Watched: 10, Cost: 1e6, Price: price}, {NodeID: "b"}}))
	}
	sums, err := h.Sums(t.Context(), costs.Day(100).Time(), costs.Day(104).Time(), func(id string) bool { return id == "a" })
	h.must(err)
	text := ""
	for _, p := range sums["a"].Prices {
		text += fmt.Sprint(costs.DayOf(p.Since), " ")
		if p.PricePerHour == nil {
			text += "none, "
		} else {
			text += fmt.Sprint(*p.PricePerHour, ", ")
		}
	}
	if len(sums) != 1 || sums["a"].Days != 5 || *sums["a"].Cost != 5 || *sums["a"].IdleCost != 0 ||
		text != "100 none, 101 2, 103 3, 104 none, " {
		t.Errorf("%d nodes, %+v, prices %s", len(sums), sums["a"], text)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Sums(gone, h.now, h.now, nil); err == nil {
		t.Error("no error without a database")
	}
}

// TestOutage: while the database takes nothing, the sums wait, also over midnight, and the log says it once.
func TestOutage(t *testing.T) {
	h := newHouse(t, node("a", 1, 1, 1))
	h.Look(t.Context())
	h.passes(time.Hour)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Write(gone); err == nil {
		t.Error("written without a database")
	}
	h.must(h.Write(t.Context()))
	rows, err := h.records.OfDay(t.Context(), costs.DayOf(h.now))
	if err != nil || len(rows) != 1 || rows[0].Watched != 3600 {
		t.Errorf("%+v, %v", rows, err)
	}
	h.must(h.store.Close())
	h.passes(12 * time.Hour)
	if got := h.says("a"); !strings.HasPrefix(got, "2026-11-22 watched 46800 ") {
		t.Errorf("over midnight: %s", got)
	}
	if n := strings.Count(h.log.String(), "wait in memory"); n != 1 {
		t.Errorf("said %d times: %s", n, &h.log)
	}
}

// TestRun: it writes once a minute and at the end, deletes what is older than a year, and says when it can write again.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, node("a", 1, 1, 1))
		h.Service = cost.New(cost.Config{Records: h.records, Ready: func() bool { return true },
			Nodes: func() []*api.NodeRow { return h.nodes }})
		today := costs.DayOf(time.Now())
		h.must(h.records.Save(t.Context(), today-367, []costs.Row{{NodeID: "a"}}))
		h.must(h.records.Save(t.Context(), today-366, []costs.Row{{NodeID: "a"}}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		watched := func() int64 {
			synctest.Wait()
			rows, err := h.records.OfDay(t.Context(), today)
			h.must(err)
			if len(rows) == 0 {
				return -1
			}
			return rows[0].Watched
		}
		time.Sleep(59 * time.Second)
		if got := watched(); got != -1 {
			t.Errorf("after 59 seconds: %d", got)
		}
		time.Sleep(2 * time.Second)
		if got := watched(); got != 50 { // the first look counts nothing
			t.Errorf("after a minute: %d", got)
		}
		time.Sleep(time.Hour)
		if days, err := h.records.Days(t.Context(), 0, today); err != nil || len(days) != 2 || days[0] != today-366 {
			t.Errorf("after an hour: %v, %v", days, err)
		}
		cancel()
		h.must(<-ended)
		if got := watched(); got != 3651 {
			t.Errorf("at the end: %d", got)
		}
	})
}

// BenchmarkLook is one look at 10,000 nodes with 8 GPUs each.
func BenchmarkLook(b *testing.B) {
	h := newHouse(b)
	for i := range 10_000 {
		h.nodes = append(h.nodes, node(fmt.Sprintf("0123456789abcdef%08x", i), 8, i%9, 2))
	}
	h.Look(b.Context())
	for b.Loop() {
		h.now = h.now.Add(10 * time.Second)
		h.Look(b.Context())
	}
}
