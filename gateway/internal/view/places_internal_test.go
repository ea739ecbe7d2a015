package view

import (
	"fmt"
	"testing"

	"muster/gateway/api"
	"muster/store"
)

// TestPlaces: a set of numbers, also of those that are larger than any before.
func TestPlaces(t *testing.T) {
	var p places
	for _, place := range []int{0, 63, 64, 1000} {
		if p.has(place) {
			t.Errorf("%d is there before it came", place)
		}
		p.add(place)
		if !p.has(place) || p.has(place+1) {
			t.Errorf("after %d: %v", place, p)
		}
	}
	p.remove(64)
	if p.has(64) || !p.has(63) || !p.has(1000) || p.has(100_000) {
		t.Errorf("after one went: %v", p)
	}
}

// TestWatchIsSmall: a reader of all nodes keeps a bit of each, and a node that is read again keeps its own.
func TestWatchIsSmall(t *testing.T) {
	p := Open(Config{})
	for range 2 {
		for i := range 6400 {
			p.put(&node{row: &api.NodeRow{ID: fmt.Sprint("n", i), Name: fmt.Sprint("n", i)}})
		}
	}
	w := p.Watch(Query{})
	if len(w.shown) != 100 || !w.shown.has(6399) || w.shown.has(6400) {
		t.Errorf("%d words for 6400 nodes", len(w.shown))
	}
}

// TestClockStepIsOneRound: after a step of the clock the nodes are not read one by one.
func TestClockStepIsOneRound(t *testing.T) {
	p := Open(Config{})
	p.put(&node{row: &api.NodeRow{ID: "n-1"}})
	p.Changed(t.Context(), []store.Event{{Kind: clockStepped}})
	if !p.allAgain || len(p.again) != 0 || len(p.wake) != 1 {
		t.Errorf("all %v, one by one %v, awake %d", p.allAgain, p.again, len(p.wake))
	}
}
