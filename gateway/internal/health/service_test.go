package health_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/health"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/label"
	"muster/gateway/internal/view"
	"muster/store"
	records "muster/store/health"
)

// TestFlapping: a value that crosses the limit all the time, or that stays between the two limits, changes nothing.
func TestFlapping(t *testing.T) {
	d := newWorld(t, "n-1")
	for i := range 40 {
		d.hear("n-1", hot([]float64{96, 60}[i%2]))
	}
	if got := d.rules("n-1"); len(got) != 0 {
		t.Errorf("a flapping value was found: %v", got)
	}
	d.until("n-1", hot(96), []string{condition.GPUHot})
	for i := range 40 {
		d.hear("n-1", hot([]float64{60, 60, 88}[i%3])) // 88 is below the limit, and not well below
	}
	if got := d.rules("n-1"); len(got) != 1 || len(d.events("health.cured")) != 0 {
		t.Errorf("a flapping value was cured: %v", got)
	}
	d.until("n-1", hot(85), nil) // well below: by all of the ease
}

// TestSparseLooks: looks that are far apart are no row, and the same look twice counts once.
func TestSparseLooks(t *testing.T) {
	d := newWorld(t, "n-1")
	for range 10 {
		d.now = d.now.Add(10 * time.Minute)
		d.hear("n-1", hot(96))
	}
	same := hot(96)
	same.Hardware.Probe.SampledAt = to(start)
	for range 10 {
		d.hear("n-1", same)
	}
	if got := d.rules("n-1"); len(got) != 0 {
		t.Errorf("found %v", got)
	}
}

// TestRestart: findings go on where they were, with the time they began, and only looks cure them.
func TestRestart(t *testing.T) {
	d := newWorld(t, "n-1")
	severe := badly()[condition.RemapFailed]
	d.until("n-1", severe, []string{condition.RemapFailed})
	since := d.Findings("n-1")[0].Since
	d.hear("n-1", reading(nil)) // one of two that it takes
	d.now = d.now.Add(24 * time.Hour)
	d.restart()
	d.Round(t.Context())
	if f := d.Findings("n-1"); len(f) != 1 || !f[0].Since.Equal(since) || !strings.Contains(f[0].Text, "GPU 3") {
		t.Fatalf("after a restart: %+v", f)
	}
	d.hear("n-1", reading(nil))
	if got := d.rules("n-1"); len(got) != 1 {
		t.Error("cured by one look, because the gateway was away")
	}
	d.until("n-1", reading(nil), nil)
	if got := fmt.Sprint(d.judged); got != "[n-1 +remap_failed n-1 -remap_failed]" {
		t.Errorf("moves: %s", got)
	}
	d.restart()
	if got := d.rules("n-1"); len(got) != 0 {
		t.Errorf("after another restart: %v", got)
	}
}

// TestNotJudged: nothing is judged before all nodes are known, of nodes that are not known, and of nodes in conflict.
func TestNotJudged(t *testing.T) {
	d := newWorld(t, "n-1", "n-2")
	sick := badly()[condition.RemapFailed]
	d.ready = false
	d.hear("n-1", sick)
	d.Round(t.Context())
	d.ready = true
	d.hear("n-none", sick)
	d.nodes["n-2"].StateReasons = []string{wire.ReasonConflict}
	d.hear("n-2", sick)
	for _, id := range []string{"n-1", "n-2", "n-none"} {
		if got := d.rules(id); len(got) != 0 {
			t.Errorf("%s: found %v", id, got)
		}
	}
}

// TestStale: the findings of a node that falls silent stay, and say that they are old. Those of a retired node go.
func TestStale(t *testing.T) {
	d := newWorld(t, "n-1")
	d.until("n-1", badly()[condition.RemapFailed], []string{condition.RemapFailed})
	d.nodes["n-1"].Status = wire.StatusStale
	d.now = d.now.Add(time.Hour)
	d.Round(t.Context())
	d.Round(t.Context())
	if f := d.Findings("n-1"); len(f) != 1 || !f[0].Old || d.told["n-1"] != 2 {
		t.Errorf("stale: %+v, told %d times, want when it was found and when it became old", f, d.told["n-1"])
	}
	err := d.store.MoveNode(t.Context(), store.Move{NodeID: "n-1", From: store.StateReady, To: store.StateRetired, At: d.now})
	if err != nil {
		t.Fatal(err)
	}
	d.nodes["n-1"].State = wire.StateRetired
	if found := d.List(health.Query{}); len(found) != 0 {
		t.Errorf("a node that was just retired is in the list: %+v", found)
	}
	d.Round(t.Context())
	rows, err := d.config.Records.Findings(t.Context())
	if len(d.Findings("n-1")) != 0 || err != nil || len(rows) != 0 || d.told["n-1"] != 3 {
		t.Errorf("retired: %v, in the database %v, told %d times, error %v", d.Findings("n-1"), rows, d.told["n-1"], err)
	}
}

