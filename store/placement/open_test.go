package placement_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"muster/store"
	"muster/store/engine"
	"muster/store/placement"
	"muster/store/storetest"
)

var start = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantConflict(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrConflict) {
		t.Errorf("%s: got %v, want a conflict", what, err)
	}
}

// open gives records of nodes that are active.
func open(t testing.TB, nodes ...string) (placement.Records, *store.Store) {
	t.Helper()
	s := storetest.Open(t, func() time.Time { return start })
	addNodes(t, s, nodes...)
	return placement.New(s.Records()), s
}

func addNodes(t testing.TB, s *store.Store, nodes ...string) {
	t.Helper()
	for _, id := range nodes {
		must(t, s.CreateNode(t.Context(), store.Node{ID: id, Name: id, Tenant: "platform", CreatedAt: start}, nil))
		move(t, s, id, store.StateReady, "active")
	}
}

func move(t testing.TB, s *store.Store, node, from, to string) {
	t.Helper()
	must(t, s.MoveNode(t.Context(), store.Move{NodeID: node, From: from, To: to, At: start}))
}

// key is the address of a GPU.
func key(gpu int) string { return fmt.Sprintf("0000:%02x:00.0", gpu+1) }

func unit(node string, gpu int) placement.Unit {
	return placement.Unit{Key: key(gpu), UUID: fmt.Sprintf("GPU-%s-%d", node, gpu)}
}

// singles proposes a slot for each of the first GPUs of a node, and wholes one for all of them.
func singles(node string, gpus int) []placement.Proposal {
	var slots []placement.Proposal
	for i := range gpus {
		slots = append(slots, placement.Proposal{ID: fmt.Sprintf("%s-g%d", node, i), Shape: "gpu", Model: "h100",
			Units: []placement.Unit{unit(node, i)}})
	}
	return slots
}

func whole(node string, gpus int) placement.Proposal {
	p := placement.Proposal{ID: node + "-all", Shape: "node", Model: "h100"}
	for i := range gpus {
		p.Units = append(p.Units, unit(node, i))
	}
	return p
}

func ruled(slots []placement.Proposal) []placement.Proposal {
	for i := range slots {
		slots[i].Rule = "rule:all"
	}
	return slots
}

func evidence(node, task, digest string) placement.Evidence {
	return placement.Evidence{Task: task, NodeID: node, BootID: "boot", Digest: digest, At: start, Ready: true, Current: true, Body: "{}"}
}

// ready gives a node approved slots for its single GPUs, and one for all of them.
func ready(t testing.TB, r placement.Records, node string, gpus int) {
	t.Helper()
	must(t, r.PutEvidence(t.Context(), evidence(node, "check-"+node, "d1"), ruled(append(singles(node, gpus), whole(node, gpus)))))
}

func asked(id string) placement.Allocation {
	return placement.Allocation{ID: id, Owner: "account:ada", Tenant: "platform", Wish: "{}", TTL: time.Hour, CreatedAt: start}
}

// claim is one of a new allocation on slots with one unit each, and evidence d1.
func claim(id string, slots ...string) placement.Claim {
	a := asked(id)
	c := placement.Claim{Allocation: id, New: &a, Want: len(slots), At: start, EndsAt: after(time.Hour)}
	for _, slot := range slots {
		c.Slots = append(c.Slots, placement.Pick{SlotID: slot, Digest: "d1"})
	}
	return c
}

func allocation(t testing.TB, r placement.Records, id string) placement.Allocation {
	t.Helper()
	a, err := r.Allocation(t.Context(), id)
	must(t, err)
	return a
}

// slots are all slots by id, each as decision, reason, digest and whether it is gone.
func slots(t testing.TB, r placement.Records) map[string]string {
	t.Helper()
	list, err := r.Slots(t.Context(), placement.SlotQuery{})
	must(t, err)
	by := map[string]string{}
	for _, s := range list {
		by[s.ID] = fmt.Sprintf("%s %s %s %v", s.Decision, s.Reason, s.Digest, s.Gone)
	}
	return by
}

// live are the units that are not free, as node/unit: allocation and state.
func live(t testing.TB, r placement.Records) map[string]string {
	t.Helper()
	holds, err := r.Holds(t.Context(), nil)
	must(t, err)
	by := map[string]string{}
	for _, h := range holds {
		by[h.NodeID+"/"+h.Key] = h.Allocation + " " + h.State
	}
	return by
}

func wantSame(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// run executes a statement that no record's method makes.
func run(t testing.TB, s *store.Store, text string, args ...any) {
	t.Helper()
	_, err := s.Records().Batch(t.Context(), []engine.Statement{engine.Do(text, args...)})
	must(t, err)
}

func engineRows(t testing.TB, s *store.Store, text string, args ...any) ([][]any, error) {
	t.Helper()
	return s.Records().Query(t.Context(), engine.Do(text, args...))
}
