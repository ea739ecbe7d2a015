package placement_test

import (
	"testing"
	"time"

	"muster/store"
	"muster/store/placement"
)

func due(t *testing.T, r placement.Records, at time.Time) []placement.Work {
	t.Helper()
	work, err := r.Due(t.Context(), at)
	must(t, err)
	return work
}

// TestRelease: units are free only when they are clean, each by itself, and what is in the way is said and tried again.
func TestRelease(t *testing.T) {
	t.Parallel()
	r, s := open(t, "n-1", "n-2")
	ready(t, r, "n-1", 2)
	ready(t, r, "n-2", 1)
	must(t, r.Claim(t.Context(), claim("a-1", "n-1-g0", "n-1-g1", "n-2-g0")))
	wantConflict(t, "it has not ended", r.Clean(t.Context(), "a-1", "n-1", []string{key(0)}, start))
	wantConflict(t, "it has not ended", r.Block(t.Context(), "a-1", "n-1", nil, start))
	wantSame(t, "due", due(t, r, start), "[]")
	event := store.Event{At: start, Kind: "allocation.released", Outcome: store.OutcomeOK}
	must(t, r.Release(t.Context(), placement.Release{ID: "a-1", Why: "asked", At: start}, event))
	wantConflict(t, "again", r.Release(t.Context(), placement.Release{ID: "a-1", Why: "asked", At: start}, event))
	wantConflict(t, "none", r.Release(t.Context(), placement.Release{ID: "none", At: start}, event))
	if events, err := s.Events(t.Context(), store.EventQuery{Kind: event.Kind}); err != nil || len(events) != 1 {
		t.Errorf("events %v, %v", events, err)
	}

	works := []placement.Work{
		{Allocation: "a-1", NodeID: "n-1", Units: []placement.Unit{unit("n-1", 0), unit("n-1", 1)}},
		{Allocation: "a-1", NodeID: "n-2", Units: []placement.Unit{unit("n-2", 0)}},
	}
	wantSame(t, "due", due(t, r, start), works)
	again := after(10 * time.Minute)
	must(t, r.Try(t.Context(), works[0], start, again))
	wantConflict(t, "it is under way", r.Try(t.Context(), works[0], start, again))
	wantSame(t, "due", due(t, r, start), works[1:])
	left := []placement.Obstacle{{Unit: key(1), Reason: "pid 7 has it", Next: "end it"}}
	must(t, r.Block(t.Context(), "a-1", "n-1", left, after(5*time.Minute)))
	must(t, r.Clean(t.Context(), "a-1", "n-1", []string{key(0)}, start))
	must(t, r.Clean(t.Context(), "a-1", "n-2", []string{key(0), key(1)}, start))
	wantSame(t, "left", live(t, r), map[string]string{"n-1/" + key(1): "a-1 blocked"})
	a := allocation(t, r, "a-1")
	if a.State != placement.Releasing || a.Holds[1].Reason != "pid 7 has it" || a.Holds[1].Next != "end it" || a.Holds[1].Tries != 1 {
		t.Errorf("got %+v", a)
	}
	must(t, r.Claim(t.Context(), claim("a-2", "n-1-g0")))
	wantConflict(t, "what is blocked", r.Claim(t.Context(), claim("a-3", "n-1-g1")))
	wantConflict(t, "what is clean, of one that has it no longer", r.Clean(t.Context(), "a-1", "n-2", []string{key(0)}, start))

	wantSame(t, "due", due(t, r, after(4*time.Minute)), "[]")
	wantSame(t, "due", len(due(t, r, after(5*time.Minute))), 1)
	wantSame(t, "due for a clock that was set back", len(due(t, r, after(-25*time.Hour))), 1)
	must(t, r.Clean(t.Context(), "a-1", "n-1", []string{key(0), key(1)}, after(time.Hour)))
	wantSame(t, "left", live(t, r), map[string]string{"n-1/" + key(0): "a-2 held"})
	a = allocation(t, r, "a-1")
	if a.State != placement.Released || !a.EndedAt.Equal(start) || a.Holds[1].Reason != "" {
		t.Errorf("got %+v", a)
	}
}

