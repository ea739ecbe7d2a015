package placement_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"muster/store"
	"muster/store/placement"
)

// TestProfiles: a profile is replaced, and stays while a node has it.
func TestProfiles(t *testing.T) {
	t.Parallel()
	r, s := open(t, "n-1")
	event := store.Event{At: start, Kind: "profile.pushed", Outcome: store.OutcomeOK}
	p := placement.Profile{Name: "edge", Body: `{"checks":[]}`, UpdatedAt: start, UpdatedBy: "account:ops"}
	must(t, r.PutProfile(t.Context(), p, event))
	must(t, r.Assign(t.Context(), placement.Assignment{NodeID: "n-1", To: "edge", Pushed: true}))
	e := evidence("n-1", "t-1", "d1")
	e.Profile = "edge"
	must(t, r.PutEvidence(t.Context(), e, nil))
	p.Body = `{"checks":["kvm"]}`
	must(t, r.PutProfile(t.Context(), p, event))
	if got, err := r.Profile(t.Context(), "edge"); err != nil || got != p {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := r.Newest(t.Context(), "n-1"); err != nil || got.Current {
		t.Errorf("the evidence was judged for another profile, and is %+v, %v", got, err)
	}
	wantConflict(t, "a profile that a node has", r.RemoveProfile(t.Context(), "edge"))
	must(t, r.Assign(t.Context(), placement.Assignment{NodeID: "n-1", From: "edge"}))
	must(t, r.RemoveProfile(t.Context(), "edge"))
	wantConflict(t, "no profile", r.RemoveProfile(t.Context(), "edge"))
	if _, err := r.Profile(t.Context(), "edge"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it is gone: %v", err)
	}
	if list, err := r.Profiles(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
	if events, err := s.Events(t.Context(), store.EventQuery{Kind: event.Kind}); err != nil || len(events) != 2 {
		t.Errorf("events %v, %v", events, err)
	}
}

// TestAssign: a node has one profile, and keeps it while an allocation has a part of it.
func TestAssign(t *testing.T) {
	t.Parallel()
	r, s := open(t, "n-1", "n-2")
	assign := func(node, from, to string, pushed bool) error {
		return r.Assign(t.Context(), placement.Assignment{NodeID: node, From: from, To: to, Pushed: pushed})
	}
	wantConflict(t, "a profile that nobody has made", assign("n-1", "", "edge", true))
	must(t, assign("n-1", "", "vm", false))
	wantConflict(t, "what was read is old", assign("n-1", "", "bare", false))
	wantConflict(t, "no node", assign("n-none", "", "vm", false))
	by, err := r.Assignments(t.Context())
	must(t, err)
	wantSame(t, "assignments", by, map[string]string{"n-1": "vm"})

	wantConflict(t, "evidence that was judged for no profile", r.PutEvidence(t.Context(), evidence("n-1", "t-1", "d1"), nil))
	e := evidence("n-1", "t-1", "d1")
	e.Profile = "vm"
	must(t, r.PutEvidence(t.Context(), e, ruled(singles("n-1", 1))))
	must(t, r.Claim(t.Context(), claim("a-1", "n-1-g0")))
	must(t, assign("n-1", "vm", "vm", false))
	wantConflict(t, "an allocation has a part", assign("n-1", "vm", "bare", false))
	must(t, r.Release(t.Context(), placement.Release{ID: "a-1", At: start}))
	wantConflict(t, "its part is not clean", assign("n-1", "vm", "bare", false))
	must(t, r.Clean(t.Context(), "a-1", "n-1", []string{key(0)}, start))
	must(t, assign("n-1", "vm", "bare", false))
	if got, err := r.Newest(t.Context(), "n-1"); err != nil || got.Current || len(slots(t, r)) != 0 {
		t.Errorf("after another profile: %+v, %v, slots %v", got, err, slots(t, r))
	}
	move(t, s, "n-2", "active", store.StateRetired)
	wantConflict(t, "a retired node", assign("n-2", "", "vm", false))
	move(t, s, "n-1", "active", store.StateRetired)
	if by, err = r.Assignments(t.Context()); err != nil || len(by) != 0 {
		t.Errorf("of retired nodes: %v, %v", by, err)
	}
}

// TestEvidence: the newest runs of a node are kept, the current one, and the newest acceptance.
func TestEvidence(t *testing.T) {
	t.Parallel()
	r, s := open(t, "n-1", "n-2", "n-3")
	if _, err := r.Newest(t.Context(), "n-1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("without evidence: %v", err)
	}
	accepted := evidence("n-1", "accepted", "d0")
	accepted.Accept = true
	accepted.At = after(-time.Hour)
	must(t, r.PutEvidence(t.Context(), accepted, nil))
	must(t, r.PutEvidence(t.Context(), evidence("n-1", "zero", "d1"), nil))
	must(t, r.PutEvidence(t.Context(), evidence("n-1", "first", "d1"), nil))
	wantConflict(t, "a newer one is current", r.PutEvidence(t.Context(), evidence("n-1", "zero", "d1"), nil))
	for i := range 12 { // of another boot
		old := evidence("n-1", "old-"+key(i), "d2")
		old.Current = false
		must(t, r.PutEvidence(t.Context(), old, nil))
	}
	count := func(want int) {
		t.Helper()
		rows, err := engineRows(t, s, "SELECT task FROM evidence WHERE node_id = 'n-1'")
		if err != nil || len(rows) != want {
			t.Errorf("%d rows, %v: want %d", len(rows), err, want)
		}
	}
	count(12)
	if got, err := r.AcceptedOfAll(t.Context(), "", 1); err != nil || len(got) != 1 || got[0].Task != "accepted" || got[0].At != accepted.At {
		t.Errorf("accepted: %+v, %v", got, err)
	}
	newest, err := r.Newest(t.Context(), "n-1")
	if err != nil || newest.Task != "old-"+key(11) || newest.Current {
		t.Errorf("newest: %+v, %v", newest, err)
	}
	again := evidence("n-1", "first", "d1")
	again.Ready = false
	must(t, r.PutEvidence(t.Context(), again, nil)) // judged anew
	must(t, r.PutEvidence(t.Context(), evidence("n-1", "second", "d1"), nil))
	count(11) // the first one is not current any more
	must(t, r.Booted(t.Context(), "n-1"))
	must(t, r.PutEvidence(t.Context(), evidence("n-1", "second", "d1"), nil))

	must(t, r.PutEvidence(t.Context(), evidence("n-2", "of-2", "d1"), nil))
	must(t, r.PutEvidence(t.Context(), evidence("n-3", "of-3", "d1"), nil))
	move(t, s, "n-3", "active", store.StateRetired)
	wantConflict(t, "a retired node", r.PutEvidence(t.Context(), evidence("n-3", "late", "d1"), nil))
	first, err := r.NewestOfAll(t.Context(), "", 1)
	must(t, err)
	rest, err := r.NewestOfAll(t.Context(), "n-1", 5)
	must(t, err)
	acceptances, err := r.AcceptedOfAll(t.Context(), "", 5)
	must(t, err)
	if len(first) != 1 || !reflect.DeepEqual(first[0], evidence("n-1", "second", "d1")) || len(rest) != 1 || rest[0].Task != "of-2" ||
		len(acceptances) != 1 || acceptances[0].Task != "accepted" {
		t.Errorf("pages: %+v, %+v, %+v", first, rest, acceptances)
	}
}
