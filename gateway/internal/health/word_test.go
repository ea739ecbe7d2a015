package health_test

import (
	"slices"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/health/condition"
)

// TestWordThatFlaps: a node that fails at every other look leaves its work once, and comes back once, after it was well for some looks.
func TestWordThatFlaps(t *testing.T) {
	for _, word := range []string{condition.GPUCountDropped, condition.ProbeHung, condition.ProbeFailed, condition.GPUFault} {
		d := newWorld(t, "n-1")
		d.hear("n-1", reading(nil))
		for i := range 12 {
			d.words = nil
			if i%2 == 0 {
				d.words = []string{word}
			}
			d.hear("n-1", reading(nil))
			if !slices.Contains(d.nodes["n-1"].StateReasons, word) {
				t.Fatalf("%s: look %d: the node works", word, i)
			}
		}
		if looks := d.until("n-1", reading(nil), nil); looks != 2 { // and one before
			t.Errorf("%s: cured after %d more looks", word, looks)
		}
		d.hear("n-1", reading(nil))
		if len(d.nodes["n-1"].StateReasons) != 0 || len(d.events("health.found")) != 1 || len(d.events("health.cured")) != 1 {
			t.Errorf("%s: reasons %v, %d found, %d cured", word, d.nodes["n-1"].StateReasons, len(d.events("health.found")),
				len(d.events("health.cured")))
		}
	}
}

// TestWordOverRestart: a gateway that starts again goes on to count what was not well for long enough, also before it knows its nodes.
func TestWordOverRestart(t *testing.T) {
	d := newWorld(t, "n-1")
	d.words = []string{condition.ProbeHung}
	d.hear("n-1", reading(nil))
	d.restart()
	d.ready = false
	d.says("n-1")
	if got := d.nodes["n-1"].StateReasons; !slices.Equal(got, d.words) {
		t.Errorf("reasons %v", got)
	}
	d.ready = true
	d.words = nil
	if looks := d.until("n-1", reading(nil), nil); looks != 3 {
		t.Errorf("cured after %d looks", looks)
	}
}

// TestWordOfUnknown: what a node says counts by itself where the gateway does not know the node yet, or two machines claim to be it.
func TestWordOfUnknown(t *testing.T) {
	d := newWorld(t, "n-1")
	d.nodes["n-1"].StateReasons = []string{wire.ReasonConflict}
	said := []string{condition.GPUFault}
	for _, id := range []string{"n-1", "n-none"} {
		if got := d.Counts(id, pace, said, nil); !slices.Equal(got, said) {
			t.Errorf("%s: %v", id, got)
		}
		if got := d.Counts(id, pace, []string{}, nil); got == nil || len(got) != 0 || len(d.Findings(id)) != 0 {
			t.Errorf("%s: well: %v, findings %v", id, got, d.Findings(id))
		}
	}
}

// TestWordSwitchedOff: a word does not count where its rule is off, and what was found by it closes.
func TestWordSwitchedOff(t *testing.T) {
	d := newWorld(t, "n-1", "n-2")
	d.nodes["n-1"].Labels["tier"] = "lab"
	d.words = []string{condition.GPUCountDropped, condition.GPUFault}
	d.hear("n-1", reading(nil))
	d.set(condition.GPUCountDropped, "tier=lab", nil, true)
	for id, want := range map[string]int{"n-1": 1, "n-2": 2} {
		if got := d.Counts(id, pace, d.words, nil); len(got) != want || got[len(got)-1] != condition.GPUFault {
			t.Errorf("%s: %v", id, got)
		}
	}
	d.now = d.now.Add(time.Second)
	d.Round(t.Context())
	if got := d.rules("n-1"); !slices.Equal(got, []string{condition.GPUFault}) {
		t.Errorf("found %v", got)
	}
}
