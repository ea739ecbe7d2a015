package placement_test

import (
	"strings"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/console/placement"
)

// TestAllocationOf: what was asked for is said in one line, and what there is of it by node.
func TestAllocationOf(t *testing.T) {
	price := 2.5
	for want, w := range map[string]api.Wish{
		"1 × h200-sxm-gpu":                             {SKU: "h200-sxm-gpu"},
		"8 × h100 on any nodes":                        {GPU: "h100", Count: 8, Spread: true},
		"2 × vm, where site=fra, at most 2.50 an hour": {SKU: "vm", Count: 2, Selector: "site=fra", MaxPrice: &price},
		`1 × a\u202eb`:                                 {SKU: "a\u202eb"},
	} {
		if got := placement.AllocationOf(api.Allocation{Wish: w}).Wants; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	a := placement.AllocationOf(api.Allocation{State: api.AllocationReleasing, Slots: []api.AllocatedSlot{{Node: "a", GPUs: []string{"1"}},
		{Node: "b", GPUs: []string{"2"}}, {Node: "a", GPUs: []string{"3", "4"}, State: api.SlotBlocked}}})
	if a.GPUs != 4 || len(a.On) != 2 || a.On[0] != (placement.Place{Node: "a", GPUs: 3}) || len(a.Blocked) != 1 || a.Live() || a.Running() {
		t.Errorf("got %+v", a)
	}
	if !strings.HasPrefix(a.ReleaseSays()[0], " has 4 GPUs on a, b.") {
		t.Errorf("it says %q", a.ReleaseSays())
	}
}

// TestWords: one is not many, and what is not known is no number.
func TestWords(t *testing.T) {
	price := 1.999
	for got, want := range map[string]string{placement.Count(1, "GPU"): "1 GPU", placement.Count(0, "GPU"): "0 GPUs",
		placement.Count(1234, "slot"): "1,234 slots", placement.Money(nil): "–", placement.Money(&price): "2.00"} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestDecisionSays names the nodes, and who keeps what.
func TestDecisionSays(t *testing.T) {
	would := api.SlotsDecided{Changed: 1, Slots: []api.Slot{{Node: "a", Units: make([]api.Unit, 8), Allocation: "x"}, {Node: "a",
		Units:      make([]api.Unit, 1),
		Allocation: "x"}}}
	says := strings.Join(placement.DecisionSays(api.SlotDecision{Disable: true}, would), "\n")
	for _, want := range []string{"On a, 9 GPUs together.", "Already disabled: 1 of them.", "until the end: x."} {
		if !strings.Contains(says, want) {
			t.Errorf("%q lacks %q", says, want)
		}
	}
	if says := strings.Join(placement.DecisionSays(api.SlotDecision{}, would), "\n"); !strings.Contains(says, "Already approved: 1") ||
		strings.Contains(says, "until the end") {
		t.Errorf("approving says %q", says)
	}
}
