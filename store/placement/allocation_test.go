package placement_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/store"
	"muster/store/placement"
	"muster/store/storetest"
)

func ids(list []placement.Allocation) string {
	var all []string
	for _, a := range list {
		all = append(all, a.ID)
	}
	return strings.Join(all, " ")
}

// TestAllocations: pages, and what each field of a query selects.
func TestAllocations(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "n-1", "n-2")
	ready(t, r, "n-1", 3)
	ready(t, r, "n-2", 1)
	must(t, r.Claim(t.Context(), claim("a-1", "n-1-g0")))
	must(t, r.Claim(t.Context(), claim("a-2", "n-2-g0")))
	must(t, r.Claim(t.Context(), claim("a-3", "n-1-g1")))
	other := asked("a-4")
	other.Owner, other.Tenant, other.Priority = "account:bob", "other", 5
	must(t, r.Add(t.Context(), other))
	must(t, r.Release(t.Context(), placement.Release{ID: "a-1", Why: "asked", At: start}))
	must(t, r.Clean(t.Context(), "a-1", "n-1", []string{key(0)}, after(time.Minute)))
	want := func(q placement.AllocationQuery, list string, total int) (next string) {
		t.Helper()
		got, next, n, err := r.Allocations(t.Context(), q)
		if err != nil || ids(got) != list || n != total {
			t.Errorf("%+v: got %s of %d, %v; want %s of %d", q, ids(got), n, err, list, total)
		}
		return next
	}
	want(placement.AllocationQuery{}, "a-4 a-3 a-2", 3)
	want(placement.AllocationQuery{All: true}, "a-4 a-3 a-2 a-1", 4)
	want(placement.AllocationQuery{State: placement.Released}, "a-1", 1)
	want(placement.AllocationQuery{Owner: "account:bob"}, "a-4", 1)
	want(placement.AllocationQuery{Tenant: "platform", All: true}, "a-3 a-2 a-1", 3)
	want(placement.AllocationQuery{NodeID: "n-1"}, "a-3", 1)
	want(placement.AllocationQuery{NodeID: "n-1", All: true}, "a-3 a-1", 2)
	next := want(placement.AllocationQuery{Limit: 2}, "a-4 a-3", 3)
	if next = want(placement.AllocationQuery{Limit: 2, Cursor: next}, "a-2", 3); next != "" {
		t.Errorf("the last page has the cursor %q", next)
	}
	if _, _, _, err := r.Allocations(t.Context(), placement.AllocationQuery{Cursor: "x"}); !errors.Is(err, store.ErrBadCursor) {
		t.Errorf("a bad cursor: %v", err)
	}
	if _, err := r.Allocation(t.Context(), "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("none: %v", err)
	}
	list, err := r.Live(t.Context())
	must(t, err)
	wantSame(t, "live", ids(list), "a-2 a-3 a-4")
	was := allocation(t, r, "a-1")
	if was.State != placement.Released || was.EndedWhy != "asked" || !was.EndedAt.Equal(start) || len(was.Holds) != 1 ||
		was.Holds[0].UUID != unit("n-1", 0).UUID || !was.Holds[0].FreedAt.Equal(after(time.Minute)) {
		t.Errorf("what it had: %+v", was)
	}
	bob := allocation(t, r, "a-4")
	other.Number, other.State, other.Holds = bob.Number, placement.Waiting, []placement.Hold{}
	wantSame(t, "one that waits", bob, other)
}

// TestQueue: the higher priority first, and those of one priority in the order of asking. What they wait for is said.
func TestQueue(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "n-1")
	ready(t, r, "n-1", 1)
	for i, priority := range []int{0, 5, 0, -5, 5} {
		a := asked(fmt.Sprint("a-", i))
		a.Priority = priority
		must(t, r.Add(t.Context(), a))
	}
	queue := func(want string) {
		t.Helper()
		list, err := r.Queue(t.Context())
		must(t, err)
		wantSame(t, "queue", ids(list), want)
	}
	queue("a-1 a-4 a-0 a-2 a-3")
	c := claim("a-4", "n-1-g0")
	c.New = nil
	must(t, r.Claim(t.Context(), c))
	must(t, r.Release(t.Context(), placement.Release{ID: "a-0", Why: "given up", At: start}))
	queue("a-1 a-2 a-3")
	if a := allocation(t, r, "a-0"); a.State != placement.Released || a.EndedWhy != "given up" {
		t.Errorf("one that waited: %+v", a)
	}
}

