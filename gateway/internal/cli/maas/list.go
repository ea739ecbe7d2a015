package maas

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// list shows the machines of one state, or all.
func list(ctx context.Context, s *cli.Session) error {
	state, err := s.Flags.OneOf("state", "", machines.States()...)
	if err != nil {
		return err
	}
	l, err := cli.Get[machines.List](ctx, s, api.PathMachines, nil)
	if err != nil {
		return err
	}
	l.Machines = slices.DeleteFunc(l.Machines, func(m machines.Machine) bool { return state != "" && m.State != state })
	if s.Form == cli.FormJSON {
		return s.WriteJSON(l)
	}
	count := map[string]int{}
	for _, m := range l.Machines {
		count[m.Hostname]++
	}
	rows := cli.Rows(l.Machines, func(m machines.Machine) []string {
		cells := row(m)
		if m.Hostname != "" && count[m.Hostname] > 1 { // such as one that was enlisted again
			cells[0] += " (" + screen.Printable(m.SystemID) + ")"
		}
		return cells
	})
	if err := s.List(columns()).Write(rows); err != nil {
		return err
	}
	found := 0
	for _, m := range l.Machines {
		if m.Finding != "" {
			found++
		}
	}
	text := screen.Plural(len(l.Machines), "machine") + ", " + seen(l.MAAS, s.Now())
	if found > 0 {
		text += fmt.Sprintf("; of %d the two sides disagree: muster maas plan", found)
	}
	s.Printf("%s\n", text)
	return nil
}

// seen says of when a view of MAAS is, and why it is not of now.
func seen(m machines.State, now time.Time) string {
	text := "MAAS was not seen yet"
	if m.SyncedAt != nil {
		text = "seen " + screen.Ago(now, *m.SyncedAt)
	}
	switch {
	case m.Known:
	case m.FailedAt != nil:
		text += "; MAAS cannot be seen since " + screen.Age(now.Sub(*m.FailedAt)) + ": " + screen.Printable(m.Error)
	case m.Restored:
		text += ", before the gateway's start: nothing is done until there is a view of now"
	case m.SyncedAt != nil:
		text += ", which is old: nothing is done until there is a view of now"
	}
	switch {
	case m.AskedAt != nil:
		text += "; it is looked at now, with no answer yet since " + screen.Age(now.Sub(*m.AskedAt))
	case m.NextAt != nil && !m.Known:
		text += "; it is looked at again " + screen.When(now, *m.NextAt) + ", or now: muster maas sync"
	}
	return text
}

func columns() []screen.Column {
	return []screen.Column{{Name: "MACHINE", Least: 20, Most: 40}, {Name: "MAAS", Rank: 1}, {Name: "NODE", Rank: 6, Least: 24, Most: 40},
		{Name: "HERE", Rank: 2, Least: 11, Most: 24}, {Name: "PROFILE", Rank: 5, Most: 24}, {Name: "WORK", Rank: 3, Least: 12, Most: 30},
		{Name: "FINDING"}, {Name: "NEXT", Below: true, Most: 60}, {Name: "SYSTEM", Most: 20, Wide: true},
		{Name: "WORD", Most: 40, Wide: true}, {Name: "POWER", Most: 12, Wide: true}, {Name: "OWNER", Most: 24, Wide: true},
		{Name: "LOCKED", Wide: true}, {Name: "SERIES", Most: 20, Wide: true}, {Name: "CPUS", Wide: true}, {Name: "MEMORY", Wide: true},
		{Name: "POOL", Most: 20, Wide: true}, {Name: "ZONE", Most: 20, Wide: true}, {Name: "TAGS", Most: 60, Wide: true},
		{Name: "ERROR", Most: 60, Wide: true}}
}

func row(m machines.Machine) []string {
	return []string{name(m), m.State, m.Node, here(m), m.Profile, work(m), m.Finding, m.Next, m.SystemID, m.StatusRaw, m.Power, m.Owner,
		screen.YesNo(m.Locked), m.Series, count(m.CPUs), memory(m.MemoryMiB), m.Pool, m.Zone, strings.Join(m.Tags, ","), m.Error}
}

