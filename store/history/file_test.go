package history_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"muster/store/history"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB) *history.File {
	t.Helper()
	f, err := history.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), noon)
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

// keep writes samples as their minutes end.
func keep(t testing.TB, f *history.File, node int64, all []history.Sample) {
	t.Helper()
	var minutes []history.Minute
	for _, s := range all {
		start := history.Raw.Number(time.UnixMilli(s.At))
		if n := len(minutes); n == 0 || minutes[n-1].Start != start {
			minutes = append(minutes, history.Minute{Node: node, Start: start})
		}
		last := &minutes[len(minutes)-1]
		last.Samples = append(last.Samples, s)
	}
	must(t, f.Keep(t.Context(), minutes))
}

// rollAll rolls up whatever is due, and tells how many hours that were.
func rollAll(t testing.TB, f *history.File) int {
	t.Helper()
	due, err := f.Due(t.Context(), noon().Add(1000*time.Hour), 1000)
	must(t, err)
	for _, d := range due {
		must(t, f.RollUp(t.Context(), d))
	}
	return len(due)
}

// TestNames: a node and its GPUs keep their numbers, two nodes never share one, and nobody gets more GPUs than fit.
func TestNames(t *testing.T) {
	f := open(t)
	a, err := f.Name(t.Context(), "a", []string{"GPU-1", "GPU-2"}, noon())
	must(t, err)
	b, err := f.Name(t.Context(), "b", []string{"GPU-2", "GPU-1"}, noon())
	must(t, err)
	if a.Node == b.Node || !reflect.DeepEqual(a.GPUs, map[string]int{"GPU-1": 1, "GPU-2": 2}) || b.GPUs["GPU-2"] != 1 {
		t.Errorf("names %+v and %+v", a, b)
	}
	again, err := f.Name(t.Context(), "a", []string{"GPU-3", "GPU-1"}, noon())
	must(t, err)
	if again.Node != a.Node || again.GPUs["GPU-1"] != 1 || again.GPUs["GPU-3"] != 3 {
		t.Errorf("names %+v after one more GPU", again)
	}
	var many []string
	for i := range 400 {
		many = append(many, fmt.Sprint("x", i))
	}
	if all, err := f.Name(t.Context(), "a", many, noon()); err != nil || len(all.GPUs) != 256 {
		t.Errorf("%d GPUs, %v: want 256", len(all.GPUs), err)
	}
	must(t, f.Forget(t.Context(), noon().Add(24*time.Hour)))
	if none, err := f.Named(t.Context(), "a"); err != nil || none.Node != 0 || len(none.GPUs) != 0 {
		t.Errorf("names %+v, %v of a node that is forgotten", none, err)
	}
	if c, err := f.Name(t.Context(), "a", nil, noon()); err != nil || c.Node <= b.Node {
		t.Errorf("a forgotten number was given again: %+v, %v", c, err)
	}
}

// TestRollUp: minutes and hours say what the samples say, once, however often the work is done.
func TestRollUp(t *testing.T) {
	f := open(t)
	all := samples(noon(), 180, 2) // an hour and a half
	keep(t, f, 1, all)
	for range 2 {
		if n := rollAll(t, f); n != 2 {
			t.Fatalf("%d hours are due, want 2", n)
		}
		minutes, err := f.Points(t.Context(), history.Minutes, 1, history.Minutes.Number(noon()), history.Minutes.Number(noon())+1)
		must(t, err)
		want := history.Group(all, time.Minute)
		if len(minutes) != len(want) {
			t.Fatalf("%d minutes, want %d", len(minutes), len(want))
		}
		for i := range want {
			if !samePoint(&minutes[i], &want[i]) {
				t.Fatalf("minute %d is %+v, want %+v", i, minutes[i], want[i])
			}
		}
		hours, err := f.Points(t.Context(), history.Hours, 1, history.Hours.Number(noon()), history.Hours.Number(noon()))
		must(t, err)
		if len(hours) != 2 || hours[0].Heard+hours[1].Heard != 180 {
			t.Fatalf("hours %+v, want two with 180 samples", hours)
		}
		if n := rollAll(t, f); n != 0 {
			t.Fatalf("%d hours are due again", n)
		}
		keep(t, f, 1, all) // what is written twice counts once
	}
}

