package placement_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/store"
	"muster/store/placement"
)

// The model is what the records should be, in plain Go: it knows no SQL.
type (
	modelNode struct {
		state   string
		digest  string
		current bool
		ready   bool
	}
	modelAllocation struct {
		tenant, state string
		ends          time.Time
	}
	modelHold struct {
		allocation, slot, tenant, state string
		unit                            placement.Unit
	}
)

type model struct {
	t           *testing.T
	rng         *rand.Rand
	db          *reopened
	now         time.Time
	serial      int
	nodes       map[string]*modelNode
	slots       map[string]*placement.Slot
	allocations map[string]*modelAllocation
	holds       map[string]*modelHold // by node and key
	quotas      map[string]int64
	done        map[string]int // how often each step had an effect, and was refused
}

const (
	modelNodes   = 3
	modelGPUs    = 4
	modelTenants = 3
)

// TestModel takes random steps on the records and on the model of them, and both stay the same.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 26)), db: newReopened(t), now: start, nodes: map[string]*modelNode{},
				slots: map[string]*placement.Slot{}, allocations: map[string]*modelAllocation{}, holds: map[string]*modelHold{},
				quotas: map[string]int64{}, done: map[string]int{}}
			for range modelNodes {
				m.join()
			}
			for i := range 1000 {
				m.step()
				m.compareHolds()
				if i%5 == 0 {
					m.compareRest()
				}
				if t.Failed() {
					return
				}
			}
			for _, want := range []string{"claim", "claim refused", "queue", "queue refused", "release",
				"expire", "clean", "block", "evidence", "boot", "approve", "disable", "drain", "resume", "retire", "quota", "reopen", "extend",
				"extend refused"} {
				if m.done[want] == 0 {
					t.Errorf("the steps had no %s: %v", want, m.done)
				}
			}
		})
	}
}

func (m *model) step() {
	steps := []struct {
		weight int
		do     func()
	}{
		{40, m.claim}, {4, m.wait}, {16, m.release}, {20, m.clean}, {6, m.block}, {10, m.evidence}, {2, m.boot}, {12, m.decide},
		{4, m.drain}, {1, m.retire}, {6, m.expire}, {4, m.extend}, {4, m.quota}, {1, m.reopen},
	}
	sum := 0
	for _, s := range steps {
		sum += s.weight
	}
	n := m.rng.IntN(sum)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			s.do()
			return
		}
	}
}

// note compares whether a step was refused with whether it should be.
func (m *model) note(what string, err error, want bool) bool {
	m.t.Helper()
	if err != nil && !errors.Is(err, store.ErrConflict) {
		m.t.Fatalf("%s: %v", what, err)
	}
	if (err == nil) != want {
		m.t.Fatalf("%s: got %v, and by the model it is allowed: %v", what, err, want)
	}
	if !want {
		what += " refused"
	}
	m.done[what]++
	return want
}

func (m *model) name(prefix string) string {
	m.serial++
	return fmt.Sprintf("%s-%04d", prefix, m.serial)
}

// pick gives one key of a map at random, "" if it is empty.
func pick[V any](m *model, of map[string]V) string {
	keys := slices.Sorted(maps.Keys(of))
	if len(keys) == 0 {
		return ""
	}
	return keys[m.rng.IntN(len(keys))]
}

func (m *model) join() {
	id := m.name("n")
	addNodes(m.t, m.db.store, id)
	m.nodes[id] = &modelNode{state: "active"}
}

// evidence shows some of the GPUs of a node; the first is whole or divided.
func (m *model) evidence() {
	id := pick(m, m.nodes)
	n := m.nodes[id]
	e := evidence(id, m.name("t"), "d1")
	e.Ready = m.rng.IntN(12) > 0
	gpus := modelGPUs
	if m.rng.IntN(4) == 0 {
		e.Digest = fmt.Sprint("d", 1+m.rng.IntN(3))
		gpus = 1 + m.rng.IntN(modelGPUs)
	}
	proposals := append(singles(id, gpus), whole(id, gpus))
	proposals[len(proposals)-1].ID += fmt.Sprint(gpus)
	if e.Digest == "d3" {
		for i := range 2 {
			uuid := fmt.Sprintf("MIG-%s-%d", id, i)
			proposals = append(proposals[1:], placement.Proposal{ID: id + uuid, Units: []placement.Unit{{Key: key(0) + "/" + uuid, UUID: uuid}}})
		}
		proposals = slices.DeleteFunc(proposals, func(p placement.Proposal) bool {
			return slices.ContainsFunc(p.Units, func(u placement.Unit) bool { return u.Key == key(0) })
		})
	}
	rule := m.rng.IntN(2) == 0
	if rule {
		proposals = ruled(proposals)
	}
	if !m.note("evidence", m.db.r.PutEvidence(m.t.Context(), e, proposals), n.state != store.StateRetired) {
		return
	}
	n.digest, n.current, n.ready = e.Digest, true, e.Ready
	for _, s := range m.slots {
		if s.NodeID == id && s.Decision == placement.Approved && (s.Digest != e.Digest || s.Gone) {
			s.Decision, s.Reason = placement.Proposed, placement.ReasonDrift
		}
		s.Gone = s.Gone || s.NodeID == id
	}
	for _, p := range proposals {
		s := m.slots[p.ID]
		if s == nil {
			s = &placement.Slot{ID: p.ID, NodeID: id, Decision: placement.Proposed}
			m.slots[p.ID] = s
		}
		s.Digest, s.Gone, s.Units = e.Digest, false, p.Units
		if rule && e.Ready && s.Decision == placement.Proposed && s.Reason == "" {
			s.Decision = placement.Approved
		}
	}
	m.dropGone(id)
}

