package maas

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/maas/recovery"
	"muster/gateway/internal/maas/region"
	"muster/store"
	records "muster/store/maas"
)

// Machines returns all machines as the last complete view has them, beside what muster knows of them now.
func (s *Service) Machines(ctx context.Context) (machines.List, error) {
	all, err := s.load(ctx)
	list := machines.List{MAAS: s.State(), Machines: make([]machines.Machine, 0, len(all))}
	k, now := s.whole(), s.Now()
	for _, m := range all {
		list.Machines = append(list.Machines, s.shown(m, k, now))
	}
	return list, err
}

// Machine returns a machine by its system id, its hostname or the name of its node.
func (s *Service) Machine(ctx context.Context, name string) (machines.Machine, error) {
	all, err := s.load(ctx)
	if err != nil {
		return machines.Machine{}, err
	}
	m, err := s.find(all, name)
	if err != nil {
		return machines.Machine{}, err
	}
	return s.shown(m, s.whole(), s.Now()), nil
}

// unseen refuses what needs a view of now.
func unseen(state machines.State) error {
	text := "the machines cannot be seen now: "
	if state.Restored {
		text = "the machines were not seen since the gateway's start: "
	}
	return wire.Refuse(wire.CodeUnavailable, text+cmp.Or(state.Error, "MAAS has not answered yet"),
		"nothing is done on an old view, and MAAS is asked again by itself: muster maas ls says when, and muster maas sync asks now")
}

// find finds a machine. A system id comes before a node's name, and that before a hostname. Only a view of now tells that there is none.
func (s *Service) find(all []*machine, name string) (*machine, error) {
	var byNode, byHost []*machine
	for _, m := range all {
		switch {
		case m.SystemID == name:
			return m, nil
		case m.node != nil && m.node.State != wire.StateRetired && (m.node.Name == name || m.node.ID == name):
			byNode = append(byNode, m)
		case m.seen.Hostname == name && m.GoneAt == nil:
			byHost = append(byHost, m)
		}
	}
	found := byNode
	if len(found) == 0 {
		found = byHost
	}
	switch state := s.State(); {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && !state.Known:
		return nil, unseen(state)
	case len(found) == 0:
		return nil, wire.Refuse(wire.CodeNotFound, "MAAS has no machine "+wire.Plain(name, 80), "see them: muster maas ls")
	}
	return nil, wire.Refuse(wire.CodeBadRequest, "several machines have the name "+wire.Plain(name, 80), "use the system id: muster maas ls")
}

// Plan returns what the next round does by itself, and what a person must do, the gravest first.
func (s *Service) Plan(ctx context.Context) (machines.Plan, error) {
	all, err := s.load(ctx)
	plan := machines.Plan{MAAS: s.State(), Steps: []machines.Step{}}
	k, now := s.whole(), s.Now()
	for _, m := range all {
		f := s.facts(m, k, now)
		for _, row := range recovery.Find(s.table, f) {
			step := machines.Step{SystemID: m.SystemID, Hostname: m.seen.Hostname, Finding: row.Name, Text: row.Text, Does: row.Does,
				Next: m.fill(row.Next), Severity: row.Severity}
			if m.node != nil {
				step.Node = m.node.Name
			}
			if row.Does == recovery.Continues {
				step.Text, step.Does = m.work.Act+" goes on, begun by "+m.work.By, m.work.Act+": "+said(f.Step())
			}
			plan.Steps = append(plan.Steps, step)
		}
	}
	slices.SortStableFunc(plan.Steps, func(a, b machines.Step) int { return api.SeverityRank(b.Severity) - api.SeverityRank(a.Severity) })
	return plan, err
}

// said is an order in words.
func said(o recovery.Order) string {
	switch {
	case o.End && o.Why == "":
		return "it is done"
	case o.End:
		return "it ends: " + o.Why
	case o.Wait != "":
		return "waits for: " + o.Wait
	case o.Fail != "":
		return "takes it back: " + o.Fail
	case o.Move != "":
		return "its node: " + o.Move
	}
	return "asks MAAS: " + cmp.Or(o.Ask, o.Note)
}

// fill puts the names into what a person does.
func (m *machine) fill(next string) string {
	node := "NODE"
	if m.node != nil {
		node = m.node.Name
	}
	return strings.NewReplacer("SYSTEM", m.SystemID, "NODE", node).Replace(next)
}

