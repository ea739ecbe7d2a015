package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/pick"
	"muster/gateway/internal/placement/inventory/slot"
	"muster/gateway/internal/view/hardware"
	"muster/store"
	records "muster/store/placement"
)

// node is what is known of one node. It is replaced as a whole when the database was read; Service.mu guards what changes besides.
type node struct {
	id       string
	profile  string
	evidence records.Evidence // without its body
	there    bool             // there is evidence
	missing  []string         // what the profile asks for and it does not show
	tags     []api.Tag
	slots    []records.Slot
	proposed map[string]slot.Proposed // what the evidence gives, by slot
	holds    map[string]Hold          // by unit; also those of claims that are being written
	check    check
	twin     string             // name of another node that shows a GPU of it too; empty: none
	ready    *pick.Node         // for package pick, without its bars; nil: it has changed
	price    *float64           // of the whole node, that is in ready
	taken    []string           // GPUs that somebody uses without an allocation, as ready has them
	told     *api.NodePlacement // what the view has
}

// load reads everything at the start.
func (s *Service) load(ctx context.Context) error {
	profiles, err := s.Records.Assignments(ctx)
	if err != nil {
		return err
	}
	for id, profile := range profiles {
		s.at(id).profile = profile
	}
	for after := ""; ; {
		some, err := s.Records.NewestOfAll(ctx, after, store.Piece)
		if err != nil {
			return err
		}
		for _, e := range some {
			s.at(e.NodeID).prove(s, e)
			after = e.NodeID
		}
		if len(some) < store.Piece {
			break
		}
	}
	slots, err := s.Records.Slots(ctx, records.SlotQuery{})
	if err != nil {
		return err
	}
	for _, one := range slots {
		n := s.at(one.NodeID)
		n.slots = append(n.slots, one)
	}
	s.findTwins()
	return errors.Join(s.loadHolds(ctx, nil), s.loadFigures(ctx))
}

// tagNames are the names of a node's hardware tags, sorted.
func (n *node) tagNames() []string {
	return api.Each(n.tags, func(tag api.Tag) string { return tag.Name })
}

// at gives a node, and makes it if need be. The caller holds the lock, or is alone.
func (s *Service) at(id string) *node {
	n := s.nodes[id]
	if n == nil {
		n = &node{id: id, holds: map[string]Hold{}}
		s.nodes[id] = n
	}
	return n
}

// prove takes a node's newest evidence.
func (n *node) prove(s *Service, e records.Evidence) {
	n.there = true
	var seen wire.Evidence
	if json.Unmarshal([]byte(e.Body), &seen) == nil {
		n.tags = hardware.Tags(seen.Facts)
		n.proposed = map[string]slot.Proposed{}
		if p, ok := s.profile(n.profile); ok && n.profile == e.Profile {
			n.missing = missing(p, seen)
			for _, one := range slot.Propose(n.id, p, seen.Facts) {
				n.proposed[one.ID] = one
			}
		}
	}
	e.Body = ""
	n.evidence = e
}

// loadHolds reads the holds of nodes; nil: of all.
func (s *Service) loadHolds(ctx context.Context, nodes []string) error {
	held, err := s.Records.Holds(ctx, nodes)
	if err != nil {
		return err
	}
	live, err := s.Records.Live(ctx)
	if err != nil {
		return err
	}
	by := map[string]records.Allocation{}
	for _, a := range live {
		by[a.ID] = a
	}
	for _, h := range held {
		s.at(h.NodeID).holds[h.Key] = holdOf(h, by[h.Allocation])
	}
	return nil
}

func holdOf(h records.Hold, a records.Allocation) Hold {
	out := Hold{Hold: h, Owner: a.Owner, Tenant: a.Tenant}
	if a.ClaimedAt != nil && a.EndsAt != nil {
		out.Since, out.EndsAt = *a.ClaimedAt, *a.EndsAt
	}
	return out
}

