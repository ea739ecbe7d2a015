package recovery

import (
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	records "muster/store/maas"
)

// What the reconciling loop does by itself with a machine for which no work is under way.
const (
	Adds       = "add"      // makes its node
	Tags       = "tag"      // gives it the tag of its node's profile
	Untags     = "untag"    // takes from it the tag that muster wrote for an earlier one
	Accepts    = "accept"   // makes its node ready
	Parts      = "part"     // ends that it is its node
	Withdraws  = "withdraw" // makes a ready node commissioned again
	Continues  = "continue" // goes on with the work
	Undoes     = "undo"     // takes back a work that failed
	eraseAge   = 24 * time.Hour
	releaseAge = 15 * time.Minute
)

// Row is one way in which MAAS and muster can disagree.
type Row struct {
	Name     string
	Severity string // of wire, or empty: it is the way of things
	Text     string
	Does     string   // what is done by itself; empty: nothing
	Next     string   // what a person does; empty: nothing. SYSTEM stands for the machine. An act follows its colon
	Acts     []string // that mend it: a person has the first of them done that is not refused
	When     func(Facts) bool
}

// Find returns the rows of a table that are true of a machine, in their order. The Next of each is complete. Of an old view, what is wrong
// stays, and nothing is done about it.
func Find(table []Row, f Facts) []Row {
	var found []Row
	for _, r := range table {
		if f.Old && r.Does != Continues {
			r.Does = ""
		}
		if r.When(f) && (r.Severity != "" || r.Does != "" || r.Next != "") {
			r.Text, r.Next = f.named(r.Text), f.next(r)
			found = append(found, r)
		}
	}
	return found
}

// next is what a person does about a row. Of its acts, it has one that is taken in this state.
func (f Facts) next(r Row) string {
	act := f.remedy(r.Acts)
	switch {
	case len(r.Acts) == 0 || act == "" && r.Next != "":
		return strings.TrimSuffix(f.named(r.Next), ":")
	case act == "":
		return "see muster maas show SYSTEM: nothing can be done with it as it is"
	case r.Next == "":
		return act
	}
	if strings.HasSuffix(r.Next, ":") {
		return r.Next + " " + act
	}
	return r.Next + "; then " + act
}

// remedy is the command for the first act that may begin; empty: none may. What works is drained first.
func (f Facts) remedy(acts []string) string {
	f, before := f.freed()
	f.Old = false // it is advice for when MAAS is seen again
	if f.Work != nil {
		return ""
	}
	for _, act := range acts {
		for _, flag := range []string{"", " --force"} {
			f.Work = &records.Work{Act: act, Begun: f.Now, Deadline: f.Now.Add(time.Hour), Force: flag != ""}
			if why, _ := f.May(); why == "" {
				return before + "muster maas " + act + " SYSTEM" + flag
			}
		}
	}
	return ""
}

// freed is the same machine where its node does not work and nobody has a part of it, and what a person does to that end.
func (f Facts) freed() (freed Facts, before string) {
	if f.Node == nil {
		return f, ""
	}
	n := *f.Node
	if n.Held {
		n.Held, before = false, "end its allocations (muster alloc ls), then "
	}
	if n.State == wire.StateActive {
		n.State, before = wire.StateDrained, before+"muster node drain NODE, then "
	}
	f.Node = &n
	return f, before
}

// Table returns the recovery table, the gravest first.
func Table() []Row {
	return slices.Concat(lost(), stuck(), barred(), usual())
}

// What more than one place says.
const (
	assignOne    = "muster profile assign PROFILE NODE"
	otherTag     = "MAAS has the tag of another profile on it than that of its node: OTHER, which muster did not set"
	otherTagNext = "decide which is right: take the tag OTHER from it in MAAS, or give its node that profile: " +
		"muster profile assign OTHER NODE"
	definedTag     = "MAAS itself sets the tag of its profile: what muster adds does not last"
	definedTagNext = "remove the tag's definition in MAAS"
)

// back are the acts after which MAAS has a machine again, the mildest first.
func back() []string {
	return []string{machines.ActRelease, machines.ActReset, machines.ActDecommission}
}

const (
	severe = wire.SeveritySevere
	warn   = wire.SeverityWarn
)