// TestFreeEmpty: a node that was taken back by force loses its holds, also those of an allocation that waits to be cleaned, and keeps its
// slots.
func TestFreeEmpty(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"commissioned", "ready"} {
		r, s := open(t, "n-1")
		ready(t, r, "n-1", 2)
		must(t, r.Claim(t.Context(), claim("held", "n-1-g0")))
		must(t, r.Claim(t.Context(), claim("ended", "n-1-g1")))
		must(t, r.Release(t.Context(), placement.Release{ID: "ended", Why: "asked", At: start}))
		if stranded, err := r.Stranded(t.Context()); err != nil || len(stranded) != 0 {
			t.Errorf("while it works: %v, %v", stranded, err)
		}
		move(t, s, "n-1", "active", state)
		stranded, err := r.Stranded(t.Context())
		must(t, err)
		wantSame(t, "stranded", stranded, []string{"n-1"})
		must(t, r.FreeNode(t.Context(), "n-1", "gone", start))
		wantSame(t, "left", live(t, r), map[string]string{})
		for _, id := range []string{"held", "ended"} {
			wantSame(t, id, allocation(t, r, id).State, "released")
		}
		if stranded, err = r.Stranded(t.Context()); err != nil || len(stranded) != 0 {
			t.Errorf("stranded %v, %v", stranded, err)
		}
		if list, err := r.Slots(t.Context(), placement.SlotQuery{Nodes: []string{"n-1"}}); err != nil || len(list) == 0 {
			t.Errorf("slots %v, %v", list, err)
		}
	}
}

// TestFreeNode: what is held of a machine that was given back is free, and the rest of its allocations stays.
func TestFreeNode(t *testing.T) {
	t.Parallel()
	r, s := open(t, "n-1", "n-2")
	ready(t, r, "n-1", 3)
	ready(t, r, "n-2", 1)
	must(t, r.Claim(t.Context(), claim("both", "n-1-g0", "n-2-g0")))
	must(t, r.Claim(t.Context(), claim("held", "n-1-g1")))
	must(t, r.Claim(t.Context(), claim("ended", "n-1-g2")))
	must(t, r.Release(t.Context(), placement.Release{ID: "ended", Why: "asked", At: after(-time.Hour)}))
	wantConflict(t, "it is at work", r.FreeNode(t.Context(), "n-1", "gone", start))
	move(t, s, "n-1", "active", store.StateRetired)
	stranded, err := r.Stranded(t.Context())
	must(t, err)
	wantSame(t, "stranded", stranded, []string{"n-1"})
	for range 2 {
		must(t, r.FreeNode(t.Context(), "n-1", "gone", start))
	}
	if stranded, err = r.Stranded(t.Context()); err != nil || len(stranded) != 0 {
		t.Errorf("stranded %v, %v", stranded, err)
	}
	wantSame(t, "left", live(t, r), map[string]string{"n-2/" + key(0): "both held"})
	for id, want := range map[string]string{"both": "allocated ", "held": "released gone 0s", "ended": "released asked -1h0m0s"} {
		a := allocation(t, r, id)
		got := a.State + " " + a.EndedWhy
		if a.EndedAt != nil {
			got += " " + a.EndedAt.Sub(start).String()
		}
		wantSame(t, id, got, want)
	}
	must(t, r.Release(t.Context(), placement.Release{ID: "both", At: start}))
	for i, want := range []string{placement.Held, placement.Cleaning} { // the first was free before
		wantSame(t, "of both", allocation(t, r, "both").Holds[i].State, want)
	}
	if got, err := r.Newest(t.Context(), "n-1"); err != nil || got.Current {
		t.Errorf("evidence %+v, %v", got, err)
	}
	list, err := r.Slots(t.Context(), placement.SlotQuery{Nodes: []string{"n-1"}})
	holds, _ := r.Holds(t.Context(), []string{"n-1"})
	if err != nil || len(list)+len(holds) != 0 {
		t.Errorf("slots %v, holds %v, %v", list, holds, err)
	}
}