func (m *model) dropGone(node string) {
	for id, s := range m.slots {
		held := false
		for _, h := range m.holds {
			held = held || h.slot == id
		}
		if s.NodeID == node && s.Gone && !held {
			delete(m.slots, id)
		}
	}
}

func (m *model) boot() {
	id := pick(m, m.nodes)
	m.nodes[id].current = false
	m.note("boot", m.db.r.Booted(m.t.Context(), id), true)
}

func (m *model) decide() {
	to := placement.Approved
	if m.rng.IntN(8) == 0 {
		to = placement.Disabled
	}
	d := placement.Decision{To: to, Reason: "said", By: m.name("by"), At: m.now}
	var want []string
	for range 1 + m.rng.IntN(8) {
		id := pick(m, m.slots)
		s := m.slots[id]
		if s == nil || slices.Contains(d.IDs, id) {
			continue
		}
		d.IDs = append(d.IDs, id)
		n := m.nodes[s.NodeID]
		if s.Decision != to && (to == placement.Disabled || !s.Gone && n.current && n.ready && n.digest == s.Digest) {
			want = append(want, id)
		}
	}
	changed, err := m.db.r.Decide(m.t.Context(), d)
	if m.note(strings.TrimSuffix(to, "d"), err, len(want) > 0) {
		slices.Sort(want)
		wantSame(m.t, to, changed, want)
		for _, id := range want {
			m.slots[id].Decision, m.slots[id].Reason = to, "said"
		}
	}
}

func (m *model) drain() {
	id := pick(m, m.nodes)
	for other, n := range m.nodes { // most nodes are active at most times
		if n.state == "drained" {
			id = other
		}
	}
	n := m.nodes[id]
	from, what := n.state, "drain"
	n.state = "drained"
	if from != "active" {
		n.state, what = "active", "resume"
	}
	move(m.t, m.db.store, id, from, n.state)
	m.note(what, nil, true)
}

// retire gives a machine back and has another one join.
func (m *model) retire() {
	id := pick(m, m.nodes)
	move(m.t, m.db.store, id, m.nodes[id].state, store.StateRetired)
	m.note("retire", m.db.r.FreeNode(m.t.Context(), id, "given back", m.now), true)
	var had []string
	for place, h := range m.holds {
		if strings.HasPrefix(place, id+"/") {
			had = append(had, h.allocation)
			delete(m.holds, place)
		}
	}
	for _, a := range had {
		m.settle(a, true)
	}
	maps.DeleteFunc(m.slots, func(_ string, s *placement.Slot) bool { return s.NodeID == id })
	delete(m.nodes, id)
	m.join()
}

// settle releases an allocation that has nothing left, if it has ended or its node has.
func (m *model) settle(id string, node bool) {
	a := m.allocations[id]
	if len(m.unitsOf(id, "")) == 0 && (a.state == placement.Releasing || node) {
		a.state = placement.Released
	}
}

// unitsOf are the places of what an allocation has, on one node or on all.
func (m *model) unitsOf(allocation, node string) []string {
	var places []string
	for _, place := range slices.Sorted(maps.Keys(m.holds)) {
		if m.holds[place].allocation == allocation && strings.HasPrefix(place, node) {
			places = append(places, place)
		}
	}
	return places
}

// same compares lines in any order.
func (m *model) same(what string, got, want []string) {
	m.t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		m.t.Fatalf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (m *model) compareHolds() {
	m.t.Helper()
	stored, err := m.db.r.Holds(m.t.Context(), nil)
	must(m.t, err)
	var got, want []string
	for _, h := range stored {
		got = append(got, h.NodeID+"/"+h.Key+" "+h.Allocation+" "+h.SlotID+" "+h.State)
	}
	for place, h := range m.holds {
		want = append(want, place+" "+h.allocation+" "+h.slot+" "+h.state)
	}
	m.same("holds", got, want)
}

// compareRest compares slots, allocations and what tenants use. What waits or is released has no unit.
func (m *model) compareRest() {
	m.t.Helper()
	list, err := m.db.r.Slots(m.t.Context(), placement.SlotQuery{})
	must(m.t, err)
	var got, want []string
	for _, s := range list {
		got = append(got, fmt.Sprint(s.ID, s.NodeID, s.Digest, s.Decision, s.Reason, s.Gone, s.Units))
	}
	for _, s := range m.slots {
		want = append(want, fmt.Sprint(s.ID, s.NodeID, s.Digest, s.Decision, s.Reason, s.Gone, s.Units))
	}
	m.same("slots", got, want)
	live, err := m.db.r.Live(m.t.Context())
	must(m.t, err)
	got, want = nil, nil
	for _, a := range live {
		freed := 0
		for _, h := range a.Holds {
			if h.FreedAt != nil {
				freed++
			}
		}
		got = append(got, fmt.Sprint(a.ID, " ", a.State, " ", len(a.Holds)-freed))
	}
	used := map[string]int64{}
	for id, a := range m.allocations {
		units := len(m.unitsOf(id, ""))
		used[a.tenant] += int64(units)
		if a.state != placement.Released {
			want = append(want, fmt.Sprint(id, " ", a.state, " ", units))
		}
		if (a.state == placement.Waiting || a.state == placement.Released) != (units == 0) {
			m.t.Fatalf("%s is %s and has %d units", id, a.state, units)
		}
	}
	m.same("allocations", got, want)
	quotas, err := m.db.r.Quotas(m.t.Context())
	must(m.t, err)
	for _, q := range quotas {
		if q.Used != used[q.Tenant] {
			m.t.Fatalf("%s has %d units, want %d", q.Tenant, q.Used, used[q.Tenant])
		}
	}
}
