package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
	records "muster/store/placement"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// TestCapacity has every combination of what a capacity follows from. The word is that of the first bar in a fixed order, and every bar is
// a reason.
func TestCapacity(t *testing.T) {
	t.Parallel()
	words := map[string]int{}
	for _, state := range wire.States() {
		for _, status := range []string{store.StatusOnline, "online?", store.StatusStale, store.StatusPending} {
			for _, certificate := range []string{"none", "good", "expired"} {
				for _, evidence := range []string{"no profile", "none", "old", "missing", "good"} {
					for i := range 1 << 5 {
						u := units{proposed: i & 1, free: i >> 1 & 1, held: i >> 2 & 1, cleaning: i >> 3 & 1, blocked: i >> 4 & 1}
						name := fmt.Sprintf("%s, %s, certificate %s, evidence %s, %+v", state, status, certificate, evidence, u)
						n, e := row(state, status, certificate), proof(evidence)
						got, reasons := e.capacity(n, u, now)
						if want := expected(state, status, certificate, evidence, u); got != want {
							t.Fatalf("%s: %s, want %s", name, got, want)
						}
						_, bars := e.barred(n, now)
						if isBarred := !slices.Contains([]string{api.CapacityOpen, api.CapacityFull, api.CapacityBlocked}, got) &&
							u.free > 0; isBarred != (len(bars) > 0) && u.free > 0 {
							t.Fatalf("%s: %s with the bars %v", name, got, bars)
						}
						if counts := i&1 + i>>1&1 + i>>2&1 + i>>3&1 + i>>4&1; len(reasons) != len(bars)+counts {
							t.Fatalf("%s: %d reasons: %v", name, len(reasons), reasons)
						}
						words[got]++
					}
				}
			}
		}
	}
	if len(words) != 9 {
		t.Errorf("words that come up: %v", words)
	}
}

func row(state, status, certificate string) *api.NodeRow {
	n := &api.NodeRow{State: state, Status: status}
	if status == "online?" {
		n.Status, n.Unheard = store.StatusOnline, true
	}
	switch at := now; certificate {
	case "good":
		at = now.Add(time.Second)
		n.NotAfter = &at
	case "expired":
		n.NotAfter = &at
	}
	return n
}

func proof(kind string) *node {
	n := &node{profile: "container", there: true, evidence: records.Evidence{Profile: "container", Current: true}}
	switch kind {
	case "no profile":
		return &node{}
	case "none":
		return &node{profile: "container"}
	case "old":
		n.evidence.Current = false
	case "missing":
		n.missing = []string{"kvm: /dev/kvm is not there"}
	}
	return n
}

// expected says the same in other words than capacity: a list of what wins, the first that is true.
func expected(state, status, certificate, evidence string, u units) string {
	isGone := !strings.Contains("active drained unavailable", state)
	for _, rule := range []struct {
		is   bool
		word string
	}{
		{state == wire.StateUnavailable, api.CapacityUnavailable},
		{state == wire.StateDrained, api.CapacityDrained},
		{isGone, api.CapacityGone},
		{certificate == "expired", api.CapacityUnavailable},
		{status != store.StatusOnline, api.CapacitySilent},
		{evidence == "no profile", api.CapacityNone},
		{evidence != "good", api.CapacityUnproven},
		{u.free > 0, api.CapacityOpen},
		{u.blocked > 0, api.CapacityBlocked},
		{u.held+u.cleaning > 0, api.CapacityFull},
	} {
		if rule.is {
			return rule.word
		}
	}
	return api.CapacityNone
}

// TestReasons: what a person reads.
func TestReasons(t *testing.T) {
	t.Parallel()
	n := row(wire.StateDrained, store.StatusStale, "expired")
	n.StateReasons = []string{"drained"}
	_, reasons := proof("missing").capacity(n, units{free: 2, blocked: 1, held: 3, cleaning: 1, proposed: 1}, now)
	want := []string{"it is drained: drained", "its certificate has expired", "it is stale", "kvm: /dev/kvm is not there",
		"1 of its GPUs could not be cleaned", "1 of its GPUs are being cleaned", "3 of its GPUs are allocated", "2 of its GPUs are free",
		"1 of its GPUs wait for approval"}
	if !slices.Equal(reasons, want) {
		t.Errorf("%q", reasons)
	}
}
