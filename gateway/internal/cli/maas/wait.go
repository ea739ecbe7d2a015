package maas

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/cli"
)

// pause is between two looks. The gateway has deadlines of its own, and ends works by them.
const pause = 5 * time.Second

// waiting is what --wait follows.
type waiting struct {
	*cli.Session
	act   string
	acted *machines.Acted
	print func(thing, line string)
	disks map[string]string // what becomes of what is on them, by system id
	over  map[string]bool
	bad   int // works that did not end well
}

// await shows each step of each machine once, until no work goes on. The machines are then as they are at the end; failed counts the
// works that did not succeed.
func await(ctx context.Context, s *cli.Session, act string, acted *machines.Acted) (failed int, err error) {
	w := &waiting{Session: s, act: act, acted: acted, print: s.Changes(), disks: map[string]string{}, over: map[string]bool{}}
	for _, m := range acted.Machines {
		w.disks[m.SystemID] = disks(act, m)
	}
	if len(acted.Machines) > 0 {
		fmt.Fprintln(s.Stderr, "^C leaves it at work")
	}
	_, err = cli.Await(ctx, s, api.PathMachines, pause, machines.List{Machines: slices.Clone(acted.Machines)}, w.look)
	if ctx.Err() != nil {
		names := make([]string, 0, len(acted.Machines))
		for _, m := range acted.Machines {
			names = append(names, m.SystemID)
		}
		return 0, s.Left("It goes on: muster maas show " + strings.Join(names, " "))
	}
	return w.bad, err
}

// look takes in how far the machines are, and tells whether no work goes on.
func (w *waiting) look(l machines.List) bool {
	away := "" // prints nothing, and so the next time is told too
	if l.MAAS.FailedAt != nil {
		away = "it cannot be seen now (MAAS: " + l.MAAS.Error + "); it goes on when it can"
	}
	w.print("", away)
	now := make(map[string]machines.Machine, len(l.Machines))
	for _, m := range l.Machines {
		now[m.SystemID] = m
	}
	for i := range w.acted.Machines {
		m := &w.acted.Machines[i]
		if w.over[m.SystemID] {
			continue
		}
		begun := m.Work
		latest, there := now[m.SystemID]
		if !there {
			latest = *m
			latest.State, latest.Work = machines.StateGone, nil
		}
		*m = latest
		if m.Work == nil || begun != nil && !m.Work.Since.Equal(begun.Since) {
			w.end(*m, begun)
		}
	}
	w.tell()
	return len(w.over) == len(w.acted.Machines)
}

// tell says what has changed of each machine with which a work goes on.
func (w *waiting) tell() {
	for _, m := range w.acted.Machines {
		text := name(m) + ": " + m.State + " in MAAS"
		if m.Next != "" {
			text += "; " + m.Next
		}
		if why := why(m); why != "" {
			text += " (" + why + ")"
		}
		if !w.over[m.SystemID] {
			w.print(m.SystemID, text)
		}
	}
}

// end says how the work on a machine, which had begun, ended.
func (w *waiting) end(m machines.Machine, begun *machines.Work) {
	w.over[m.SystemID] = true
	text := m.State + " in MAAS"
	if m.Node != "" {
		text += ", node " + m.Node + " " + here(m)
	}
	how := m.Ended // nil, or of an earlier work: it is not known
	canceled := w.act == machines.ActCancel && how != nil && how.Canceled
	if how != nil && !canceled && (begun == nil || how.Act != w.act || how.At.Before(begun.Since)) {
		how = nil
	}
	if how != nil && (how.Why == "" || canceled) {
		if w.Form != cli.FormJSON {
			w.Printf("%s\n", name(m)+": "+w.act+" is done: "+text+w.disks[m.SystemID])
		}
		return
	}
	w.bad++
	if how != nil {
		text += ": " + how.Why
	}
	w.Report(name(m)+": "+w.act+" did not succeed: it is "+text, m.Next)
}
