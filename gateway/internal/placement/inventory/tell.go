package inventory

import (
	"maps"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	records "muster/store/placement"
)

// Tell tells the view of the nodes whose place has changed: of these, or of all.
func (s *Service) Tell(ids ...string) {
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(ids) == 0 {
		ids = slices.Collect(maps.Keys(s.nodes))
		s.told = s.Ready()
	}
	for _, id := range ids {
		n := s.at(id)
		row, known := s.Node(id)
		if !known || row.State == wire.StateRetired {
			if n.told != nil {
				n.told = nil
				s.Placed(id, nil)
			}
			continue
		}
		if place := n.place(row, now); n.told == nil || !samePlace(n.told, place) {
			n.told = place
			s.Placed(id, place)
		}
	}
}

// Settle tells the view about all nodes, unless that was done since the view has them all: before that, no node there has a tag.
func (s *Service) Settle() {
	s.mu.Lock()
	told := s.told
	s.mu.Unlock()
	if !told {
		s.Tell()
	}
}

// place is what lists show of a node. The caller holds the lock.
func (n *node) place(row *api.NodeRow, now time.Time) *api.NodePlacement {
	p := &api.NodePlacement{Profile: n.profile, Tags: n.tagNames(), Holds: []api.GPUHold{}}
	for _, key := range slices.Sorted(maps.Keys(n.holds)) {
		if h := n.holds[key]; h.State != claiming {
			p.Holds = append(p.Holds, api.GPUHold{GPU: h.UUID, Allocation: h.Allocation, Owner: h.Owner, Tenant: h.Tenant, State: HoldState(h.State),
				Since: h.Since.UTC(), EndsAt: h.EndsAt.UTC()})
		}
	}
	p.Capacity, p.Reasons = n.capacity(row, n.count(), now)
	if p.Reasons == nil {
		p.Reasons = []string{}
	}
	return p
}

// count counts the units of a node by what becomes of them. The caller holds the lock.
func (n *node) count() (c units) {
	approved := map[string]bool{} // of each unit: one of its slots takes claims
	for i := range n.slots {
		for _, u := range n.slots[i].Units {
			approved[u.Key] = approved[u.Key] || n.reason(&n.slots[i]) == ""
		}
	}
	for key, takes := range approved {
		h, held := n.holds[key]
		switch {
		case held && h.State == records.Blocked:
			c.blocked++
		case held && h.State == records.Cleaning:
			c.cleaning++
		case held:
			c.held++
		case takes:
			c.free++
		default:
			c.proposed++
		}
	}
	return c
}

func samePlace(a, b *api.NodePlacement) bool {
	return a.Profile == b.Profile && a.Capacity == b.Capacity && slices.Equal(a.Tags, b.Tags) && slices.Equal(a.Reasons, b.Reasons) &&
		slices.Equal(a.Holds, b.Holds)
}

// HoldState returns the word that slots use for the state of a hold.
func HoldState(state string) string {
	switch state {
	case records.Cleaning:
		return api.SlotCleaning
	case records.Blocked:
		return api.SlotBlocked
	}
	return api.SlotAllocated
}
