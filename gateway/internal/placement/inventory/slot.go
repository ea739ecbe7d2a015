package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/store"
	records "muster/store/placement"
)

// Slots lists slots, by the names of their nodes.
func (s *Service) Slots(ctx context.Context, tenant string, f api.SlotFilter) (api.SlotList, error) {
	if f.State != "" && !slices.Contains(api.SlotStates(), f.State) {
		return api.SlotList{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.40q is no state of a slot", f.State),
			"the states are "+strings.Join(api.SlotStates(), ", "))
	}
	all, err := s.slotsOf(ctx, cmp.Or(tenant, f.Tenant), tenant, f)
	if err != nil {
		return api.SlotList{}, err
	}
	all = slices.DeleteFunc(all, func(one api.Slot) bool {
		return f.State != "" && one.State != f.State || f.SKU != "" && !slices.Contains(one.SKUs, f.SKU)
	})
	out := api.SlotList{Slots: []api.Slot{}, Total: len(all)}
	begin, _ := slices.BinarySearchFunc(all, f.Cursor, func(one api.Slot, cursor string) int { return cmp.Compare(place(one), cursor) })
	for i := begin; i < len(all); i++ {
		if f.Limit > 0 && len(out.Slots) == f.Limit {
			out.Next = place(all[i])
			break
		}
		out.Slots = append(out.Slots, all[i])
	}
	return out, nil
}

// place is where a slot stands in lists.
func place(one api.Slot) string { return one.Node + "\n" + one.ID }

// slotsOf are the slots of the nodes that a filter names, sorted.
func (s *Service) slotsOf(ctx context.Context, tenant, reach string, f api.SlotFilter) ([]api.Slot, error) {
	rows := s.Nodes()
	if f.Node != "" {
		row, err := s.Row(ctx, reach, f.Node)
		if err != nil {
			return nil, err
		}
		rows = []*api.NodeRow{row}
	}
	picks, err := label.ParseSelector(f.Selector)
	if err != nil {
		return nil, err
	}
	all := []api.Slot{}
	s.mu.Lock()
	for _, row := range rows {
		n := s.nodes[row.ID]
		if n == nil || tenant != "" && row.Tenant != tenant || !label.Matches(picks, row) {
			continue
		}
		for i := range n.slots {
			all = append(all, n.shown(row, &n.slots[i]))
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b api.Slot) int { return cmp.Compare(place(a), place(b)) })
	return all, nil
}

// shown is a slot as the API shows it. The caller holds the lock.
func (n *node) shown(row *api.NodeRow, one *records.Slot) api.Slot {
	out := api.Slot{ID: one.ID, Node: row.Name, NodeID: row.ID, Tenant: row.Tenant, Shape: one.Shape, Model: one.Model, SKUs: []string{},
		State: one.Decision, Units: make([]api.Unit, 0, len(one.Units)), Evidence: one.Digest, Price: n.priceOf(row, one),
		DecidedBy: one.DecidedBy,
		DecidedAt: api.UTC(one.DecidedAt)}
	if name := n.proposed[one.ID].SKU; name != "" {
		out.SKUs = append(out.SKUs, name)
	}
	for _, u := range one.Units {
		out.Units = append(out.Units, api.Unit{PCI: u.PCI(), UUID: u.UUID})
	}
	out.Reason = n.reason(one)
	n.held(one, &out)
	out.Next = n.next(row, one, out)
	return out
}

// held fills in what holds the units of a slot. The caller holds the lock.
func (n *node) held(one *records.Slot, out *api.Slot) {
	var shown Hold // that is blocked, or the first
	for _, u := range one.Units {
		if h := n.holds[u.Key]; h.State != claiming && (shown.State == claiming || h.State == records.Blocked) {
			shown = h
		}
	}
	if shown.State == claiming {
		return
	}
	out.Allocation, out.State = shown.Allocation, HoldState(shown.State)
	switch {
	case shown.State == records.Blocked:
		out.Reason, out.Next = shown.Reason, shown.Next
	case shown.SlotID != one.ID && out.Reason == "":
		out.Reason = "a GPU of it is in the slot " + shown.SlotID
	}
}

// next says what to do about a slot that takes no claims.
func (n *node) next(row *api.NodeRow, one *records.Slot, out api.Slot) string {
	switch {
	case out.Next != "" || out.Reason == "" || out.Allocation != "":
		return out.Next
	case one.Decision == records.Disabled || one.Decision == records.Proposed && !one.Gone && (len(n.missing) == 0 || one.Reason != ""):
		return "muster slot approve " + one.ID
	}
	return "muster node check " + row.Name
}

