package health_test

import (
	"fmt"
	"slices"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/view"
)

// TestRuleMovesNoMore: a rule that was severe in another version takes its reason back.
func TestRuleMovesNoMore(t *testing.T) {
	d := newWorld(t, "n-1", "n-2")
	d.nodes["n-1"].StateReasons = []string{condition.GPUHot, wire.HealthGPUCountDropped}
	d.until("n-2", hot(95), []string{condition.GPUHot})
	d.nodes["n-2"].StateReasons = []string{condition.GPUHot}
	d.judged = nil
	d.Round(t.Context())
	slices.Sort(d.judged)
	if got := fmt.Sprint(d.judged); got != "[n-1 -gpu_hot n-2 -gpu_hot]" {
		t.Errorf("moves: %s", got)
	}
}

// TestNoGPUAnyMore: a machine without a GPU has no findings of GPUs.
func TestNoGPUAnyMore(t *testing.T) {
	d := newWorld(t, "n-1")
	d.until("n-1", badly()[condition.RemapFailed], []string{condition.RemapFailed})
	absent := view.Sample{Hardware: &wire.Hardware{Probe: wire.Probe{State: wire.ProbeAbsent}}}
	at := d.now
	absent.Hardware.Probe.SampledAt = &at // of the last look that saw rows
	absent.Hardware.GPUs = badly()[condition.RemapFailed].Hardware.GPUs
	if looks := d.until("n-1", absent, nil); looks < 2 {
		t.Errorf("cured by %d looks", looks)
	}
}