// name is what a person calls a machine.
func name(m machines.Machine) string { return cmp.Or(m.Hostname, m.SystemID) }

// here is the state of a machine's node, and whether it is heard. Of one that has no agent yet, nothing is heard.
func here(m machines.Machine) string {
	if m.Node == "" {
		return screen.Unknown
	}
	text := m.NodeState
	if m.Heard != "" && m.Heard != wire.StatusPending {
		text += ", " + m.Heard
	}
	return screen.OrUnknown(text)
}

// work is what is done with a machine, and its step.
func work(m machines.Machine) string {
	if m.Work == nil {
		return screen.Unknown
	}
	text := m.Work.Act
	if m.Work.Step != "" && m.Work.Step != m.Work.Act {
		text += ", " + m.Work.Step
	}
	return screen.Printable(text)
}

// count and memory: MAAS knows none of a machine that it has not commissioned.
func count(n int) string {
	if n == 0 {
		return screen.Unknown
	}
	return fmt.Sprint(n)
}

func memory(mib int64) string {
	if mib == 0 {
		return screen.Unknown
	}
	return fmt.Sprintf("%d GiB", mib>>10)
}

// show shows machines, each with all that the recovery table finds of it.
func show(ctx context.Context, s *cli.Session) error {
	var p machines.Plan
	if s.Form != cli.FormJSON {
		var err error
		if p, err = cli.Get[machines.Plan](ctx, s, api.PathMAASPlan, nil); err != nil {
			return err
		}
	}
	return cli.ShowEach(ctx, s, api.PathMachine, func(m machines.Machine) {
		screen.Pairs(s.Stdout, s.Screen(), slices.Concat(pairs(m, s.Now()), workPairs(m, s.Now()), findings(m, p.Steps), view(p.MAAS, s.Now())))
	})
}

// view says why nothing of it is of now.
func view(m machines.State, now time.Time) [][]string {
	if m.Known || !m.Enabled {
		return nil
	}
	return [][]string{{"MAAS", seen(m, now)}}
}

func pairs(m machines.Machine, now time.Time) [][]string {
	node := "none"
	if m.Node != "" {
		node = screen.Printable(m.Node) + ": " + here(m)
	}
	owner := screen.OrUnknown(m.Owner)
	if m.Locked {
		owner += ", locked"
	}
	rows := [][]string{{"machine", screen.OrUnknown(m.Hostname) + " (" + screen.OrUnknown(m.SystemID) + ")"},
		{"state", screen.OrUnknown(m.State) + "; MAAS calls it " + screen.OrUnknown(m.StatusRaw)}, {"node", node},
		{"profile", m.Profile}, {"tags", strings.Join(m.Tags, ", ")},
		{"power", m.Power}, {"owner", owner}, {"series", m.Series},
		{"hardware", count(m.CPUs) + " CPUs, " + memory(m.MemoryMiB) + " memory"},
		{"place", "pool " + screen.OrUnknown(m.Pool) + ", zone " + screen.OrUnknown(m.Zone)}, {"seen", screen.Ago(now, m.SeenAt)}}
	if m.Error != "" {
		rows = append(rows, []string{"error", m.Error})
	}
	return rows
}

// findings are in what the two sides disagree, and what comes next. That something is done stands with the work.
func findings(m machines.Machine, steps []machines.Step) (rows [][]string) {
	for _, step := range steps {
		if step.SystemID == m.SystemID && step.Severity != "" {
			rows = append(rows, []string{"finding", step.Finding + ": " + step.Text})
		}
	}
	if m.Next != "" {
		rows = append(rows, []string{"next", m.Next})
	}
	return rows
}

