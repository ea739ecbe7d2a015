package health_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/view"
	records "muster/store/health"
)

// badly has for each rule a node, or a heartbeat, that it must find. Silent is tested by itself.
func badly() map[string]view.Sample {
	on := func(change func(h *wire.Hardware, g *wire.GPU)) view.Sample { return reading(change) }
	crashes := reading(nil)
	crashes.Cost = &wire.Cost{Starts: &wire.Starts{Crashes: to(4), Why: "panic: out of luck"}}
	skewed := reading(nil)
	skewed.SkewMillis = -45_000
	ended := reading(nil)
	ended.Agent = &wire.AgentInfo{ReleaseEnds: to(start.Add(-time.Second))}
	return map[string]view.Sample{
		condition.GPUCountDropped: reading(nil), // the node says so in a word
		condition.ProbeHung:       reading(nil), // the node says so in a word
		condition.ProbeFailed:     reading(nil), // the node says so in a word
		condition.GPUFault:        reading(nil), // the node says so in a word
		condition.XidCritical:     on(func(h *wire.Hardware, _ *wire.GPU) { h.Xids.Events = []wire.Xid{xid(79, start, "GPU-3")} }),
		condition.ECCUncorrected:  on(func(_ *wire.Hardware, g *wire.GPU) { g.ECC.UncorrectedVolatile = to(int64(2)) }),
		condition.RemapPending:    on(func(_ *wire.Hardware, g *wire.GPU) { g.RemappedRows.Pending = to(true) }),
		condition.RemapFailed:     on(func(_ *wire.Hardware, g *wire.GPU) { g.RemappedRows.Failure = to(true) }),
		condition.RecoveryAction:  on(func(_ *wire.Hardware, g *wire.GPU) { g.RecoveryAction = to("GPU Reset") }),
		condition.GPUHot:          hot(96),
		condition.GPUBusy:         on(func(_ *wire.Hardware, g *wire.GPU) { g.UtilizationPercent = to(99.0) }),
		condition.GPUIdle:         on(func(_ *wire.Hardware, g *wire.GPU) { g.UtilizationPercent = to(3.0) }),
		condition.CPUBusy:         on(func(h *wire.Hardware, _ *wire.GPU) { h.Load1 = to(15.5) }),
		condition.MemoryFull:      on(func(h *wire.Hardware, _ *wire.GPU) { h.MemoryUsedMiB = to(int64(97)) }),
		condition.GPUThrottled: on(func(_ *wire.Hardware, g *wire.GPU) {
			g.Clocks.Reasons = []string{"sw_power_cap", "hw_thermal_slowdown"}
		}),
		condition.PowerCable:     on(func(h *wire.Hardware, _ *wire.GPU) { h.Probe.Cause = wire.CausePowerCable }),
		condition.PCIeSlow:       on(func(_ *wire.Hardware, g *wire.GPU) { g.PCIe.Width = to(8) }),
		condition.NVLinkDown:     on(func(_ *wire.Hardware, g *wire.GPU) { g.NVLinks.Down = to(2) }),
		condition.FabricNotReady: on(func(_ *wire.Hardware, g *wire.GPU) { g.Fabric.State = to("in_progress") }),
		condition.DiskFull:       on(func(h *wire.Hardware, _ *wire.GPU) { h.DiskUsedMiB = to(int64(960)) }),
		condition.ClockOff:       skewed,
		condition.RenewalOverdue: reading(nil), // the node tells
		condition.AgentCrashLoop: crashes,
		condition.ReleaseEnded:   ended,
		condition.GPUUnclaimed:   on(func(_ *wire.Hardware, g *wire.GPU) { g.Processes = &wire.Processes{Count: to(2)} }),
		condition.GPUForeign: on(func(_ *wire.Hardware, g *wire.GPU) {
			g.Processes = &wire.Processes{Count: to(1), List: []wire.GPUProcess{{PID: 7, User: "bob", Allocation: "b"}}}
		}),
		condition.AllocationIdle: reading(nil), // what is allocated tells, and since when it is idle
		condition.CleanupBlocked: reading(nil), // what is allocated tells
	}
}

// placed is where a node stands among what is allocated, so that a rule finds something; nil: that does not matter.
func placed(rule string) *api.NodePlacement {
	hold := api.GPUHold{GPU: "GPU-3", Allocation: "a", Owner: "account:ada", State: api.SlotAllocated, Since: start.Add(-2 * time.Hour)}
	switch rule {
	case condition.GPUUnclaimed:
		return &api.NodePlacement{Capacity: api.CapacityOpen}
	case condition.CleanupBlocked:
		hold.State = api.SlotBlocked
	case condition.AllocationIdle, condition.GPUForeign:
	default:
		return nil
	}
	return &api.NodePlacement{Capacity: api.CapacityFull, Holds: []api.GPUHold{hold}}
}

// place has a node stand so, with a GPU that is idle for so long.
func (d *world) place(p *api.NodePlacement, idle time.Duration) {
	d.nodes["n-1"].Placement = p
	d.nodes["n-1"].GPUs = nil
	if p != nil && len(p.Holds) > 0 {
		d.nodes["n-1"].GPUs = []api.GPU{{UUID: "GPU-3", IdleSince: to(start.Add(-idle))}}
	}
}

