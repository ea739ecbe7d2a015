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

// TestDown: a node shows what it costs while it does not run, also when it is read again, and until it may run.
func TestDown(t *testing.T) {
	p := Open(Config{})
	says := func() string {
		text := ""
		for _, id := range []string{"a", "b", "c"} {
			p.put(&node{row: &api.NodeRow{ID: id, Name: id}})
			row, _ := p.Row(id)
			text += fmt.Sprint(row.DownCost != nil)
			if row.DownCost != nil {
				text += fmt.Sprint(*row.DownCost)
			}
			text += " "
		}
		return text
	}
	says()
	for _, c := range []struct {
		costs   map[string]float64
		changed uint64
		want    string
	}{
		{map[string]float64{"a": 0, "b": .5, "d": 1}, 2, "true0 true0.5 false "},
		{map[string]float64{"a": 0, "b": .5, "d": 1}, 0, "true0 true0.5 false "},
		{map[string]float64{"b": .25, "c": 3}, 3, "false true0.25 true3 "},
		{nil, 2, "false false false "},
	} {
		was := p.version
		p.Down(c.costs)
		if changed := p.version - was; changed != c.changed || says() != c.want {
			t.Errorf("%v: %d rows, %s", c.costs, changed, says())
		}
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
