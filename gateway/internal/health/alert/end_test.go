package alert_test

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/health/alert"
)

// TestUnknownFacts: while nothing is known of a condition, its alerts stay, also over a start.
func TestUnknownFacts(t *testing.T) {
	h := newHouse(t)
	h.facts = []alert.Fact{{Condition: machines.ToldWarning, Subject: "rack-7 (abc)", Since: h.now, Text: "rack-7 (abc): it is broken"}}
	h.pass(16 * time.Minute)
	h.want("broken", "machine_warning rack-7 (abc)")
	h.facts = []alert.Fact{{Condition: machines.ToldWarning, Unknown: true}, {Condition: machines.ToldSevere, Unknown: true}}
	h.open()
	h.pass(20 * time.Minute)
	h.want("after the start", "machine_warning rack-7 (abc)")
	if got := h.count("alert.resolved"); got != 0 {
		t.Errorf("it was resolved %d times", got)
	}
	h.facts = nil
	h.pass(16 * time.Minute)
	h.want("seen to be well", "")
}

// TestGivenBack: the alert about a silent node ends when the node has no agent any more, as a machine that was given back.
func TestGivenBack(t *testing.T) {
	h := newHouse(t, fleet(1)...)
	stale(h.nodes[0])
	h.pass(2 * time.Minute)
	if got := h.count("alert.fired"); got != 1 {
		t.Fatalf("it fired %d times", got)
	}
	h.nodes[0].State, h.nodes[0].Status = wire.StateReady, wire.StatusPending
	h.pass(10 * time.Minute)
	if got := h.count("alert.resolved"); got != 1 || len(h.desk.List(alert.Query{})) != 0 {
		t.Errorf("it was resolved %d times", got)
	}
}