// Reread reads nodes again, after the database has changed or has refused what memory allowed, and tells the view.
func (s *Service) Reread(ctx context.Context, ids ...string) error {
	for some := range slices.Chunk(ids, store.Piece) {
		if err := s.reread(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) reread(ctx context.Context, ids []string) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	ctx = store.Fresh(ctx)
	s.mu.Lock()
	begun := s.claims
	s.mu.Unlock()
	profiles, err := s.Records.Assignments(ctx)
	if err != nil {
		return err
	}
	fresh := &Service{Config: s.Config, nodes: map[string]*node{}}
	s.mu.Lock()
	fresh.pushed = s.pushed
	s.mu.Unlock()
	for _, id := range ids {
		n := fresh.at(id)
		n.profile = profiles[id]
		e, err := s.Records.Newest(ctx, id)
		if err == nil {
			n.prove(fresh, e)
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	slots, err := s.Records.Slots(ctx, records.SlotQuery{Nodes: ids})
	if err != nil {
		return err
	}
	for _, one := range slots {
		n := fresh.at(one.NodeID)
		n.slots = append(n.slots, one)
	}
	if err := fresh.loadHolds(ctx, ids); err != nil {
		return err
	}
	s.mu.Lock()
	changed := false
	for id, n := range fresh.nodes {
		was := s.nodes[id]
		changed = changed || was == nil || !maps.Equal(was.uuids(), n.uuids())
		if was != nil {
			n.twin = was.twin
			n.check, n.told = was.check, was.told
			n.keepClaims(was, begun)
		}
		s.nodes[id] = n
	}
	if changed {
		s.findTwins()
	}
	s.mu.Unlock()
	s.Tell(ids...)
	return nil
}

// keepClaims keeps the units of claims that are being written, and of those that were written since the database was read.
func (n *node) keepClaims(was *node, begun uint64) {
	for key, h := range was.holds {
		if _, there := n.holds[key]; !there && (h.State == claiming || h.claim > begun) {
			n.holds[key] = h
		}
	}
}

// uuids are the GPUs of a node, without parts of divided ones.
func (n *node) uuids() map[string]bool {
	all := map[string]bool{}
	for _, one := range n.slots {
		for _, u := range one.Units {
			if !one.Gone && u.UUID != "" && u.PCI() == u.Key {
				all[u.UUID] = true
			}
		}
	}
	return all
}

// findTwins finds nodes that show the same GPU: one machine has joined twice, and nobody knows which of the two is there. The caller holds
// the lock, or is alone.
func (s *Service) findTwins() {
	shown := map[string]*node{}
	for _, n := range s.nodes {
		n.twin = ""
	}
	name := func(n *node) string {
		if row, known := s.Node(n.id); known {
			return row.Name
		}
		return n.id
	}
	for _, n := range s.nodes {
		for uuid := range n.uuids() {
			if other := shown[uuid]; other != nil {
				n.twin, other.twin = name(other), name(n)
			}
			shown[uuid] = n
		}
	}
}

// reason says why a slot takes no claim, its holds aside; empty: it does. The caller holds the lock.
func (n *node) reason(one *records.Slot) string {
	switch {
	case one.Gone:
		return "the machine does not show it any more"
	case one.Decision == records.Disabled:
		return cmpOr("disabled", one.Reason)
	case one.Decision == records.Proposed && one.Reason == records.ReasonDrift:
		return "the machine has changed since it was approved"
	case one.Decision == records.Proposed && len(n.missing) > 0:
		return "not approved, and cannot be: " + strings.Join(n.missing, "; ")
	case one.Decision == records.Proposed:
		return "not approved"
	case one.Digest != n.evidence.Digest:
		return "it is approved for other evidence"
	}
	for _, u := range one.Units {
		if _, held := n.holds[u.Key]; !held && slices.Contains(n.taken, u.UUID) {
			return "a process that belongs to no allocation uses " + u.UUID
		}
	}
	return ""
}

func cmpOr(word, why string) string {
	if why == "" {
		return word
	}
	return word + ": " + why
}

// slot finds a slot; the zero value: it has gone. The caller holds the lock.
func (n *node) slot(id string) records.Slot {
	for i := range n.slots {
		if n.slots[i].ID == id {
			return n.slots[i]
		}
	}
	return records.Slot{}
}

// hold notes a hold. The caller holds the lock.
func (n *node) hold(h Hold) {
	n.holds[h.Key] = h
	n.ready = nil
}

// forPick is a node as package pick chooses from. The caller holds the lock.
func (s *Service) forPick(n *node, row *api.NodeRow, now time.Time) pick.Node {
	if taken := s.Taken(row); n.ready == nil || !samePrice(n.price, row.PricePerHour) || n.ready.Name != row.Name ||
		!slices.Equal(taken, n.taken) {
		n.taken = taken
		n.price = row.PricePerHour
		n.ready = n.prepared(row)
	}
	out := *n.ready
	_, out.Bars = n.barred(row, now)
	return out
}

func samePrice(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }

func (n *node) prepared(row *api.NodeRow) *pick.Node {
	out := &pick.Node{ID: n.id, Name: row.Name}
	index := map[string]int{}
	for i := range n.slots {
		one := &n.slots[i]
		given := n.proposed[one.ID]
		s := pick.Slot{ID: one.ID, SKU: given.SKU, Shape: one.Shape, Model: one.Model, Part: given.Part, GPUs: given.GPUs,
			Price: n.priceOf(row, one), Why: n.reason(one)}
		for j, u := range one.Units {
			at, there := index[u.Key]
			if !there {
				at = len(out.Units)
				index[u.Key] = at
				_, held := n.holds[u.Key]
				unit := pick.Unit{Key: u.Key, Held: held}
				if j < len(given.Units) && given.Units[j].Key == u.Key {
					unit.NUMA, unit.Switch = given.Units[j].NUMA, given.Units[j].Switch
				}
				out.Units = append(out.Units, unit)
			}
			s.Units = append(s.Units, at)
		}
		out.Slots = append(out.Slots, s)
	}
	return out
}

// priceOf is what a slot costs per hour: its share of the node's price; nil: not known. The caller holds the lock.
func (n *node) priceOf(row *api.NodeRow, one *records.Slot) *float64 {
	if row.PricePerHour == nil {
		return nil
	}
	all := map[string]bool{}
	for i := range n.slots {
		for _, u := range n.slots[i].Units {
			all[u.Key] = true
		}
	}
	return new(*row.PricePerHour * float64(len(one.Units)) / float64(max(len(all), 1)))
}