// Decide approves or disables slots: all of them, or none.
func (s *Service) Decide(ctx context.Context, who Caller, q api.SlotDecision) (api.SlotsDecided, error) {
	out := api.SlotsDecided{Slots: []api.Slot{}}
	chosen, err := s.chosenBy(ctx, who, q)
	if err != nil {
		return out, err
	}
	to := records.Approved
	if q.Disable {
		to = records.Disabled
	}
	var ids []string
	for _, one := range chosen {
		if s.isDecided(one, to) {
			continue
		}
		ids = append(ids, one.ID)
	}
	out.Changed = len(ids)
	if q.DryRun || len(ids) == 0 {
		out.Slots = append(out.Slots, chosen...)
		return out, nil
	}
	if err := s.decide(ctx, who, q, to, ids); err != nil {
		return out, err
	}
	changed, err := s.slotsOf(ctx, who.Tenant, who.Tenant, api.SlotFilter{})
	for _, one := range changed {
		if slices.ContainsFunc(chosen, func(c api.Slot) bool { return c.ID == one.ID }) {
			out.Slots = append(out.Slots, one)
		}
	}
	s.Wake()
	return out, err
}

// isDecided tells whether a slot has this decision already, for the evidence of now.
func (s *Service) isDecided(one api.Slot, to string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[one.NodeID]
	if n == nil {
		return true
	}
	slot := n.slot(one.ID)
	return slot.ID == "" || slot.Decision == to && slot.Digest == n.evidence.Digest
}

// chosenBy are the slots that a decision is about. A slot of nodes that cannot be approved is left out where many were chosen at once.
func (s *Service) chosenBy(ctx context.Context, who Caller, q api.SlotDecision) ([]api.Slot, error) {
	if len(q.Slots) == 0 && q.Selector == "" && q.Node == "" {
		return nil, wire.Refuse(wire.CodeBadRequest, "no slot is named", "give ids, --node NAME, or a selector: -l provider=vast_ai")
	}
	all, err := s.slotsOf(ctx, who.Tenant, who.Tenant, api.SlotFilter{Node: q.Node, Selector: q.Selector})
	if err != nil {
		return nil, err
	}
	var chosen []api.Slot
	for _, one := range all {
		named := slices.Contains(q.Slots, one.ID)
		if named || len(q.Slots) == 0 && (q.Shape == "" || q.Shape == one.Shape) {
			chosen = append(chosen, one)
		}
	}
	for _, id := range q.Slots {
		if !slices.ContainsFunc(chosen, func(one api.Slot) bool { return one.ID == id }) {
			return nil, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no slot %.40q", id), "muster slot ls")
		}
	}
	if q.Disable {
		return chosen, nil
	}
	return s.approvable(chosen, len(q.Slots) > 0)
}

// approvable leaves out the slots whose evidence does not show what their profile asks for; where they were named, that is refused.
func (s *Service) approvable(chosen []api.Slot, named bool) (out []api.Slot, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range chosen {
		n := s.nodes[one.NodeID]
		why := ""
		switch {
		case n == nil || !n.isCurrent():
			why = "its evidence is not of now"
		case len(n.missing) > 0:
			why = strings.Join(n.missing, "; ")
		}
		if why == "" {
			out = append(out, one)
		} else if named || err == nil {
			err = wire.Refuse(wire.CodeIllegalMove, "slot "+one.ID+" of "+one.Node+" cannot be approved: "+why, "muster node check "+one.Node)
		}
	}
	if !named && len(out) > 0 {
		err = nil
	}
	return out, err
}

// decide writes a decision, in pieces that one write may have.
func (s *Service) decide(ctx context.Context, who Caller, q api.SlotDecision, to string, ids []string) error {
	kind := "slot.approved"
	if q.Disable {
		kind = "slot.disabled"
	}
	nodes := map[string]bool{}
	for some := range slices.Chunk(ids, store.Piece) {
		events := s.decided(kind, who.By, q.Reason, some, nodes)
		_, err := s.Records.Decide(ctx, records.Decision{IDs: some, To: to, Reason: q.Reason, By: who.By.Name, At: s.Now()}, events...)
		if errors.Is(err, store.ErrConflict) {
			refused := wire.Refuse(wire.CodeIllegalMove, "a machine has changed meanwhile", "look again: muster slot ls")
			return errors.Join(refused, s.Reread(ctx, slices.Collect(maps.Keys(nodes))...))
		}
		if err != nil {
			return err
		}
	}
	return s.Reread(ctx, slices.Collect(maps.Keys(nodes))...)
}

// decided are the events of a decision, one for each node, and notes the nodes.
func (s *Service) decided(kind string, by store.Actor, reason string, ids []string, nodes map[string]bool) (events []store.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.nodes {
		var own []string
		for i := range n.slots {
			if slices.Contains(ids, n.slots[i].ID) {
				own = append(own, n.slots[i].ID)
			}
		}
		row, known := s.Node(id)
		if len(own) == 0 || !known {
			continue
		}
		nodes[id] = true
		e := s.Event(kind, row, by, map[string]string{"slots": wire.Cut(strings.Join(own, " "), wire.MaxText), "reason": reason})
		e.Security = true
		events = append(events, e)
	}
	return events
}