// lost are machines that are no longer what they were.
func lost() []Row {
	return []Row{
		{
			Name: "reports_but_ready", Severity: severe,
			Text: "its agent reports, and MAAS says that nothing is installed: somebody may give the machine away while it works",
			Next: "find out who runs it, and keep others from it in MAAS until that is over", Acts: back(),
			When: func(f Facts) bool {
				return f.Work == nil && !f.Gone && f.reports() && f.Status != statusDeployed && f.Status != statusBroken
			},
		},
		{
			Name: "installed_no_more", Severity: severe,
			Text: "its node was at work, and MAAS says that nothing is installed any more: somebody has taken it away there",
			Acts: back(),
			When: func(f Facts) bool {
				return f.Work == nil && !f.Gone && f.working() && !f.reports() && f.Status != statusDeployed && f.Status != statusBroken
			},
		},
		{
			Name: "system_id_changed", Severity: severe,
			Text: "it was enlisted again under another system id: MAAS has the same hardware there",
			Next: "end the old one: the new one becomes a node", Acts: []string{machines.ActDecommission},
			When: func(f Facts) bool { return f.Gone && f.Twin != "" && f.alive() },
		},
		{
			Name: "gone", Severity: severe,
			Text: "MAAS has it no more, and it is a node",
			Next: "enlist it again in MAAS, or end it here:", Acts: []string{machines.ActDecommission},
			When: func(f Facts) bool { return f.Gone && f.Twin == "" && f.alive() },
		},
		{
			Name: "never_reports", Severity: severe,
			Text: "MAAS calls it deployed, and its agent was not heard since",
			Next: "see its console", Acts: back(),
			When: func(f Facts) bool {
				return f.Work == nil && f.Ours && !f.elsewhere() && f.Status == statusDeployed && f.alive() && !f.works()
			},
		},
		{
			Name: "node_silent", Severity: warn,
			Text: "MAAS calls it deployed, and its agent is silent",
			Next: "see muster node show NODE; the work on it is not ended by itself",
			When: func(f Facts) bool { return f.Work == nil && f.Status == statusDeployed && f.silent() },
		},
		{
			Name: machines.FindingElsewhere, Severity: warn,
			Text: "it was acquired with muster's key, and not by this gateway: muster does not touch it",
			Next: "find out who has it; give it back only where nobody does:", Acts: back(),
			When: func(f Facts) bool { return f.Work == nil && !f.Gone && f.elsewhere() },
		},
		{
			Name: "left_installed", Severity: warn,
			Text: "muster had it installed, and it is no node any more: it stays as it is",
			Next: "give it back to MAAS", Acts: back(),
			When: func(f Facts) bool {
				return f.Work == nil && !f.Gone && f.Ours && f.Acquired && (f.Node == nil && f.KeptOut || f.in(wire.StateRetired)) && f.Held()
			},
		},
	}
}

