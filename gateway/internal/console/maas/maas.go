// Package maas gathers what the console's page about MAAS shows. It asks the admin API, and knows no form, no template and no URL of a
// page.
package maas

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/client"
	"muster/gateway/internal/console/picture"
)

// mostMachines is how many machines a page has.
const mostMachines = 500

// Machines is the page of the machines of MAAS beside their nodes, and of what is about to be done.
type Machines struct {
	State  string // that is shown alone; empty: all
	MAAS   machines.State
	Counts []Count
	Steps  []machines.Step
	List   []Machine
	More   int // machines that are not listed
}

// Count is how many machines are in a state.
type Count struct {
	State string
	There picture.Mark
	N     int
}

// Machine is a machine with its state drawn.
type Machine struct {
	machines.Machine
	There picture.Mark
	Heard string // as the machine has it, but for a node that has no agent yet
	Grave string // the severity of what was found
	Why   string // why the last try of the work did not succeed; what is waited for stands in what comes next
}

// MachineOf draws a machine.
func MachineOf(m machines.Machine) Machine {
	drawn := Machine{Machine: m, There: picture.MachineOf(m.State), Grave: wire.SeverityWarn}
	if m.Heard != wire.StatusPending {
		drawn.Heard = m.Heard
	}
	if m.Work != nil && !strings.Contains(m.Next, m.Work.Why) {
		drawn.Why = m.Work.Why
	}
	return drawn
}

// Of returns the page that the address asks for.
func Of(q *picture.Query) Machines { return Machines{State: q.Asked("state")} }

// Fill asks for the machines and for the plan. Those with a finding come first.
func (p *Machines) Fill(ctx context.Context, c *client.Client) error {
	l, err := client.Get[machines.List](ctx, c, api.PathMachines, nil)
	if err != nil {
		return err
	}
	plan, err := client.Get[machines.Plan](ctx, c, api.PathMAASPlan, nil)
	if err != nil {
		return err
	}
	p.MAAS, p.Steps = l.MAAS, plan.Steps
	grave := make(map[string]string, len(p.Steps)) // by system id; the gravest comes first
	for _, step := range p.Steps {
		if _, known := grave[step.SystemID]; !known {
			grave[step.SystemID] = step.Severity
		}
	}
	listed := map[string]bool{}
	for _, m := range l.Machines {
		p.count(m.State)
		if p.State == "" || p.State == m.State {
			listed[m.SystemID] = true
			drawn := MachineOf(m)
			drawn.Grave = cmp.Or(grave[m.SystemID], drawn.Grave)
			p.List = append(p.List, drawn)
		}
	}
	p.Steps = slices.DeleteFunc(p.Steps, func(step machines.Step) bool { return !listed[step.SystemID] && p.State != "" })
	slices.SortFunc(p.Counts, func(a, b Count) int {
		return slices.Index(machines.States(), a.State) - slices.Index(machines.States(), b.State)
	})
	slices.SortStableFunc(p.List, func(a, b Machine) int { return rank(a) - rank(b) })
	p.More = max(len(p.List)-mostMachines, 0)
	p.List = p.List[:min(len(p.List), mostMachines)]
	return nil
}

func (p *Machines) count(state string) {
	at := slices.IndexFunc(p.Counts, func(c Count) bool { return c.State == state })
	if at < 0 {
		at = len(p.Counts)
		p.Counts = append(p.Counts, Count{State: state, There: picture.MachineOf(state)})
	}
	p.Counts[at].N++
}

// rank: what needs a look comes first, the gravest before all, and then what is at work.
func rank(m Machine) int {
	switch {
	case m.Finding != "":
		return -api.SeverityRank(m.Grave)
	case m.Work != nil:
		return 1
	}
	return 2
}