// TestRemovedGPU: a GPU that was taken out has no findings any more, once a look misses none.
func TestRemovedGPU(t *testing.T) {
	d := newWorld(t, "n-1")
	d.until("n-1", badly()[condition.RemapFailed], []string{condition.RemapFailed})
	other := func(state string) view.Sample {
		return reading(func(h *wire.Hardware, g *wire.GPU) { g.UUID, h.Probe.State = "GPU-4", state })
	}
	for range 5 {
		d.hear("n-1", other(wire.ProbeFailed))
	}
	if got := d.rules("n-1"); len(got) != 1 {
		t.Errorf("cured while GPUs are missing: %v", got)
	}
	d.until("n-1", other(wire.ProbeOK), nil)
}

// TestFullKernelLog: an Xid that newer events have pushed out counts for its time.
func TestFullKernelLog(t *testing.T) {
	d := newWorld(t, "n-1")
	d.until("n-1", badly()[condition.XidCritical], []string{condition.XidCritical})
	full := reading(func(h *wire.Hardware, _ *wire.GPU) {
		h.Xids.Events = slices.Repeat([]wire.Xid{xid(13, start, "GPU-3")}, wire.MaxXids)
	})
	for range 10 {
		d.hear("n-1", full)
	}
	if got := d.rules("n-1"); len(got) != 1 {
		t.Errorf("pushed out: %v", got)
	}
	d.now = d.now.Add(24 * time.Hour)
	d.until("n-1", full, nil)
}

// TestXidOfUnlisted: an Xid of a GPU that no reading has listed, such as one that was lost before the agent came, counts for its time.
func TestXidOfUnlisted(t *testing.T) {
	d := newWorld(t, "n-1")
	lost := reading(func(h *wire.Hardware, _ *wire.GPU) { h.Xids.Events = []wire.Xid{xid(79, start, "PCI-0000:b3:00.0")} })
	d.until("n-1", lost, []string{condition.XidCritical})
	for range 10 {
		d.hear("n-1", lost)
	}
	if got := d.Findings("n-1"); len(got) != 1 || got[0].GPU != "PCI-0000:b3:00.0" || len(d.nodes["n-1"].StateReasons) != 1 {
		t.Errorf("found %+v, reasons %v", got, d.nodes["n-1"].StateReasons)
	}
	d.now = d.now.Add(24 * time.Hour)
	d.until("n-1", lost, nil)
}

// TestKernelLogGone: where the kernel's log cannot be read any more, an Xid counts for its time, and then no more.
func TestKernelLogGone(t *testing.T) {
	for what, gone := range map[string]view.Sample{
		"not available": reading(func(h *wire.Hardware, _ *wire.GPU) { h.Xids = &wire.Xids{State: wire.KernelNotAvailable} }),
		"not said":      reading(func(h *wire.Hardware, _ *wire.GPU) { h.Xids = nil }),
	} {
		d := newWorld(t, "n-1")
		d.until("n-1", badly()[condition.XidCritical], []string{condition.XidCritical})
		for range 10 {
			d.hear("n-1", gone)
		}
		if got := d.rules("n-1"); len(got) != 1 {
			t.Errorf("%s: %v", what, got)
		}
		d.now = d.now.Add(24 * time.Hour)
		d.hear("n-1", view.Sample{})
		d.until("n-1", gone, nil)
		if len(d.nodes["n-1"].StateReasons) != 0 {
			t.Errorf("%s: the node has the reasons %v", what, d.nodes["n-1"].StateReasons)
		}
	}
}

// TestOtherMachine: an Xid of the machine that was there before does not keep the one that took its place from work.
func TestOtherMachine(t *testing.T) {
	d := newWorld(t, "n-1")
	d.until("n-1", badly()[condition.XidCritical], []string{condition.XidCritical})
	d.until("n-1", reading(func(h *wire.Hardware, g *wire.GPU) {
		g.UUID = "GPU-4"
		h.Xids = &wire.Xids{State: wire.KernelNotAvailable}
	}), nil)
}

// TestMovesAgain: a node whose state is not what its findings want is moved in a later round, as after a move that failed.
func TestMovesAgain(t *testing.T) {
	d := newWorld(t, "n-1")
	d.broken = errors.New("the disk is full")
	d.now = d.now.Add(pace)
	d.take("n-1", badly()[condition.RemapFailed])
	if err := d.Flush(t.Context()); !errors.Is(err, d.broken) {
		t.Errorf("got %v", err)
	}
	d.broken = nil
	d.Round(t.Context())
	d.Round(t.Context())
	if got := fmt.Sprint(d.judged); got != "[n-1 +remap_failed]" {
		t.Errorf("moves: %s", got)
	}
}

// TestBrokenStore: what cannot be written waits, and is written later with its event.
func TestBrokenStore(t *testing.T) {
	d := newWorld(t, "n-1")
	d.now = d.now.Add(pace)
	d.take("n-1", badly()[condition.RemapFailed])
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Flush(gone); err == nil {
		t.Fatal("written without a database")
	}
	if len(d.judged) != 0 {
		t.Error("moved before it was written")
	}
	d.flush()
	rows, err := d.config.Records.Findings(t.Context())
	if err != nil || len(rows) != 1 || len(d.events("health.found")) != 1 || len(d.judged) != 1 {
		t.Errorf("rows %v, error %v, moves %v", rows, err, d.judged)
	}
}

