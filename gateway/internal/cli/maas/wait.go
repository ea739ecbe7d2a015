package maas

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const (
	pause    = 5 * time.Second     // between two looks
	waitTime = 30 * 24 * time.Hour // the gateway has deadlines of its own, and ends works by them
)

// waiting is what --wait follows.
type waiting struct {
	*cli.Session
	act   string
	acted *machines.Acted
	said  map[string]string // the last line of each machine, by system id
	over  map[string]bool   // by system id
	away  string            // why nothing can be seen now; empty: it can
	bad   int               // works that did not end well
}

// await shows each step of each machine once, until no work goes on. The machines are then as they are at the end; failed counts the
// works that did not succeed.
func await(ctx context.Context, s *cli.Session, act string, acted *machines.Acted) (failed int, err error) {
	w := &waiting{Session: s, act: act, acted: acted, said: map[string]string{}, over: map[string]bool{}}
	if len(acted.Machines) > 0 {
		fmt.Fprintln(s.Stderr, "^C leaves it at work")
	}
	w.tell()
	_, err = s.Poll(ctx, pause, waitTime, func() (bool, error) { return w.look(ctx) })
	if ctx.Err() != nil {
		names := make([]string, 0, len(acted.Machines))
		for _, m := range acted.Machines {
			names = append(names, m.SystemID)
		}
		fmt.Fprint(s.Stderr, "\n"+s.PastedText("It goes on: muster maas show "+strings.Join(names, " ")))
		return 0, &cli.EndedWith{Code: 130}
	}
	return w.bad, err
}

// look sees how far the machines are. A gateway that does not answer now is asked again.
func (w *waiting) look(ctx context.Context) (done bool, err error) {
	if len(w.over) == len(w.acted.Machines) {
		return true, nil
	}
	l, err := cli.Get[machines.List](ctx, w.Session, api.PathMachines, nil)
	var refused *wire.ErrorDetail
	switch {
	case errors.As(err, &refused) && refused.Code != wire.CodeUnavailable, ctx.Err() != nil:
		return false, err
	case err != nil:
		w.cannotSee(err.Error())
		return false, nil
	case l.MAAS.FailedAt != nil:
		w.cannotSee("MAAS: " + l.MAAS.Error)
	default:
		w.away = ""
	}
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
	return len(w.over) == len(w.acted.Machines), nil
}

func (w *waiting) cannotSee(why string) {
	if w.away != why {
		w.away = why
		fmt.Fprintln(w.Stderr, screen.Printable("it cannot be seen now ("+why+"); it goes on when it can"))
	}
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
		if !w.over[m.SystemID] && w.said[m.SystemID] != text {
			w.said[m.SystemID] = text
			fmt.Fprintln(w.Stderr, screen.Printable(text))
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
			fmt.Fprintln(w.Stdout, screen.Printable(name(m)+": "+w.act+" is done: "+text))
		}
		return
	}
	w.bad++
	if how != nil {
		text += ": " + how.Why
	}
	w.Report(name(m)+": "+w.act+" did not succeed: it is "+text, m.Next)
}