// TestAllocationIdle: what was idle before it was allocated is not counted, nor what is being cleaned.
func TestAllocationIdle(t *testing.T) {
	d := newWorld(t, "n-1")
	p := placed(condition.AllocationIdle)
	p.Holds[0].Since = start
	d.place(p, 10*time.Hour)
	d.hear("n-1", reading(nil))
	for range 40 {
		d.hear("n-1", reading(nil))
	}
	if got := d.rules("n-1"); len(got) != 0 {
		t.Errorf("found %v in the first hour", got)
	}
	p = placed(condition.AllocationIdle)
	p.Holds[0].State = api.SlotCleaning
	d.place(p, 10*time.Hour)
	for range 40 {
		d.hear("n-1", reading(nil))
	}
	if got := d.rules("n-1"); len(got) != 0 {
		t.Errorf("found %v while it is cleaned", got)
	}
}

// TestUnclaimed: a process is nobody's fault on a GPU that is allocated, and where no GPU is.
func TestUnclaimed(t *testing.T) {
	busy := badly()[condition.GPUUnclaimed]
	for name, p := range map[string]*api.NodePlacement{"no slots": {Capacity: api.CapacityNone}, "nothing known": nil,
		"allocated": {Capacity: api.CapacityFull, Holds: []api.GPUHold{{GPU: "GPU-3", State: api.SlotAllocated, Since: start}}}} {
		d := newWorld(t, "n-1")
		d.place(p, 0)
		for range 10 {
			d.hear("n-1", busy)
		}
		if got := d.rules("n-1"); len(got) != 0 {
			t.Errorf("%s: found %v", name, got)
		}
	}
}

func xid(code int, at time.Time, gpu string) wire.Xid {
	return wire.Xid{At: at, Kind: wire.XidReport, Code: &code, UUID: gpu, Text: "pid=1, name=python"}
}

// limits are those that a person sets: without them these rules find nothing.
func limits() map[string]float64 {
	return map[string]float64{condition.GPUBusy: 98, condition.GPUIdle: 5, condition.CPUBusy: 95, condition.MemoryFull: 95}
}

// TestOverTime: a rule finds only what was bad for as long as a person said, at each look.
func TestOverTime(t *testing.T) {
	d := newWorld(t, "n-1")
	idle := reading(func(_ *wire.Hardware, g *wire.GPU) { g.UtilizationPercent = to(2.0) })
	_, err := d.Set(t.Context(), records.Setting{Rule: condition.GPUIdle, Limit: to(5.0), For: time.Hour}, operator)
	if err != nil {
		t.Fatal(err)
	}
	d.restart()
	for range 119 {
		d.hear("n-1", idle)
	}
	d.hear("n-1", reading(nil)) // it works for a moment
	for range 120 {
		d.hear("n-1", idle)
	}
	if got := d.rules("n-1"); len(got) != 0 {
		t.Errorf("found %v though it worked within the hour", got)
	}
	d.until("n-1", idle, []string{condition.GPUIdle})
	if e := d.events("health.rule_set"); len(e) != 1 || e[0].Detail["for"] != "1h0m0s" {
		t.Errorf("events %+v", e)
	}
}

// TestEveryRule: each row of the table finds what it is for, alone and not at once where it has to hold, moves a node where it is severe,
// and is cured again.
func TestEveryRule(t *testing.T) {
	cases := badly()
	for _, r := range found() {
		t.Run(r.Name, func(t *testing.T) {
			if r.Name == condition.NodeStale {
				return
			}
			sick, there := cases[r.Name]
			if !there {
				t.Fatal("no heartbeat is bad by this rule")
			}
			d := newWorld(t, "n-1")
			if limit, is := limits()[r.Name]; is {
				for range 20 {
					d.hear("n-1", sick)
				}
				if got := d.rules("n-1"); len(got) != 0 {
					t.Fatalf("found %v before a person set a limit", got)
				}
				d.set(r.Name, "", &limit, false)
			}
			d.hear("n-1", reading(nil))
			d.nodes["n-1"].RenewalOverdue = r.Name == condition.RenewalOverdue
			d.place(placed(r.Name), 2*time.Hour)
			if r.Word {
				d.words = []string{r.Name}
			}
			looks := d.until("n-1", sick, []string{r.Name})
			if looks < r.Found.Looks || time.Duration(looks-1)*pace < r.Found.For {
				t.Errorf("found after %d looks, want at least %+v", looks, r.Found)
			}
			f := d.Findings("n-1")[0]
			if f.Text == "" || f.GPU != "" != r.GPU || f.Since.Before(start) || f.Old || f.Next == "" || strings.Contains(f.Next, "NAME") {
				t.Errorf("the finding is %+v", f)
			}
			if moved := slices.Contains(d.nodes["n-1"].StateReasons, r.Name); moved != (r.Severity == wire.SeveritySevere) {
				t.Errorf("the node has the reasons %v", d.nodes["n-1"].StateReasons)
			}
			d.nodes["n-1"].RenewalOverdue = false
			d.place(nil, 0)
			d.words = nil
			looks = d.until("n-1", reading(nil), nil)
			if looks < r.Cured.Looks || time.Duration(looks-1)*pace < r.Cured.For {
				t.Errorf("cured after %d looks, want at least %+v", looks, r.Cured)
			}
			if len(d.nodes["n-1"].StateReasons) != 0 || len(d.events("health.found")) != 1 || len(d.events("health.cured")) != 1 {
				t.Errorf("reasons %v, %d found, %d cured", d.nodes["n-1"].StateReasons, len(d.events("health.found")), len(d.events("health.cured")))
			}
		})
	}
}

