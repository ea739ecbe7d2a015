package inventory

import (
	"iter"
	"maps"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/gateway/internal/placement/inventory/pick"
	records "muster/store/placement"
)

// Hold is the hold of a unit, with the facts about its allocation that people want to know.
type Hold struct {
	records.Hold
	Owner, Tenant string
	Since, EndsAt time.Time

	claim uint64 // number of the claim since the start; 0: it was read from the database
}

// claiming is the state of a hold that is being written.
const claiming = ""

// isClaim reports whether a hold is one that is being written for an allocation.
func (h Hold) isClaim(allocation string) bool {
	return h.Allocation == allocation && h.State == claiming
}

// Offer returns the nodes of a tenant that a selector names, in the form from which package pick chooses, in any order; and their rows. A
// node that was rented for an allocation is offered to that one only.
func (s *Service) Offer(allocation, tenant string, picks []label.Term) (nodes []pick.Node, rows map[string]*api.NodeRow) {
	now := s.Now()
	rows = map[string]*api.NodeRow{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.nodes {
		row, known := s.Node(id)
		if !known || len(n.slots) == 0 || row.Tenant != tenant || row.State == wire.StateRetired || !label.Matches(picks, row) {
			continue
		}
		if of := row.Labels[label.RentedFor]; of != "" && of != allocation {
			continue
		}
		rows[id] = row
		nodes = append(nodes, s.forPick(n, row, now))
	}
	return nodes, rows
}

// Reserve calls choose with the nodes on offer. Nobody else can choose the same slots until Keep or LetGo. Choices are made one at a time.
func (s *Service) Reserve(allocation, tenant string, picks []label.Term, choose func([]pick.Node) pick.Choice) (pick.Choice,
	map[string]*api.NodeRow) {
	s.serving.Lock()
	defer s.serving.Unlock()
	nodes, rows := s.Offer(allocation, tenant, picks)
	choice := choose(nodes)
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, u := range s.chosen(choice) {
		n.hold(Hold{Hold: records.Hold{Allocation: allocation, NodeID: n.id, SlotID: u.slot, Unit: u.Unit, State: claiming}})
	}
	return choice, rows
}

// Keep notes that the claim of a choice was written, for the allocation in h. It returns the UUIDs of the GPUs, by node. What was read from
// the database since is newer, and stays: the allocation may have ended already.
func (s *Service) Keep(choice pick.Choice, h Hold) map[string][]string {
	gpus := map[string][]string{}
	s.mu.Lock()
	s.claims++
	var ids []string
	for n, u := range s.chosen(choice) {
		if n.holds[u.Key].isClaim(h.Allocation) {
			h.NodeID, h.SlotID, h.Unit, h.State, h.claim = n.id, u.slot, u.Unit, records.Held, s.claims
			n.hold(h)
		}
		gpus[n.id] = append(gpus[n.id], u.UUID)
		ids = append(ids, n.id)
	}
	s.mu.Unlock()
	s.Tell(ids...)
	return gpus
}

// LetGo notes that the claim of a choice was not written.
func (s *Service) LetGo(choice pick.Choice, allocation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, u := range s.chosen(choice) {
		if n.holds[u.Key].isClaim(allocation) {
			delete(n.holds, u.Key)
			n.ready = nil
		}
	}
}

// Picks returns the slots of a choice with the evidence that they stand on, as a claim names them.
func (s *Service) Picks(choice pick.Choice) (picks []records.Pick, units int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range choice.Slots {
		picks = append(picks, records.Pick{SlotID: c.Slot.ID, Digest: s.at(c.Node.ID).evidence.Digest})
		units += len(c.Slot.Units)
	}
	return picks, units
}

// chosenUnit is a unit of a choice.
type chosenUnit struct {
	records.Unit
	slot string
}

// chosen are the units of a choice. The caller holds the lock.
func (s *Service) chosen(choice pick.Choice) iter.Seq2[*node, chosenUnit] {
	return func(yield func(*node, chosenUnit) bool) {
		for _, c := range choice.Slots {
			n := s.at(c.Node.ID)
			for _, u := range n.slot(c.Slot.ID).Units {
				if !yield(n, chosenUnit{u, c.Slot.ID}) {
					return
				}
			}
		}
	}
}

// Holds returns the holds of a node, or of all nodes, without those of claims that are being written.
func (s *Service) Holds(nodes ...string) (all []Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(nodes) == 0 {
		nodes = slices.Collect(maps.Keys(s.nodes))
	}
	for _, id := range nodes {
		if n := s.nodes[id]; n != nil {
			all = slices.AppendSeq(all, maps.Values(n.holds))
		}
	}
	return slices.DeleteFunc(all, func(h Hold) bool { return h.State == claiming })
}

// Slot returns a slot of a node, and its price per hour; nil: the price is not known. The slot is the zero value if it has gone.
func (s *Service) Slot(row *api.NodeRow, id string) (one records.Slot, price *float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.at(row.ID)
	if one = n.slot(id); one.ID != "" {
		price = n.priceOf(row, &one)
	}
	return one, price
}
