package store_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"muster/store"
)

func TestRuns(t *testing.T) {
	s := enrolled(t, "n", "other")
	ctx := t.Context()
	beat := func(enrolment string, runs ...store.Run) store.Beat {
		return store.Beat{NodeID: "id-n", At: after(time.Hour), RunID: "r", Enrolment: enrolment, Runs: runs}
	}
	run := func(id string, counter uint64, first, last int) store.Run {
		r := store.Run{ID: id, Fingerprint: "print-n", Address: "192.0.2.1", Counter: counter,
			First: after(time.Duration(first) * time.Minute), Last: after(time.Duration(last) * time.Minute)}
		if counter > 1 {
			r.Before = r.Last.Add(-time.Second)
		}
		return r
	}
	must(t, s.SaveBeats(ctx, []store.Beat{beat("enrolment-n", run("a", 1, 1, 1), run("b", 1, 2, 2))}, day()))
	must(t, s.SaveBeats(ctx, []store.Beat{beat("enrolment-n", run("a", 5, 99, 4))}, day()))
	got, err := s.Runs(ctx, "id-n")
	must(t, err)
	if want := []store.Run{run("a", 5, 1, 4), run("b", 1, 2, 2)}; !reflect.DeepEqual(got, want) { // when it was first heard stays
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	var many []store.Run
	for i := range 2 * store.MaxRuns {
		many = append(many, run(fmt.Sprint("m", i), 1, 10+i, 10+i))
	}
	must(t, s.SaveBeats(ctx, []store.Beat{beat("enrolment-n", many...)}, day()))
	got, err = s.Runs(ctx, "id-n")
	must(t, err)
	if len(got) != store.MaxRuns || got[0].ID != "m15" || got[7].ID != "m8" {
		t.Errorf("got %d runs, the first %+v", len(got), got[0])
	}
	must(t, s.Enrol(ctx, again("n", "-2")))
	must(t, s.SaveBeats(ctx, []store.Beat{beat("enrolment-n", run("a", 9, 1, 60))}, day())) // heard before, written after
	if got, err := s.Runs(ctx, "id-n"); err != nil || len(got) != 0 {
		t.Errorf("after a re-enrolment: got %+v, %v", got, err)
	}
	if got, err := s.Runs(ctx, "id-none"); err != nil || len(got) != 0 {
		t.Errorf("of no node: got %+v, %v", got, err)
	}
}
