package maas

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"muster/gateway/internal/maas/recovery"
	"muster/gateway/internal/maas/region"
	records "muster/store/maas"
)

// machine is one machine with all that is on record of it.
type machine struct {
	records.Machine
	seen region.Machine
	node *records.Node // nil: none
	work *records.Work // nil: none
	twin string        // system id of a record that is the same hardware; empty: none
}

// load reads all machines.
func (s *Service) load(ctx context.Context) ([]*machine, error) {
	rows, err := s.records.Machines(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := s.records.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	works, err := s.records.Works(ctx)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*records.Node, len(nodes))
	for i := range nodes {
		byID[nodes[i].ID] = &nodes[i]
	}
	going := make(map[string]*records.Work, len(works))
	for i := range works {
		going[works[i].SystemID] = &works[i]
	}
	all := make([]*machine, 0, len(rows))
	for _, row := range rows {
		m := &machine{Machine: row, node: byID[row.NodeID], work: going[row.SystemID]}
		if err := json.Unmarshal([]byte(row.Body), &m.seen); err != nil {
			return nil, fmt.Errorf("machine %s on record: %w", row.SystemID, err)
		}
		m.Body = ""
		all = append(all, m)
	}
	findTwins(all)
	s.mu.Lock()
	for id := range byID {
		s.nodes[id] = true
	}
	s.mu.Unlock()
	return all, nil
}

// findTwins finds what was enlisted again: a machine that is there and one that is gone, with the same firmware or interface.
func findTwins(all []*machine) {
	gone := map[string]*machine{}
	for _, m := range all {
		if m.GoneAt != nil && m.NodeID != "" {
			for _, mark := range m.marks() {
				gone[mark] = m
			}
		}
	}
	for _, m := range all {
		if m.GoneAt != nil || m.NodeID != "" {
			continue
		}
		for _, mark := range m.marks() {
			if old := gone[mark]; old != nil {
				m.twin, old.twin = old.SystemID, m.SystemID
			}
		}
	}
}

// marks tell the hardware.
func (m *machine) marks() []string {
	var marks []string
	if m.seen.UUID != "" {
		marks = append(marks, "uuid "+m.seen.UUID)
	}
	for _, mac := range m.seen.MACs {
		marks = append(marks, "mac "+mac)
	}
	return marks
}

// facts are the facts of a machine. Of a view it is not known whether the machine was acquired for the work: it is taken so if the owner is
// ours.
func (s *Service) facts(m *machine, k known, now time.Time) recovery.Facts {
	f := recovery.Facts{Machine: s.said(m.seen, k), Node: m.node, Work: m.work, KeptOut: m.KeptOut, Profiles: k.profiles, Now: now,
		Ref: s.Ref(), Old: k.old}
	f.Since, f.Gone, f.Twin = m.Since, m.GoneAt != nil, m.twin
	f.Mine = f.Ours && m.work != nil
	f.Acquired = m.Acquired != ""
	e := records.ReadEnded(m.Ended)
	if !e.Canceled {
		f.Ended = e.Why
	}
	if !k.defined[e.Tag] {
		f.Wrote = e.Tag
	}
	if m.node != nil {
		f.Defined = k.defined[m.node.Profile]
	}
	return f
}

// said is what MAAS says of a machine. Where it does not say whether it is locked, it is not: MAAS refuses if it is.
func (s *Service) said(m region.Machine, k known) recovery.Machine {
	return recovery.Machine{Status: m.Status, Owner: m.Owner, Ours: m.Owner != "" && m.Owner == k.user, Unsure: k.user == "",
		Locked: m.Locked != nil && *m.Locked, Power: m.Power, Tags: m.Tags, Error: m.Error}
}