// TestEnds: an owner is told once of each end, an end that was moved is not the end, and what has ended is found.
func TestEnds(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "n-1")
	ready(t, r, "n-1", 2)
	must(t, r.Add(t.Context(), asked("a-0")))
	must(t, r.Claim(t.Context(), claim("a-1", "n-1-g0")))
	must(t, r.Claim(t.Context(), claim("a-2", "n-1-g1")))
	end, later := after(time.Hour), after(2*time.Hour)
	want := func(what string, list []placement.Allocation, err error, want string) {
		t.Helper()
		must(t, err)
		wantSame(t, what, ids(list), want)
	}
	warnable := func(at time.Time, list string) {
		t.Helper()
		got, err := r.Warnable(t.Context(), at, 10*time.Minute)
		want("to be told", got, err, list)
	}
	ending := func(at time.Time, list string) {
		t.Helper()
		got, err := r.Ending(t.Context(), at)
		want("ended", got, err, list)
	}
	warnable(after(49*time.Minute), "")
	warnable(after(50*time.Minute), "a-1 a-2")
	must(t, r.Warned(t.Context(), "a-1", end))
	wantConflict(t, "told already", r.Warned(t.Context(), "a-1", end))
	wantConflict(t, "of another end", r.Warned(t.Context(), "a-2", later))
	wantConflict(t, "of one that waits", r.Warned(t.Context(), "a-0", end))
	warnable(after(50*time.Minute), "a-2")
	ending(after(59*time.Minute), "")
	ending(end, "a-1 a-2")
	must(t, r.Extend(t.Context(), "a-1", end, later))
	wantConflict(t, "it has another end", r.Extend(t.Context(), "a-1", end, later))
	wantConflict(t, "one that waits", r.Extend(t.Context(), "a-0", end, later))
	wantConflict(t, "it was extended", r.Release(t.Context(), placement.Release{ID: "a-1", At: end, Expired: true}))
	must(t, r.Release(t.Context(), placement.Release{ID: "a-2", At: end, Expired: true}))
	wantConflict(t, "one that waits expires", r.Release(t.Context(), placement.Release{ID: "a-0", At: later, Expired: true}))
	wantConflict(t, "it has ended", r.Extend(t.Context(), "a-2", end, later))
	ending(end, "")
	warnable(after(110*time.Minute), "a-1")
}

// TestTasksAndPrune: what is kept of an allocation goes with it, and only when it is released and old.
func TestTasksAndPrune(t *testing.T) {
	t.Parallel()
	r, s := open(t, "n-1")
	ready(t, r, "n-1", 3)
	for i := range 3 {
		id := fmt.Sprint("a-", i)
		must(t, r.Claim(t.Context(), claim(id, fmt.Sprint("n-1-g", i))))
		task := placement.AllocationTask{Allocation: id, Task: "t-" + id, NodeID: "n-1", Kind: "provision_user"}
		must(t, r.AddTask(t.Context(), task))
		must(t, r.AddTask(t.Context(), task))
		got, err := r.Tasks(t.Context(), id)
		must(t, err)
		wantSame(t, "tasks", got, []placement.AllocationTask{task})
		if i < 2 {
			must(t, r.Release(t.Context(), placement.Release{ID: id, At: after(time.Duration(i) * time.Hour)}))
			must(t, r.Clean(t.Context(), id, "n-1", []string{key(i)}, start))
		}
	}
	for _, want := range []int{1, 1, 0} {
		if n, err := r.Prune(t.Context(), after(2*time.Hour), 1); err != nil || n != want {
			t.Errorf("%d went, %v: want %d", n, err, want)
		}
	}
	rows, err := engineRows(t, s, "SELECT id FROM allocations UNION ALL SELECT allocation FROM holds "+
		"UNION ALL SELECT allocation FROM allocation_tasks")
	must(t, err)
	wantSame(t, "left", rows, "[[a-2] [a-2] [a-2]]")
}

// TestAnswerLost: writes whose answers are lost are told as done, once, and pruning goes on until nothing is left.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	s := storetest.OpenLost(t, func() time.Time { return start })
	addNodes(t, s, "n-1")
	r := placement.New(s.Records())
	must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-1", "d1"), singles("n-1", 1)))
	changed, err := decide(t, r, placement.Approved, "n-1-g0", "none")
	must(t, err)
	wantSame(t, "approved", changed, []string{"n-1-g0"})
	must(t, r.Claim(t.Context(), claim("a-1", "n-1-g0")))
	must(t, r.Release(t.Context(), placement.Release{ID: "a-1", At: start}))
	must(t, r.Clean(t.Context(), "a-1", "n-1", []string{key(0)}, start))
	if _, err := r.Prune(t.Context(), after(time.Hour), 10); err != nil {
		t.Error(err)
	}
	if _, err := r.Allocation(t.Context(), "a-1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it was pruned: %v", err)
	}
}

// TestDamage: what cannot be read is an error, and not taken for nothing.
func TestDamage(t *testing.T) {
	t.Parallel()
	r, s := open(t, "n-1")
	ready(t, r, "n-1", 1)
	must(t, r.Claim(t.Context(), claim("a-1", "n-1-g0")))
	run(t, s, "UPDATE node_resource_slots SET units = 'x'")
	if got, err := r.Slots(t.Context(), placement.SlotQuery{}); err == nil {
		t.Errorf("slots without units: %+v", got)
	}
	must(t, s.Close())
	_, _, _, listed := r.Allocations(t.Context(), placement.AllocationQuery{})
	_, counted := r.Quota(t.Context(), "platform")
	_, decided := decide(t, r, placement.Disabled, "n-1-g0")
	for _, err := range []error{listed, counted, decided} {
		if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
			t.Errorf("of a store that is closed: %v", err)
		}
	}
}
