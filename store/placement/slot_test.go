package placement_test

import (
	"fmt"
	"testing"
	"time"

	"muster/store"
	"muster/store/placement"
)

func decide(t *testing.T, r placement.Records, to string, ids ...string) ([]string, error) {
	return r.Decide(t.Context(), placement.Decision{IDs: ids, To: to, Reason: "said so", By: "account:ops", At: start},
		store.Event{At: start, Kind: "slot.decided", Outcome: store.OutcomeOK})
}

// TestDecide: only what the node's evidence of now shows is approved.
func TestDecide(t *testing.T) {
	t.Parallel()
	r, s := open(t, "n-1", "n-2")
	must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-1", "d1"), singles("n-1", 2)))
	unready := evidence("n-2", "t-2", "d1")
	unready.Ready = false
	must(t, r.PutEvidence(t.Context(), unready, ruled(singles("n-2", 1)))) // a rule does not approve what is not ready
	changed, err := decide(t, r, placement.Approved, "n-1-g0", "n-2-g0", "n-none")
	must(t, err)
	wantSame(t, "approved", changed, []string{"n-1-g0"})
	_, err = decide(t, r, placement.Approved, "n-1-g0", "n-2-g0")
	wantConflict(t, "nothing changes", err)
	must(t, r.Booted(t.Context(), "n-1"))
	_, err = decide(t, r, placement.Approved, "n-1-g1")
	wantConflict(t, "the node has booted", err)
	changed, err = decide(t, r, placement.Disabled, "n-1-g0", "n-1-g1", "n-2-g0")
	must(t, err)
	wantSame(t, "disabled", changed, []string{"n-1-g0", "n-1-g1", "n-2-g0"})
	list, err := r.Slots(t.Context(), placement.SlotQuery{IDs: []string{"n-1-g0", "n-2-g0"}, Nodes: []string{"n-1"}})
	must(t, err)
	want := placement.Slot{ID: "n-1-g0", NodeID: "n-1", Shape: "gpu", Model: "h100", Digest: "d1", Decision: placement.Disabled,
		Reason: "said so", DecidedBy: "account:ops", Units: []placement.Unit{unit("n-1", 0)}}
	if len(list) != 1 || list[0].DecidedAt == nil || !list[0].DecidedAt.Equal(start) || list[0].Units[0].PCI() != key(0) {
		t.Fatalf("got %+v", list)
	}
	list[0].DecidedAt = nil
	wantSame(t, "the slot", list[0], want)
	if events, err := s.Events(t.Context(), store.EventQuery{Kind: "slot.decided"}); err != nil || len(events) != 2 {
		t.Errorf("events %v, %v", events, err)
	}
	if list, err := r.Slots(t.Context(), placement.SlotQuery{IDs: []string{}}); err != nil || len(list) != 0 {
		t.Errorf("none of them: %v, %v", list, err)
	}
}

// TestPropose: what becomes of decisions when a node gives evidence again.
func TestPropose(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "n-1")
	put := func(task, digest string, proposals []placement.Proposal) {
		t.Helper()
		must(t, r.PutEvidence(t.Context(), evidence("n-1", task, digest), proposals))
	}
	want := func(what string, slot ...string) {
		t.Helper()
		by := map[string]string{}
		for i, text := range slot {
			if text != "" {
				by[fmt.Sprintf("n-1-g%d", i)] = text
			}
		}
		wantSame(t, what, slots(t, r), by)
	}
	put("t-1", "d1", singles("n-1", 3))
	want("new ones", "proposed  d1 false", "proposed  d1 false", "proposed  d1 false")
	_, err := decide(t, r, placement.Approved, "n-1-g0")
	must(t, err)
	_, err = decide(t, r, placement.Disabled, "n-1-g1")
	must(t, err)
	put("t-2", "d1", singles("n-1", 3))
	want("the same again", "approved said so d1 false", "disabled said so d1 false", "proposed  d1 false")
	put("t-3", "d2", singles("n-1", 3))
	want("drift", "proposed drift d2 false", "disabled said so d2 false", "proposed  d2 false")
	put("t-4", "d1", singles("n-1", 3))
	want("back again", "proposed drift d1 false", "disabled said so d1 false", "proposed  d1 false")
	put("t-5", "d1", ruled(singles("n-1", 3)))
	want("a rule approves what never drifted", "proposed drift d1 false", "disabled said so d1 false", "approved  d1 false")
	put("t-6", "d2", ruled(singles("n-1", 3)))
	want("drift with a rule", "proposed drift d2 false", "disabled said so d2 false", "proposed drift d2 false")

	must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-7", "d1"), ruled(singles("n-1", 3))))
	wantConflict(t, "after drift", r.Claim(t.Context(), claim("a-1", "n-1-g2")))
	_, err = decide(t, r, placement.Approved, "n-1-g2")
	must(t, err)
	must(t, r.Claim(t.Context(), claim("a-1", "n-1-g2")))
	put("t-8", "d3", singles("n-1", 1))
	want("two GPUs are missing", "proposed drift d3 false", "", "proposed drift d1 true")
	_, err = decide(t, r, placement.Approved, "n-1-g2")
	wantConflict(t, "one that is gone", err)
	wantSame(t, "its hold", live(t, r), map[string]string{"n-1/" + key(2): "a-1 held"})
	put("t-9", "d1", ruled(singles("n-1", 1)))
	want("it is gone still", "proposed drift d1 false", "", "proposed drift d1 true")
	_, err = decide(t, r, placement.Approved, "n-1-g2")
	wantConflict(t, "one that is gone, of the same digest", err)
	old := evidence("n-1", "t-10", "d4")
	old.Current = false
	must(t, r.PutEvidence(t.Context(), old, nil))
	want("evidence of another boot", "proposed drift d1 false", "", "proposed drift d1 true")
	must(t, r.Release(t.Context(), placement.Release{ID: "a-1", At: start}))
	must(t, r.Clean(t.Context(), "a-1", "n-1", []string{key(2)}, start))
	want("its hold is gone", "proposed drift d1 false")
}