// TestEvents: an event names the node, the rule and the value; those that come too often are counted by whoever counts.
func TestEvents(t *testing.T) {
	d := newWorld(t, "n-1")
	d.until("n-1", badly()[condition.RemapFailed], []string{condition.RemapFailed})
	e := d.events("health.found")[0]
	if e.NodeName != "name-n-1" || e.Tenant != "platform" || e.Actor != "gateway" || e.Security || e.Detail["rule"] != condition.RemapFailed ||
		e.Detail["severity"] != wire.SeveritySevere || e.Detail["gpu"] != "GPU-3" || !strings.Contains(e.Detail["text"], "remapped") {
		t.Errorf("the event is %+v", e)
	}
	counted := 0
	d.config.CountAgain = func(context.Context, store.Event) bool {
		counted++
		return true
	}
	d.restart()
	d.until("n-1", reading(nil), nil)
	if counted != 1 || len(d.events("health.cured")) != 0 || d.told["n-1"] != 3 {
		t.Errorf("counted %d, told %d times", counted, d.told["n-1"])
	}
}

// TestBoundOfTracks: a node that says nonsense of many GPUs takes a bounded place in memory and in the database.
func TestBoundOfTracks(t *testing.T) {
	d := newWorld(t, "n-1")
	s := badly()[condition.RemapFailed]
	for i := range wire.MaxGPUs {
		g := s.Hardware.GPUs[0]
		g.UUID = fmt.Sprint("GPU-", i)
		s.Hardware.GPUs = append(s.Hardware.GPUs, g)
	}
	d.hear("n-1", s)
	if got := len(d.Findings("n-1")); got != 256 {
		t.Errorf("%d findings", got)
	}
}

// TestList: by tenant, selector and severity; the severe first.
func TestList(t *testing.T) {
	d := newWorld(t, "n-1", "n-2", "n-3")
	d.nodes["n-2"].Tenant = "other"
	d.nodes["n-3"].Labels["tier"] = "lab"
	d.until("n-1", badly()[condition.DiskFull], []string{condition.DiskFull})
	d.until("n-2", badly()[condition.RemapFailed], []string{condition.RemapFailed})
	d.until("n-3", badly()[condition.RemapFailed], []string{condition.RemapFailed})
	for _, c := range []struct {
		query health.Query
		want  string
	}{
		{health.Query{}, "name-n-2 name-n-3 name-n-1"},
		{health.Query{Tenant: "platform"}, "name-n-3 name-n-1"},
		{health.Query{Severe: true}, "name-n-2 name-n-3"},
		{health.Query{Terms: []label.Term{{Key: "tier", Op: label.OpEquals, Value: "lab"}}}, "name-n-3"},
	} {
		var names []string
		for _, f := range d.List(c.query) {
			names = append(names, f.Node)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.query, got, c.want)
		}
	}
}

// TestListConflict: a node that two machines claim to be is in the list, though no rule looks at it.
func TestListConflict(t *testing.T) {
	d := newWorld(t, "n-1", "n-2", "n-3")
	for _, id := range []string{"n-1", "n-3"} {
		d.nodes[id].StateReasons = []string{wire.ReasonConflict}
		d.nodes[id].StateSince = start
	}
	d.nodes["n-3"].State = wire.StateRetired
	for tenant, want := range map[string]int{"": 1, "platform": 1, "other": 0} {
		found := d.List(health.Query{Tenant: tenant, Severe: true})
		if len(found) != want || want > 0 && (found[0].NodeID != "n-1" || found[0].Rule != wire.ReasonConflict || found[0].Since != start) {
			t.Errorf("tenant %q: %+v", tenant, found)
		}
	}
}

// TestOpenRefuses: a database that cannot be read, and a row that no selector is, are said; a rule of a later version is passed over.
func TestOpenRefuses(t *testing.T) {
	d := newWorld(t, "n-1")
	later := records.Change{Finding: records.Finding{Place: records.Place{NodeID: "n-1", Rule: "gpu_sad"}, Since: start}}
	if err := d.config.Records.Write(t.Context(), []records.Change{later}); err != nil {
		t.Fatal(err)
	}
	d.restart()
	if got := d.rules("n-1"); len(got) != 0 {
		t.Errorf("found %v", got)
	}
	if err := d.config.Records.Set(t.Context(), records.Setting{Rule: condition.GPUHot, Selector: ",,"}); err != nil {
		t.Fatal(err)
	}
	if _, err := health.Open(t.Context(), d.config); err == nil {
		t.Error("opened with a broken selector")
	}
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := health.Open(t.Context(), d.config); err == nil {
		t.Error("opened on a closed store")
	}
}
