package placement_test

import (
	"fmt"
	"testing"
	"time"

	"muster/store/placement"
)

func use(node, program string, since, until time.Duration, memory *int64) placement.Use {
	return placement.Use{UseKey: placement.UseKey{NodeID: node, GPU: "GPU-0", User: "ada", Program: program, Allocation: "a"}, Owner: "ada",
		Since: after(since), Until: after(until), MemoryMiB: memory}
}

// uses are those of a node, as program, minutes and memory.
func uses(t testing.TB, r placement.Records, node string, since time.Duration) (all []string) {
	t.Helper()
	list, err := r.Uses(t.Context(), node, after(since))
	must(t, err)
	for _, u := range list {
		memory := "?"
		if u.MemoryMiB != nil {
			memory = fmt.Sprint(*u.MemoryMiB)
		}
		all = append(all, fmt.Sprintf("%s %v-%v %s", u.Program, u.Since.Sub(start), u.Until.Sub(start), memory))
	}
	return all
}

// TestUses: a use that goes on is one row, which only grows, and what was seen last comes first.
func TestUses(t *testing.T) {
	t.Parallel()
	r, _ := open(t)
	m := time.Minute
	save := func(list ...placement.Use) {
		t.Helper()
		must(t, r.SaveUses(t.Context(), list, nil))
	}
	save(use("n", "train", 0, 5*m, nil), use("n", "eval", m, 2*m, new(int64(10))), use("other", "x", 0, 0, nil))
	wantSame(t, "two", uses(t, r, "n", 0), []string{"train 0s-5m0s ?", "eval 1m0s-2m0s 10"})
	save(use("n", "train", 0, 9*m, new(int64(70))), use("n", "eval", m, 12*m, new(int64(9))))
	wantSame(t, "they go on", uses(t, r, "n", 0), []string{"eval 1m0s-12m0s 10", "train 0s-9m0s 70"})
	save(use("n", "train", 0, 3*m, nil)) // of an earlier state, a second time
	wantSame(t, "less changes nothing", uses(t, r, "n", 0), []string{"eval 1m0s-12m0s 10", "train 0s-9m0s 70"})
	save(use("n", "train", 40*m, 41*m, nil))
	wantSame(t, "after a gap", uses(t, r, "n", 10*m), []string{"train 40m0s-41m0s ?", "eval 1m0s-12m0s 10"})
	list, err := r.Uses(t.Context(), "other", start)
	must(t, err)
	wantSame(t, "all of it comes back", list, []placement.Use{use("other", "x", 0, 0, nil)})
	recent, err := r.RecentUses(t.Context(), after(12*m))
	must(t, err)
	if len(recent) != 2 || recent[0].Program != "eval" || recent[1].Since != after(40*m) {
		t.Errorf("recent: %+v", recent)
	}
}

// TestMostUses: of a node that sends more than is kept, those that were seen last stay, and other nodes lose nothing.
func TestMostUses(t *testing.T) {
	t.Parallel()
	r, _ := open(t)
	must(t, r.SaveUses(t.Context(), []placement.Use{use("other", "x", 0, 0, nil)}, []string{"other"}))
	for first := 0; first < placement.MostUses+500; first += 500 {
		var list []placement.Use
		for i := range 500 {
			list = append(list, use("n", fmt.Sprint(first+i), 0, time.Duration(first+i)*time.Second, nil))
		}
		must(t, r.SaveUses(t.Context(), list, []string{"n"}))
	}
	got := uses(t, r, "n", 0)
	if len(got) != placement.MostUses || got[0] != "1499 0s-24m59s ?" || got[placement.MostUses-1] != "500 0s-8m20s ?" {
		t.Errorf("%d are left, from %q to %q", len(got), got[0], got[len(got)-1])
	}
	if other := uses(t, r, "other", 0); len(other) != 1 {
		t.Errorf("another node has %q", other)
	}
}

// TestPruneUses: what was last seen before a time goes, piece by piece.
func TestPruneUses(t *testing.T) {
	t.Parallel()
	r, s := open(t)
	for i := range 5 {
		must(t, r.SaveUses(t.Context(), []placement.Use{use("n", fmt.Sprint(i), 0, time.Duration(i)*time.Hour, nil)}, nil))
	}
	for _, want := range []int{2, 1, 0} {
		n, err := r.PruneUses(t.Context(), after(3*time.Hour), 2)
		must(t, err)
		wantSame(t, "deleted", n, want)
	}
	wantSame(t, "left", uses(t, r, "n", 0), []string{"4 0s-4h0m0s ?", "3 0s-3h0m0s ?"})
	must(t, s.Close())
	if r.SaveUses(t.Context(), []placement.Use{use("n", "late", 0, 0, nil)}, []string{"n"}) == nil {
		t.Error("a closed store takes uses")
	}
	if _, err := r.Uses(t.Context(), "n", start); err == nil {
		t.Error("a closed store gives uses")
	}
}