// stuck are works and statuses that do not end well.
func stuck() []Row {
	return []Row{
		{
			Name: "deploy_hangs", Severity: warn, Does: Undoes,
			Text: "its agent was not heard in time: the deployment is aborted, and the machine is released",
			When: func(f Facts) bool {
				return f.deploys() && f.Work.Failed == "" && !f.joined() && !f.Now.Before(f.Work.Deadline) && f.Status != statusFailedDeployment
			},
		},
		{
			Name: "deploy_failed", Severity: warn, Does: Undoes,
			Text: "its deployment failed: it is taken back",
			When: func(f Facts) bool {
				return f.deploys() && !f.Work.Canceled && (f.Work.Failed != "" || f.Mine && f.Status == statusFailedDeployment)
			},
		},
		{
			Name: "deploy_failed_elsewhere", Severity: warn,
			Text: "a deployment failed that muster has not on record",
			Acts: []string{machines.ActReset},
			When: func(f Facts) bool {
				return f.Work == nil && f.Ours && !f.elsewhere() && f.Status == statusFailedDeployment
			},
		},
		{
			Name: "release_failed", Severity: warn,
			Text: "MAAS could not release it, or not erase it",
			Next: "see the machine's events in MAAS", Acts: []string{machines.ActReset},
			When: func(f Facts) bool {
				return f.Work == nil && !f.Gone && (f.Status == statusFailedReleasing || f.Status == statusFailedErasing)
			},
		},
		{
			Name: "release_hangs", Severity: warn,
			Text: "MAAS has been releasing it for more than 15 minutes",
			Next: "see its power in MAAS: it is released when MAAS sees it off",
			When: func(f Facts) bool { return !f.Gone && f.Status == statusReleasing && f.Now.Sub(f.Since) > releaseAge },
		},
		{
			Name: "erase_hangs", Severity: warn,
			Text: "MAAS has been erasing it for more than a day, and has no limit of its own",
			Next: "see its console, and abort it in MAAS if it does nothing",
			When: func(f Facts) bool { return !f.Gone && f.Status == statusErasing && f.Now.Sub(f.Since) > eraseAge },
		},
		{
			Name: "commissioning_failed", Severity: warn,
			Text: "its commissioning failed",
			Next: "see the scripts' output in MAAS", Acts: []string{machines.ActReset},
			When: func(f Facts) bool { return f.Work == nil && !f.Gone && f.Status == statusNotCommissioned },
		},
		{
			Name: "tests_failed", Severity: warn,
			Text: "its tests failed",
			Next: "see the scripts' output in MAAS, and test it again or override the tests there",
			When: func(f Facts) bool { return !f.Gone && f.Status == statusNotTested },
		},
		{
			Name: "rescue_failed", Severity: warn,
			Text: "it could not enter or leave its rescue system",
			Next: "end the rescue in MAAS",
			When: func(f Facts) bool { return !f.Gone && (f.Status == 18 || f.Status == 20) },
		},
		{
			Name: "last_work_failed", Severity: warn,
			Text: "the last that was done with it failed: WHY",
			Acts: []string{machines.ActReset, machines.ActRelease, machines.ActCommission},
			When: func(f Facts) bool {
				return f.Work == nil && f.Ended != "" && f.Status != statusDeployed && f.Status != statusBroken && !f.Gone
			},
		},
	}
}

// barred are machines that muster may not touch.
func barred() []Row {
	return []Row{
		{
			Name: "foreign_owner", Severity: warn,
			Text: "somebody else has it in MAAS: muster does not touch it",
			Next: "have them release it, or end its node here:", Acts: []string{machines.ActDecommission},
			When: func(f Facts) bool { return !f.Gone && f.foreign() && f.alive() },
		},
		{
			Name: "locked", Severity: warn,
			Text: "it is locked in MAAS, and something is to be done with it",
			Next: "unlock it in MAAS",
			When: func(f Facts) bool { return !f.Gone && f.Locked && f.Work != nil },
		},
		{
			Name: "broken", Severity: warn,
			Text: "MAAS calls it broken",
			Next: "mend it", Acts: []string{machines.ActReset},
			When: func(f Facts) bool { return f.Work == nil && !f.Gone && f.Status == statusBroken },
		},
		{
			Name: "out_of_use", Severity: warn,
			Text: "MAAS calls it missing or retired, and it is a node",
			Next: "bring it back into use in MAAS, or end its node here:", Acts: []string{machines.ActDecommission},
			When: func(f Facts) bool { return f.Work == nil && !f.Gone && f.away() && f.alive() },
		},
		{
			Name: "power_error", Severity: warn,
			Text: "MAAS cannot speak to its power control",
			Next: "check its BMC's address, user and network in MAAS",
			When: func(f Facts) bool { return !f.Gone && f.Power == "error" },
		},
		{
			Name: "tag_conflict", Severity: warn,
			Text: otherTag,
			Next: otherTagNext,
			When: func(f Facts) bool { return !f.Gone && f.alive() && f.Node.Profile != "" && f.otherTag() != "" },
		},
		{
			Name: "tag_defined", Severity: warn,
			Text: definedTag,
			Next: definedTagNext,
			When: func(f Facts) bool { return !f.Gone && f.alive() && f.Defined },
		},
		{
			Name: "unknown_state", Severity: warn,
			Text: "it has a status in MAAS that this muster does not know",
			Next: "use a muster that knows this MAAS",
			When: func(f Facts) bool { return !f.Gone && f.State() == machines.StateUnknown },
		},
	}
}

