package health_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/view"
	records "muster/store/health"
)

// TestRuleIsGone: a rule that this version does not have leaves neither its finding nor its reason behind.
func TestRuleIsGone(t *testing.T) {
	d := newWorld(t, "n-1")
	old := records.Finding{Place: records.Place{NodeID: "n-1", Rule: "fan_stuck", GPU: "GPU-3"}, Since: start, Text: "its fan does not turn"}
	if err := d.config.Records.Write(t.Context(), []records.Change{{Finding: old}}); err != nil {
		t.Fatal(err)
	}
	d.nodes["n-1"].StateReasons = []string{"fan_stuck"}
	d.restart()
	d.broken = errors.New("the disk is full")
	d.Round(t.Context())
	d.flush()
	if rows, err := d.config.Records.Findings(t.Context()); err != nil || len(rows) != 1 {
		t.Fatalf("the finding went before the reason: %v, error %v", rows, err)
	}
	d.broken = nil
	d.Round(t.Context())
	d.flush()
	rows, err := d.config.Records.Findings(t.Context())
	if cured := d.events("health.cured"); err != nil || len(rows) != 0 || len(cured) != 1 || cured[0].Detail["why"] == "" {
		t.Errorf("rows %v, error %v, events %v", rows, err, cured)
	}
	if got := fmt.Sprint(d.judged); got != "[n-1 -fan_stuck]" {
		t.Errorf("moves: %s", got)
	}
}

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
