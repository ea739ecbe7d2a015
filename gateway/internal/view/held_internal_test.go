package view

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

// TestHeldGPU: a GPU that a run keeps for itself is not idle, whatever it does, and idle again ten minutes after the run.
func TestHeldGPU(t *testing.T) {
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	n := &node{row: &api.NodeRow{}, idle: map[string]*stretch{}}
	zero := 0.0
	used := int64(10)
	beats := func(runs ...wire.Run) {
		for range 21 {
			at = at.Add(30 * time.Second)
			read := at
			h := &wire.Hardware{Runs: runs, Probe: wire.Probe{State: wire.ProbeOK, SampledAt: &read}}
			for _, uuid := range []string{"GPU-1", "GPU-2"} {
				h.GPUs = append(h.GPUs, wire.GPU{UUID: uuid, UtilizationPercent: &zero, MemoryUsedMiB: &used})
			}
			n.hear(Sample{At: at, Interval: 30 * time.Second, Hardware: h})
		}
	}
	beats(wire.Run{Name: "a", State: wire.RunRunning, GPUs: []string{"GPU-1"}},
		wire.Run{Name: "b", State: wire.RunExited, GPUs: []string{"GPU-2"}})
	if g := n.row.GPUs; g[0].Use != api.UseBusy || g[0].IdleSince != nil || g[1].IdleSince == nil ||
		n.row.IdleSince != nil || len(n.row.Runs) != 2 {
		t.Errorf("%v, %v, node %v", g[0].IdleSince, g[1].IdleSince, n.row.IdleSince)
	}
	beats(wire.Run{Name: "a", State: wire.RunRunning, GPUs: []string{wire.AllGPUs}})
	if g := n.row.GPUs; g[0].Use != api.UseBusy || g[1].Use != api.UseBusy || g[0].IdleSince != nil || g[1].IdleSince != nil {
		t.Errorf("all are kept: %v, %v", g[0].IdleSince, g[1].IdleSince)
	}
	beats()
	if n.row.IdleSince == nil {
		t.Error("nothing runs, and it is not idle")
	}
}
