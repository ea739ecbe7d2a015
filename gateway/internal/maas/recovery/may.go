package recovery

import (
	"cmp"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api/machines"
)

// May says why a work that has not begun could not be done, by the node and by MAAS, and what a person does then. Both are empty if it may
// begin. Whose the machine is comes first, and what a person can end by a drain comes last.
func (f Facts) May() (why, next string) {
	f.Mine = false
	if f.Old {
		return "MAAS is not seen now", "muster maas sync looks now"
	}
	if !f.Gone && f.elsewhere() && !f.Work.Force {
		return f.taken(), "find out who has it, and have them give it back: muster maas show SYSTEM says more"
	}
	if f.Work.Act == machines.ActDeploy {
		return f.mayDeploy()
	}
	failed := f.State() == machines.StateFailed || f.State() == machines.StateBroken
	n, act := f.Node, f.Work.Act
	switch o := f.Step(); {
	case act == machines.ActReset && !failed && !f.Gone && (f.Ended == "" || f.State() != machines.StateReady):
		return "it is " + f.State() + ", and did not fail",
			cmp.Or(f.idle().remedy([]string{machines.ActRelease, machines.ActCommission}), "see muster maas show SYSTEM")
	case act == machines.ActRelease && f.State() == machines.StateReady && (n == nil || f.in(wire.StateReady) || f.in(wire.StateCommissioned)):
		return "it is ready already", "nothing is to be done"
	case act == machines.ActDecommission && n == nil && f.Gone:
		return "MAAS has it no more, and it is no node", "nothing is to be done"
	case act == machines.ActDecommission && n == nil && f.KeptOut && !f.Acquired:
		return "it is out already", "nothing is to be done"
	case o.Wait != "" && f.Locked:
		return "it is locked in MAAS", "unlock it there"
	case o.End && o.Why != "":
		freed, before := f.freed()
		if before == "" {
			return o.Why, "see muster maas show SYSTEM; --force where that is meant"
		}
		if why, next := freed.May(); why != "" {
			return why, next
		}
		return o.Why, before + "muster maas " + act + " SYSTEM"
	}
	return "", ""
}

func (f Facts) mayDeploy() (why, next string) {
	n, w := f.Node, f.Work
	switch {
	case f.Gone:
		return "MAAS has the machine no more", "see muster maas plan"
	case n == nil || n.State == wire.StateRetired:
		return "it is no node", "commission it first: muster maas commission SYSTEM"
	case f.Owner != "" && !f.Ours:
		return f.Owner + " has it in MAAS", "have them release it"
	case f.Locked:
		return "it is locked in MAAS", "unlock it there"
	case n.State == wire.StateCommissioned && cmp.Or(w.Profile, n.Profile) == "":
		return "its node has no profile", "muster maas deploy SYSTEM --profile PROFILE"
	case (n.State == wire.StateReady || n.State == wire.StateCommissioned) && f.State() != machines.StateReady:
		return "it is " + f.State() + " in MAAS", cmp.Or(f.idle().remedy(back()), "see muster maas plan")
	case n.State == wire.StateReady, n.State == wire.StateCommissioned, n.State == wire.StateDrained && w.Reimage:
	case n.State == wire.StateDrained:
		return "it is deployed", "to install it anew: muster maas deploy SYSTEM --reimage"
	default:
		return "its node is " + n.State, "to install it anew: muster node drain NODE, then muster maas deploy SYSTEM --reimage"
	}
	if n.Held {
		return "an allocation has a part of it", "release that first: muster alloc ls"
	}
	if w.Profile != "" && w.Profile != n.Profile { // it gets that one first
		if f.Defined && slices.Contains(f.Tags, n.Profile) {
			return definedTag, definedTagNext
		}
		return f.with(w.Profile).untaggable()
	}
	return f.untaggable()
}

// with is the same machine where its node has a profile.
func (f Facts) with(profile string) Facts {
	n := *f.Node
	n.Profile = profile
	f.Node, f.Defined = &n, false
	return f
}

// idle is the same machine with no work.
func (f Facts) idle() Facts {
	f.Work = nil
	return f
}