// usual is what is done by itself while nothing is wrong.
func usual() []Row {
	return []Row{
		{
			Name: "in_work", Does: Continues,
			Text: "something is done with it",
			When: func(f Facts) bool { return f.Work != nil },
		},
		{
			Name: "no_node", Does: Adds,
			Text: "its hardware is known, and it is no node: one is made",
			When: func(f Facts) bool {
				return f.Node == nil && f.Work == nil && !f.KeptOut && !f.Gone && f.Twin == "" && !f.others() && f.commissioned()
			},
		},
		{
			Name: "not_commissioned",
			Text: "MAAS has not looked at its hardware",
			Next: "muster maas commission SYSTEM",
			When: func(f Facts) bool {
				return f.Status == statusNew && f.Work == nil && !f.KeptOut && !f.Gone && !f.Locked && !f.others() && !f.working()
			},
		},
		{
			Name: "not_ready", Severity: warn, Does: Withdraws,
			Text: "its node is ready, and the machine is not: the node is commissioned until it is",
			When: func(f Facts) bool {
				return f.in(wire.StateReady) && f.Work == nil && (f.Gone || f.Status != statusReady)
			},
		},
		{
			Name: "node_retired", Does: Parts,
			Text: "its node was retired: it is kept out of muster until it is commissioned again",
			When: func(f Facts) bool { return f.in(wire.StateRetired) && f.Work == nil },
		},
		{
			Name: "deploying_alone", Severity: warn, Does: Withdraws,
			Text: "its node waits for a deployment that is not on record: the node is commissioned again",
			When: func(f Facts) bool { return f.in(wire.StateDeploying) && f.waits() },
		},
		{
			Name: "no_profile",
			Text: "its node has no firmware profile: it is not ready",
			Next: assignOne,
			When: func(f Facts) bool { return f.in(wire.StateCommissioned) && f.waits() && f.Node.Profile == "" },
		},
		{
			Name: "no_tag", Does: Tags,
			Text: "MAAS does not have the tag of its profile: it is set",
			When: func(f Facts) bool {
				return f.alive() && !f.Gone && f.Work == nil && !f.others() && !f.Locked && f.Node.Profile != "" &&
					!f.Defined && f.otherTag() == "" && !f.oldTag() && !slices.Contains(f.Tags, f.Node.Profile)
			},
		},
		{
			Name: "old_tag", Does: Untags,
			Text: "MAAS has the tag of a profile that its node has no more: it is taken away",
			When: func(f Facts) bool {
				return f.alive() && !f.Gone && f.Work == nil && !f.others() && !f.Locked && f.oldTag()
			},
		},
		{
			Name: "tagged", Does: Accepts,
			Text: "it is ready and tagged: its node becomes ready",
			When: func(f Facts) bool {
				return f.in(wire.StateCommissioned) && f.waits() && f.Node.Profile != "" && !f.Defined && f.otherTag() == "" && !f.oldTag() &&
					slices.Contains(f.Tags, f.Node.Profile)
			},
		},
	}
}

// others is true for a machine that somebody else has, or may have.
func (f Facts) others() bool { return f.foreign() || f.elsewhere() }

// alive is true for a machine that is a node.
func (f Facts) alive() bool { return f.Node != nil && f.Node.State != wire.StateRetired }

func (f Facts) in(state string) bool { return f.Node != nil && f.Node.State == state }

// waits is true for a machine that is free for us.
func (f Facts) waits() bool {
	return f.Work == nil && !f.Gone && f.Status == statusReady && f.Owner == "" && !f.Locked
}

func (f Facts) deploys() bool { return f.Work != nil && f.Work.Act == machines.ActDeploy }

// commissioned is true where MAAS knows the hardware.
func (f Facts) commissioned() bool {
	switch f.Status {
	case statusReady, statusReserved, statusDeployed, statusDeploying, statusAllocated:
		return true
	}
	return false
}

// otherTag is the tag of a profile that is not its node's, where muster did not write it; empty: there is none.
func (f Facts) otherTag() string {
	for _, tag := range f.Tags {
		if _, is := slices.BinarySearch(f.Profiles, tag); is && f.Node != nil && tag != f.Node.Profile && tag != f.Wrote {
			return tag
		}
	}
	return ""
}

// wrote is true if it has the tag that muster wrote to it.
func (f Facts) wrote() bool { return f.Wrote != "" && slices.Contains(f.Tags, f.Wrote) }

// oldTag is true if that tag is of a profile that its node has no more.
func (f Facts) oldTag() bool { return f.wrote() && f.Node.Profile != f.Wrote }

// named puts the name of the other tag into a text, and why the last work failed.
func (f Facts) named(text string) string {
	return strings.NewReplacer("OTHER", f.otherTag(), "WHY", f.Ended).Replace(text)
}
