package maas

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// actFlags are those of all acts; each command takes some of them.
type actFlags struct {
	Series, Profile       string
	Erase, Reimage, Force bool
	DryRun                bool `flag:"dry-run"`
	Wait                  bool
}

// acts makes a command that has something done with machines.
func acts(act, verb string) func(context.Context, *cli.Session) error {
	return cli.With(func(ctx context.Context, s *cli.Session, o actFlags) error {
		picked, err := pick(ctx, s)
		if err != nil {
			return err
		}
		q := machines.Act{Act: act, Series: o.Series, Profile: o.Profile, Reimage: o.Reimage, Force: o.Force, DryRun: o.DryRun}
		if s.Flags.Given("erase") { // otherwise, as its profile says
			q.Erase = &o.Erase
		}
		for _, m := range picked {
			q.Machines = append(q.Machines, m.SystemID)
		}
		if err := agree(ctx, s, q, verb, picked); err != nil {
			return err
		}
		acted, err := cli.Send[machines.Acted](ctx, s, http.MethodPost, api.PathMachines, q)
		if err != nil {
			return err
		}
		for _, m := range picked {
			if why := acted.Refused[m.SystemID]; why != "" {
				s.Trouble(ctx, name(m), errors.New(why))
			}
		}
		bad := len(acted.Refused)
		switch {
		case o.Wait && !o.DryRun:
			failed, err := await(ctx, s, act, &acted)
			if err != nil {
				return err
			}
			bad += failed
		case s.Form != cli.FormJSON:
			tell(s, q, acted.Machines)
		}
		if s.Form == cli.FormJSON {
			err = s.WriteJSON(acted)
		}
		if err == nil && bad > 0 {
			err = cli.ErrReported
		}
		return err
	})
}

// pick gets the machines that the words name, each once.
func pick(ctx context.Context, s *cli.Session) (picked []machines.Machine, err error) {
	for _, word := range s.Words {
		m, err := cli.Get[machines.Machine](ctx, s, api.At(api.PathMachine, word), nil)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(picked, func(o machines.Machine) bool { return o.SystemID == m.SystemID }) {
			return nil, cli.Twice("the machine", word)
		}
		picked = append(picked, m)
	}
	return picked, nil
}

// agree asks where several machines are meant, or something is lost.
func agree(ctx context.Context, s *cli.Session, q machines.Act, verb string, picked []machines.Machine) error {
	deed := verb + " " + screen.Plural(len(picked), "machine")
	erases, err := erases(ctx, s, q)
	if err != nil {
		return err
	}
	loses := q.Reimage || erases || q.Force || q.Act == machines.ActDecommission
	switch {
	case q.DryRun || len(picked) == 1 && !loses:
		return nil
	case erases:
		deed += ", and erase what is on the disks"
	case q.Reimage:
		deed += " anew: what is on the disks is lost"
	}
	var elsewhere []string
	for _, m := range picked {
		if m.Finding == machines.FindingElsewhere {
			elsewhere = append(elsewhere, name(m))
		}
	}
	switch {
	case q.Force && len(elsewhere) > 0:
		deed += ", although another gateway or person with muster's key has " + screen.Printable(strings.Join(elsewhere, ", "))
	case q.Force:
		deed += ", although somebody may work there"
	}
	for _, m := range picked {
		fmt.Fprintln(s.Stderr, "  "+screen.Printable(about(m)))
	}
	return s.Agree(deed, deed)
}

// erases tells whether disks will be erased. If the command does not say so, the gateway does: profiles decide it.
func erases(ctx context.Context, s *cli.Session, q machines.Act) (bool, error) {
	switch {
	case q.Erase != nil:
		return *q.Erase, nil
	case q.DryRun, q.Act == machines.ActDeploy, q.Act == machines.ActCommission, q.Act == machines.ActCancel:
		return false, nil
	}
	q.DryRun = true
	would, err := cli.Send[machines.Acted](ctx, s, http.MethodPost, api.PathMachines, q)
	return slices.ContainsFunc(would.Machines, func(m machines.Machine) bool { return m.Work != nil && m.Work.Erase }), err
}

// about says in one line what a machine is, so that nobody ends another one than they mean.
func about(m machines.Machine) string {
	text := name(m) + " (" + m.SystemID + "): " + m.State + " in MAAS"
	if m.Node == "" {
		return text + ", no node"
	}
	return text + ", node " + m.Node + " (" + here(m) + ")"
}

// tell says what has begun, or would begin.
func tell(s *cli.Session, q machines.Act, begun []machines.Machine) {
	for _, m := range begun {
		if q.DryRun {
			s.Printf("%s\n", name(m)+": would begin"+disks(q.Act, m)+"; first, "+m.Next)
			continue
		}
		if m.Work == nil { // nothing of it is left
			s.Printf("%s: %s is done\n", name(m), q.Act)
			continue
		}
		s.Printf("%s: %s has begun%s; muster maas show %s says how far it is\n", name(m), q.Act, disks(q.Act, m), m.SystemID)
	}
}

// disks says what becomes of what is on the disks of a machine with which an act begins; empty: it is not given back, or nobody has it.
func disks(act string, m machines.Machine) string {
	isBack := act == machines.ActRelease || act == machines.ActReset || act == machines.ActDecommission
	switch {
	case !isBack || m.Work == nil || m.State == machines.StateReady || m.State == machines.StateNew:
		return ""
	case m.Work.Erase:
		return "; its disks are erased"
	}
	return "; what is on its disks stays"
}