// TestRollUpLate: samples that come while an hour is rolled up are rolled up once more, also if the first ones are gone.
func TestRollUpLate(t *testing.T) {
	f := open(t)
	all := samples(noon(), 100, 1)
	keep(t, f, 1, all[:90])
	due, err := f.Due(t.Context(), noon().Add(time.Hour), 10)
	must(t, err)
	keep(t, f, 1, all[90:])
	must(t, f.RollUp(t.Context(), due[0]))
	if n := rollAll(t, f); n != 1 {
		t.Fatalf("%d hours are due after samples came late, want 1", n)
	}
	if n, err := f.Drop(t.Context(), history.Raw, noon().Add(24*time.Hour), 1000, false); err != nil || n != 50 {
		t.Fatalf("%d rows dropped, %v: want 50 minutes", n, err)
	}
	keep(t, f, 1, []history.Sample{sample(noon().Add(59*time.Minute), 1)})
	rollAll(t, f)
	hours, err := f.Points(t.Context(), history.Hours, 1, history.Hours.Number(noon()), history.Hours.Number(noon()))
	must(t, err)
	if len(hours) != 1 || hours[0].Heard != 101 {
		t.Errorf("hours %+v, want one with 101 samples", hours)
	}
}

// TestDrop: the oldest go first, in portions, and what is not rolled up stays unless there is no other way.
func TestDrop(t *testing.T) {
	f := open(t)
	keep(t, f, 1, samples(noon(), 20, 1))
	end := noon().Add(time.Hour)
	if n, err := f.Drop(t.Context(), history.Raw, end, 100, false); err != nil || n != 0 {
		t.Errorf("%d rows that are not rolled up went, %v", n, err)
	}
	if n, err := f.Drop(t.Context(), history.Raw, end, 3, true); err != nil || n != 3 {
		t.Errorf("%d rows went, %v: want 3", n, err)
	}
	rollAll(t, f)
	if oldest, err := f.Oldest(t.Context(), history.Raw); err != nil || !oldest.Equal(noon().Add(3*time.Minute)) {
		t.Errorf("the oldest is of %s, %v", oldest, err)
	}
	if n, err := f.Drop(t.Context(), history.Raw, noon().Add(5*time.Minute), 100, false); err != nil || n != 2 {
		t.Errorf("%d rows went, %v: want the 2 before that minute", n, err)
	}
	if oldest, err := f.Oldest(t.Context(), history.Minutes); err != nil || !oldest.Equal(noon()) {
		t.Errorf("the oldest minute is of %s, %v", oldest, err)
	}
	for _, tier := range []history.Tier{history.Minutes, history.Hours} {
		if n, err := f.Drop(t.Context(), tier, noon().Add(48*time.Hour), 100, false); err != nil || n != 1 {
			t.Errorf("%d rows went, %v: want 1", n, err)
		}
		if oldest, err := f.Oldest(t.Context(), tier); err != nil || !oldest.IsZero() {
			t.Errorf("the oldest is of %s, %v: want none", oldest, err)
		}
	}
}

// TestDamagedRow: a row that cannot be read is a gap, and nothing more.
func TestDamagedRow(t *testing.T) {
	f := open(t)
	keep(t, f, 1, samples(noon(), 10, 1))
	must(t, history.Spoil(f, history.Raw))
	first := history.Raw.Number(noon())
	if got, err := f.Samples(t.Context(), 1, first, first+10); err != nil || len(got) != 0 {
		t.Errorf("%d samples, %v of damaged rows", len(got), err)
	}
	if n := rollAll(t, f); n != 1 {
		t.Errorf("%d hours are due", n)
	}
	if n := rollAll(t, f); n != 0 {
		t.Error("a damaged hour stays due")
	}
}

// TestRowBound: a minute does not grow for ever.
func TestRowBound(t *testing.T) {
	f := open(t)
	one := []history.Minute{{Node: 1, Start: history.Raw.Number(noon()), Samples: samples(noon(), 60, 200)[:1]}}
	for range 400 {
		must(t, f.Keep(t.Context(), one))
	}
	rows, err := f.Rows(t.Context(), history.Raw, 1, one[0].Start, one[0].Start)
	must(t, err)
	if size := len(rows[0].Data); size < 200<<10 || size > 300<<10 {
		t.Errorf("the row has %d bytes", size)
	}
}