func workPairs(m machines.Machine, now time.Time) [][]string {
	w := m.Work
	if w == nil {
		return nil
	}
	rows := [][]string{{"work", work(m) + "; begun " + screen.Ago(now, w.Since) + " by " + screen.OrUnknown(w.By)}}
	var how []string
	if w.Reimage {
		how = append(how, "installed anew")
	}
	if w.Erase {
		how = append(how, "with erase")
	}
	if w.Allocates != "" {
		how = append(how, "for the allocation "+w.Allocates)
	}
	if len(how) > 0 {
		rows = append(rows, []string{"how", strings.Join(how, ", ")})
	}
	if why := why(m); why != "" {
		rows = append(rows, []string{"why", why})
	}
	if w.TryAt != nil {
		rows = append(rows, []string{"tries", fmt.Sprintf("%d; the next one %s", w.Tries, screen.When(now, *w.TryAt))})
	}
	if m.Deadline != nil {
		label := "gives up"
		if !now.Before(*m.Deadline) {
			label = "gave up"
		}
		rows = append(rows, []string{label, screen.When(now, *m.Deadline) + ", at " + screen.Stamp(m.Deadline)})
	}
	return rows
}

// why is why the last try did not succeed; what is waited for stands in what comes next.
func why(m machines.Machine) string {
	if m.Work == nil || strings.Contains(m.Next, m.Work.Why) {
		return ""
	}
	return m.Work.Why
}

// plan shows what is about to be done, and what a person must do.
func plan(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "FINDING"}, {Name: "MACHINE", Least: 8, Most: 40}, {Name: "NODE", Rank: 1, Least: 8, Most: 40},
		{Name: "WHAT", Below: true, Most: 80}, {Name: "DOES", Below: true, Most: 60}, {Name: "SEVERITY", Wide: true},
		{Name: "SYSTEM", Most: 20, Wide: true}}
	return cli.Show(ctx, s, http.MethodGet, api.PathMAASPlan, nil, func(p machines.Plan) {
		if len(p.Steps) > 0 {
			_ = s.List(columns).Write(cli.Rows(p.Steps, func(step machines.Step) []string {
				return []string{step.Finding, of(step), step.Node, step.Text, step.Does, step.Severity, step.SystemID}
			}))
		}
		switch {
		case len(p.Steps) > 0:
			s.Printf("%s, %s\n", screen.Plural(len(p.Steps), "step"), seen(p.MAAS, s.Now()))
		case p.MAAS.Known:
			s.Printf("Nothing is to be done: MAAS and muster agree, %s.\n", seen(p.MAAS, s.Now()))
		default:
			s.Printf("Nothing is known to be done: %s.\n", seen(p.MAAS, s.Now()))
		}
		mustDo(s, p.Steps)
	})
}

func of(step machines.Step) string { return screen.OrUnknown(cmp.Or(step.Hostname, step.SystemID)) }

// mustDo prints what a person does. What stands there is foreign text in parts: it is printed, and nobody runs it but a person.
func mustDo(s *cli.Session, steps []machines.Step) {
	first := true
	for _, step := range steps {
		if step.Next == "" {
			continue
		}
		if first {
			fmt.Fprintln(s.Stdout, "\nWhat a person does:")
			first = false
		}
		fmt.Fprintln(s.Stdout, screen.Fold("  "+of(step)+": "+strings.TrimRight(s.PastedText(step.Next), "\n"), s.Screen(), "    "))
	}
}

// sync has MAAS looked at now.
func sync(ctx context.Context, s *cli.Session) error {
	m, err := cli.Send[machines.State](ctx, s, http.MethodPost, api.PathMAASSync, nil)
	isSeen := m.Known && m.AskedAt == nil
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		err = s.WriteJSON(m)
	case isSeen:
		s.Printf("MAAS: %s\n", seen(m, s.Now()))
	}
	if err == nil && !isSeen {
		return cli.Hinted(seen(m, s.Now()), "what was seen last is kept: muster maas ls")
	}
	return err
}