// until hears the same heartbeat until exactly these rules have findings, and counts.
func (d *world) until(id string, s view.Sample, want []string) int {
	d.t.Helper()
	for looks := 1; looks <= 40; looks++ {
		d.hear(id, s)
		if got := d.rules(id); slices.Equal(got, want) {
			return looks
		} else if len(got) > 1 {
			d.t.Fatalf("findings of %v, want %v", got, want)
		}
	}
	d.t.Fatalf("findings of %v after 40 looks, want %v", d.rules(id), want)
	return 0
}

// TestFabricThatFailed: a fabric that completed without success is not ready.
func TestFabricThatFailed(t *testing.T) {
	d := newWorld(t, "n-1")
	d.until("n-1", reading(func(_ *wire.Hardware, g *wire.GPU) { g.Fabric.Status = to("insufficient_resources") }),
		[]string{condition.FabricNotReady})
	d.until("n-1", reading(nil), nil)
}

// TestTable: names are unique, and every rule says what it means, what to do, and which page says more.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range found() {
		if seen[r.Name] || r.Found.Looks < 1 || r.Cured.Looks < 1 {
			t.Errorf("the rule %q is there twice, or needs no look", r.Name)
		}
		seen[r.Name] = true
		for _, text := range []string{r.Meaning, r.Next} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q is no sentence", r.Name, text)
			}
		}
		limit := r.Limit
		if person, is := limits()[r.Name]; is && limit == 0 {
			limit = person
		}
		if (r.Unit == "") != (limit == 0) || limit > r.Most || r.Ease >= limit && r.Unit != "" || r.Topic == "" {
			t.Errorf("%s has the limit %g %q of at most %g, eased by %g, topic %q", r.Name, r.Limit, r.Unit, r.Most, r.Ease, r.Topic)
		}
	}
}

// TestUnknown: what is not known finds nothing and cures nothing, and things that only look bad are none.
func TestUnknown(t *testing.T) {
	harmless := map[string]view.Sample{
		"nothing was read": {},
		"no look was made": {Hardware: &wire.Hardware{Probe: wire.Probe{State: wire.ProbeHung}}},
		"a GPU says nothing": {Hardware: &wire.Hardware{Probe: wire.Probe{State: wire.ProbeOK},
			GPUs: []wire.GPU{{UUID: "GPU-3"}}}},
		"an idle link": reading(func(_ *wire.Hardware, g *wire.GPU) {
			g.PCIe.Generation = to(1)
			g.UtilizationPercent = to(0.0)
		}),
		"unified memory": reading(func(_ *wire.Hardware, g *wire.GPU) {
			g.MemorySource = wire.MemoryUnified
			g.PCIe.Width = to(1)
		}),
		"a board without a bridge": reading(func(_ *wire.Hardware, g *wire.GPU) { g.NVLinks.Down = to(18) }),
		"an Xid of an application": reading(func(h *wire.Hardware, _ *wire.GPU) { h.Xids.Events = []wire.Xid{xid(13, start, "GPU-3")} }),
		"an Xid of another container": reading(func(h *wire.Hardware, _ *wire.GPU) {
			h.Xids.Events = []wire.Xid{xid(79, start, "")}
		}),
		"an Xid of long ago": reading(func(h *wire.Hardware, _ *wire.GPU) {
			h.Xids.Events = []wire.Xid{xid(79, start.Add(-25*time.Hour), "GPU-3")}
		}),
		"a kernel that cannot be read": reading(func(h *wire.Hardware, _ *wire.GPU) {
			h.Xids = &wire.Xids{State: wire.KernelNotAvailable, Events: []wire.Xid{xid(79, start, "GPU-3")}}
		}),
	}
	for name, s := range harmless {
		t.Run(name, func(t *testing.T) {
			d := newWorld(t, "n-1")
			for range 30 {
				d.hear("n-1", s)
			}
			if got := d.rules("n-1"); len(got) != 0 {
				t.Errorf("found %v", got)
			}
		})
	}
	d := newWorld(t, "n-1")
	d.until("n-1", hot(96), []string{condition.GPUHot})
	for range 30 {
		d.hear("n-1", view.Sample{})
	}
	if got := d.rules("n-1"); len(got) != 1 {
		t.Errorf("after heartbeats that say nothing: %v", got)
	}
}