// TestReplacedGPU: what is cleaned is the GPU that is at the address now, and the record says which one the allocation had.
func TestReplacedGPU(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "n-1")
	ready(t, r, "n-1", 1)
	must(t, r.Claim(t.Context(), claim("a-1", "n-1-g0")))
	other := singles("n-1", 1)
	other[0].Units[0].UUID = "GPU-other"
	must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-2", "d2"), other))
	must(t, r.Release(t.Context(), placement.Release{ID: "a-1", At: start}))
	due, err := r.Due(t.Context(), start)
	must(t, err)
	wantSame(t, "due", due, []placement.Work{{Allocation: "a-1", NodeID: "n-1", Units: other[0].Units}})
	wantSame(t, "the record", allocation(t, r, "a-1").Holds[0].UUID, unit("n-1", 0).UUID)
}

// TestRules: one for each name, and not without bound.
func TestRules(t *testing.T) {
	t.Parallel()
	r, _ := open(t)
	rule := placement.Rule{Name: "rented", Selector: "provider=vast_ai", Shape: "gpu", CreatedAt: start, CreatedBy: "account:ops"}
	must(t, r.PutRule(t.Context(), placement.Rule{Name: "rented", Selector: "tier=lab", CreatedAt: after(-time.Hour)}))
	must(t, r.PutRule(t.Context(), rule))
	if got, err := r.Rules(t.Context()); err != nil || len(got) != 1 || got[0] != rule {
		t.Errorf("got %+v, %v", got, err)
	}
	for i := range placement.MostRules - 1 {
		must(t, r.PutRule(t.Context(), placement.Rule{Name: fmt.Sprint("r-", i), CreatedAt: start}))
	}
	wantConflict(t, "one too many", r.PutRule(t.Context(), placement.Rule{Name: "more", CreatedAt: start}))
	must(t, r.PutRule(t.Context(), rule))
	must(t, r.RemoveRule(t.Context(), "rented"))
	wantSame(t, "no rule", r.RemoveRule(t.Context(), "rented"), store.ErrNotFound)
}

// TestQuotas: a tenant has its quota, and what it has used: units that are held or not clean.
func TestQuotas(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "n-1")
	ready(t, r, "n-1", 3)
	two := int64(2)
	must(t, r.SetQuota(t.Context(), "platform", &two, start, "account:ops"))
	must(t, r.SetQuota(t.Context(), "idle", &two, start, "account:ops"))
	must(t, r.Claim(t.Context(), claim("a-1", "n-1-g0", "n-1-g1")))
	wantConflict(t, "more than its quota", r.Claim(t.Context(), claim("a-2", "n-1-g2")))
	must(t, r.Release(t.Context(), placement.Release{ID: "a-1", At: start}))
	wantConflict(t, "what is not clean counts", r.Claim(t.Context(), claim("a-2", "n-1-g2")))
	must(t, r.Clean(t.Context(), "a-1", "n-1", []string{key(1)}, start))
	foreign := claim("a-3", "n-1-g1")
	foreign.New.Tenant = "other"
	must(t, r.Claim(t.Context(), foreign))
	must(t, r.Claim(t.Context(), claim("a-2", "n-1-g2")))
	show := func(list ...placement.Quota) (lines []string) {
		for _, q := range list {
			limit := int64(-1)
			if q.GPUs != nil {
				limit = *q.GPUs
			}
			lines = append(lines, fmt.Sprint(q.Tenant, limit, q.Used))
		}
		return lines
	}
	all, err := r.Quotas(t.Context())
	must(t, err)
	wantSame(t, "quotas", show(all...), []string{"idle2 0", "other-1 1", "platform2 2"})
	must(t, r.SetQuota(t.Context(), "platform", nil, start, "account:ops"))
	one, err := r.Quota(t.Context(), "platform")
	must(t, err)
	nobody, err := r.Quota(t.Context(), "nobody")
	must(t, err)
	wantSame(t, "one", show(one, nobody), []string{"platform-1 2", "nobody-1 0"})
}

// TestRestored: after a restore nothing is given that only the backup says is free, until a person has looked.
func TestRestored(t *testing.T) {
	t.Parallel()
	r, s := open(t, "n-1")
	ready(t, r, "n-1", 2)
	must(t, s.NoteRestore(t.Context(), store.Restoration{At: start, BackupAt: start, AdoptUntil: start}))
	wantConflict(t, "a claim", r.Claim(t.Context(), claim("a-1", "n-1-g0")))
	must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-2", "d1"), ruled(singles("n-1", 2))))
	wantConflict(t, "a claim after new evidence and a rule", r.Claim(t.Context(), claim("a-1", "n-1-g0")))
	_, err := decide(t, r, placement.Approved, "n-1-g0")
	must(t, err)
	wantSame(t, "slots", slots(t, r), map[string]string{"n-1-g0": "approved said so d1 false", "n-1-g1": "proposed restored d1 false"})
	must(t, r.Claim(t.Context(), claim("a-1", "n-1-g0")))
}