func (s *Service) shown(m *machine, k known, now time.Time) machines.Machine {
	f := s.facts(m, k, now)
	out := machines.Machine{SystemID: m.SystemID, Hostname: m.seen.Hostname, Status: m.Status, StatusRaw: region.StatusOf(m.Status).Name,
		State: f.State(), Power: m.seen.Power, Owner: m.seen.Owner, Locked: f.Locked, Tags: append([]string{}, m.seen.Tags...),
		Series: m.seen.Series,
		Pool:   m.seen.Pool, Zone: m.seen.Zone, Error: cmp.Or(m.seen.Error, f.Ended), SeenAt: s.seenAt(m)}
	if m.seen.CPUs != nil {
		out.CPUs = *m.seen.CPUs
	}
	if m.seen.MemoryMiB != nil {
		out.MemoryMiB = *m.seen.MemoryMiB
	}
	if n := m.node; n != nil {
		out.Node, out.NodeID, out.NodeState, out.Profile = n.Name, n.ID, n.State, n.Profile
		out.Heard = s.heard(n)
	}
	if e := records.ReadEnded(m.Ended); e.Act != "" {
		out.Ended = &machines.Ended{Act: e.Act, At: e.At, Why: e.Why, Canceled: e.Canceled}
	}
	for _, row := range recovery.Find(s.table, f) {
		if row.Severity != "" && out.Finding == "" {
			out.Finding, out.Next = row.Name, m.fill(row.Next)
		}
		out.Next = cmp.Or(out.Next, m.fill(row.Next), row.Text)
	}
	if w := m.work; w != nil {
		out.Work = &machines.Work{Act: w.Act, Step: w.Step, Since: w.Begun, Tries: w.Tries, TryAt: w.TryAt, Why: cmp.Or(w.Failed, w.Why),
			By: w.By, Profile: w.Profile, Reimage: w.Reimage, Erase: w.Erase, Allocates: w.Allocates}
		out.Next = w.Act + ": " + said(f.Step())
		if w.Act == machines.ActDeploy {
			out.Deadline = &w.Deadline
		}
	}
	return out
}

// heard is whether a node is heard, in the words of the list of nodes.
func (s *Service) heard(n *records.Node) string {
	ref := s.Ref()
	status := ref.Status(n.State, n.LastSeen, n.Interval)
	switch {
	case status != store.StatusOnline || ref.Heard(*n.LastSeen):
		return status
	case !store.HasAgent(n.State): // it is not waited for
		return store.StatusPending
	}
	return api.StatusUnheard
}

// seenAt is when a machine was last in a complete view.
func (s *Service) seenAt(m *machine) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.GoneAt != nil:
		return *m.GoneAt
	case s.state.SyncedAt != nil:
		return *s.state.SyncedAt
	}
	return m.Since
}

// Told is something that a person is told of.
type Told struct {
	Condition string // one of machines.Told*
	Subject   string // a machine, or MAAS
	Tenant    string // of the node; empty: there is none
	Since     time.Time
	Text      string // it names the machine
	Next      string
	Unknown   bool // nothing is known of the condition now
}

// told is the gravest thing that is wrong with the machine, of each severity.
func (m *machine) told(rows []recovery.Row) (all []Told) {
	kinds := map[string]string{wire.SeverityWarn: machines.ToldWarning, wire.SeveritySevere: machines.ToldSevere}
	for _, row := range rows {
		kind := kinds[row.Severity]
		if kind == "" || row.Does != "" || slices.ContainsFunc(all, func(t Told) bool { return t.Condition == kind }) {
			continue
		}
		name := cmp.Or(m.seen.Hostname, m.SystemID) + " (" + m.SystemID + ")"
		t := Told{Condition: kind, Subject: name, Since: m.Since, Text: name + ": " + row.Text, Next: m.fill(row.Next)}
		if m.node != nil {
			t.Tenant = m.node.Tenant
		}
		all = append(all, t)
	}
	return all
}

// Told returns everything that people are told of, as it was when the machines were last seen. Until there was a complete view since the
// start, nothing is known. It does not wait.
func (s *Service) Told() []Told {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.told)
	if s.told == nil && s.state.Enabled {
		all = []Told{{Condition: machines.ToldSevere, Unknown: true}, {Condition: machines.ToldWarning, Unknown: true}}
	}
	if s.state.FailedAt != nil {
		all = append(all, Told{Condition: machines.ToldUnseen, Subject: s.state.URL, Since: *s.state.FailedAt,
			Text: "the machines of MAAS cannot be seen: " + s.state.Error})
	}
	return all
}
