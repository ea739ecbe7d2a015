package recovery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
)

// What a step asks of MAAS.
const (
	AskAcquire    = "acquire"
	AskDeploy     = "deploy"
	AskAbort      = "abort"
	AskRelease    = "release"
	AskCommission = "commission"
	AskFix        = "fix"
	AskAssign     = "assign" // of muster itself: the node gets the profile
	AskTag        = "tag"    // give the machine the tag of the node's profile
	AskUntag      = "untag"  // take from it the tag that muster wrote to it

	// Steps of a work that ask nothing: what was asked has begun.
	Installs    = "install"
	Commissions = "commissioning"
)

// Moves of a node, by the names of the verbs.
const (
	MoveDeploy       = "deploy"
	MoveRedeploy     = "redeploy"
	MoveDrain        = "drain"
	MoveDecommission = "decommission"
	MoveRetire       = "retire"
	MoveAccept       = "accept"
)

// Order is what comes next in a work. One of the fields is set, or Wait.
type Order struct {
	Move string // of the node
	Ask  string // of MAAS
	Note string // the step that has begun by itself
	Fail string // why the work cannot succeed: from now on it takes back what it did
	End  bool   // the work is over. It has failed where Why is not empty.
	Why  string // of End
	Wait string // for what
}

func wait(format string, args ...any) Order { return Order{Wait: fmt.Sprintf(format, args...)} }
func fail(format string, args ...any) Order { return Order{Fail: fmt.Sprintf(format, args...)} }
func end(format string, args ...any) Order {
	return Order{End: true, Why: fmt.Sprintf(format, args...)}
}

var done = Order{End: true}

// Step returns what comes next in the work. It follows from what is there now, so that a step whose answer was lost is not done twice.
func (f Facts) Step() Order {
	if f.Old {
		return wait("MAAS, which is not seen now")
	}
	switch f.Work.Act {
	case machines.ActDeploy:
		return f.deploy()
	case machines.ActRelease, machines.ActReset, machines.ActDecommission:
		return f.giveBack()
	case machines.ActCommission:
		return f.commission()
	}
	return end("there is no act %s", f.Work.Act)
}

// deploy: the node first, because from then on it takes no work, and its old identity is no good.
func (f Facts) deploy() Order {
	n, w := f.Node, f.Work
	switch {
	case n == nil || n.State == wire.StateRetired:
		return end("its node is gone")
	case w.Failed != "":
		return f.undo()
	case prepares(w.Step) && n.State != wire.StateDeploying:
		return f.takeNode()
	case f.taken() != "":
		return fail("%s", f.taken())
	}
	if f.joined() && f.Mine && f.Status == statusDeployed && n.State != wire.StateEnrolled {
		return done
	}
	installs := f.Mine && (f.Status == statusDeploying || f.Status == statusDeployed)
	if n.State != wire.StateDeploying && !installs {
		return fail("node %s is %s now, and the machine is %s in MAAS", n.Name, n.State, f.State())
	}
	if !f.Now.Before(w.Deadline) {
		return fail("its agent was not heard by %s", w.Deadline.UTC().Format(time.RFC3339))
	}
	if f.Locked {
		return wait(lockedInMAAS)
	}
	if f.Mine {
		return f.install()
	}
	return f.acquire()
}

// prepares is true for the steps before the node is taken.
func prepares(step string) bool {
	return step == "" || step == AskUntag || step == AskAssign || step == AskTag
}

// mostTags is how often a tag is set, or taken away, without MAAS showing that afterwards.
const mostTags = 3

// prepare gives the node the profile that is asked for, and the machine its tag. The node takes no other work meanwhile. done: it has all.
func (f Facts) prepare() Order {
	n, want := f.Node, f.Work.Profile
	if want != "" && n.Profile != want {
		why, _ := f.with(want).untaggable()
		switch {
		case f.Defined && slices.Contains(f.Tags, n.Profile):
			return end(definedTag)
		case why != "":
			return end("%s", why)
		case n.State == wire.StateReady:
			return Order{Move: MoveDecommission}
		case f.with(want).oldTag():
			return f.untag()
		}
		return Order{Ask: AskAssign}
	}
	why, _ := f.untaggable()
	switch {
	case why != "":
		return end("%s", why)
	case f.oldTag():
		return f.untag()
	case n.Profile == "":
		return done
	case !slices.Contains(f.Tags, n.Profile) && f.Work.Step == AskTag && f.Work.Tries >= mostTags:
		return end("MAAS does not keep the tag %s", n.Profile)
	case !slices.Contains(f.Tags, n.Profile):
		return Order{Ask: AskTag}
	case n.State == wire.StateCommissioned:
		return Order{Move: MoveAccept}
	}
	return done
}

// untag takes from the machine the tag that muster wrote to it.
func (f Facts) untag() Order {
	if f.Work.Step == AskUntag && f.Work.Tries >= mostTags {
		return end("MAAS does not take the tag %s away", f.Wrote)
	}
	return Order{Ask: AskUntag}
}

// untaggable says why a machine cannot have the tag of its node's profile, and what a person does; empty: it can.
func (f Facts) untaggable() (why, next string) {
	switch {
	case f.Node.Profile == "" && f.in(wire.StateCommissioned):
		return "its node has no firmware profile", assignOne
	case f.Node.Profile == "":
		return "", ""
	case f.otherTag() != "":
		return f.named(otherTag), f.named(otherTagNext)
	case f.Defined:
		return definedTag, definedTagNext
	}
	return "", ""
}

// takeNode makes the node deploying.
func (f Facts) takeNode() Order {
	n := f.Node
	ready := n.State == wire.StateReady || n.State == wire.StateCommissioned && f.Status == statusReady
	switch {
	case f.taken() != "":
		return end("%s", f.taken())
	case n.Held:
		return end("an allocation has GPUs of node %s", n.Name)
	case f.Locked && f.Now.Before(f.Work.Deadline):
		return wait(lockedInMAAS)
	case f.Locked:
		return end(lockedInMAAS)
	case !ready && (n.State != wire.StateDrained || !f.Work.Reimage):
		return end("node %s is %s now", n.Name, n.State)
	}
	switch o := f.prepare(); {
	case o != done:
		return o
	case n.State == wire.StateReady:
		return Order{Move: MoveDeploy}
	}
	return Order{Move: MoveRedeploy}
}

// install: the machine was acquired for this work.
func (f Facts) install() Order {
	begun := f.Work.Step == Installs
	switch f.Status {
	case statusAllocated:
		if begun {
			return fail("somebody aborted it in MAAS")
		}
		return Order{Ask: AskDeploy}
	case statusDeploying, statusDeployed:
		if !begun {
			return Order{Note: Installs}
		}
		return wait("its agent")
	case statusFailedDeployment:
		return fail("MAAS could not install it%s", because(": ", f.Error))
	}
	return fail("it is %s in MAAS, while it is installed", f.State())
}

// acquire: the machine is not this work's own yet. One that is to be installed anew is released first.
func (f Facts) acquire() Order {
	step := f.Work.Step
	ours := prepares(step) || step == AskRelease || step == AskCommission || step == Commissions || step == AskAcquire
	switch {
	case !ours:
		return fail("somebody took it away in MAAS: it is %s", f.State())
	case f.Status == statusReady && f.unerased() && step != AskAcquire:
		return fail(notErased)
	case f.Status == statusReady:
		return Order{Ask: AskAcquire}
	case !f.Work.Reimage || step == AskAcquire:
		return fail("it is %s in MAAS, and not ready", f.State())
	}
	o := f.back(false)
	if o.End {
		return fail("%s", o.Why)
	}
	return o
}

// undo brings back a machine whose deployment failed.
func (f Facts) undo() Order {
	n, w := f.Node, f.Work
	switch {
	case f.joined() && f.Mine && f.Status == statusDeployed: // late, but there
		return done
	case f.joined():
		return end("%s; and its agent reports: it stays as it is", w.Failed)
	case n.State == wire.StateDeploying || n.State == wire.StateEnrolled || n.State == wire.StateReady:
		return Order{Move: MoveDecommission}
	case n.State != wire.StateCommissioned:
		return end("%s; and node %s is %s: it stays as it is", w.Failed, n.Name, n.State)
	case f.taken() != "" || !f.Mine && f.commissioned() && f.Status != statusReady: // nothing of it is this work's
		return end("%s", w.Failed)
	case f.Locked:
		return wait(lockedInMAAS)
	}
	o := f.back(false)
	if o.End && strings.Contains(w.Failed, o.Why) {
		o.Why = w.Failed
	} else if o.End {
		o.Why = w.Failed + "; " + o.Why
	}
	return o
}

// taken says why the machine is not for the work to touch; empty: it is.
func (f Facts) taken() string {
	switch {
	case f.Gone:
		return "MAAS has the machine no more"
	case f.foreign():
		return f.Owner + " has the machine in MAAS"
	case f.elsewhere() && !f.Work.Force:
		return "it was acquired with muster's key, and not by this gateway"
	}
	return ""
}

// because adds a reason, if there is one.
func because(between, why string) string {
	if why == "" {
		return ""
	}
	return between + why
}

// giveBack ends the node's work, and then the machine's. The node is left when nothing stands against the rest any more.
func (f Facts) giveBack() Order {
	if f.Work.Act != machines.ActDecommission && f.in(wire.StateReady) && f.Status == statusReady && f.Owner == "" && !f.Gone {
		return done
	}
	if f.Work.Canceled {
		return f.canceled()
	}
	leave, left := f.leave()
	if leave.End {
		return leave
	}
	if why := f.taken(); why != "" {
		return f.leftMAAS(leave, why)
	}
	if f.Locked {
		if !f.Now.Before(f.Work.Deadline) {
			return end(lockedInMAAS)
		}
		return wait(lockedInMAAS)
	}
	o := f.back(f.Work.Act == machines.ActReset)
	switch {
	case f.Work.Act == machines.ActDecommission && o.End && o != done && (f.Owner == "" || f.away()):
		return f.leftMAAS(leave, "")
	case !left && (o.Ask != "" || o == done):
		return leave
	case o == done && f.unerased():
		return end(notErased)
	case o == done && f.Work.Act != machines.ActDecommission:
		return f.accept()
	case o != done:
		return o
	case f.wrote():
		return f.untag()
	}
	return f.leftMAAS(leave, "")
}

// accept makes the node of a machine that is ready again, ready, where it has its profile's tag.
func (f Facts) accept() Order {
	if !f.in(wire.StateCommissioned) || f.Owner != "" || f.oldTag() || !slices.Contains(f.Tags, f.Node.Profile) {
		return done
	}
	if why, _ := f.untaggable(); why != "" {
		return done
	}
	return Order{Move: MoveAccept}
}

const notErased = "MAAS has it ready, and was not seen to erase its disks, as was asked: what was on them may be there still. " +
	"To erase it, deploy it and release it with --erase"

const lockedInMAAS = "somebody locked the machine in MAAS"

// leftMAAS ends a work on a machine with which nothing more can be done. A node that is to go goes all the same.
func (f Facts) leftMAAS(leave Order, why string) Order {
	if f.Work.Act != machines.ActDecommission || !f.Gone && f.elsewhere() && why != "" {
		return end("%s", why)
	}
	if leave.Move != "" {
		return leave
	}
	if f.Node != nil && f.Node.State != wire.StateRetired {
		return Order{Move: MoveRetire}
	}
	return done
}

// leave makes the node commissioned: nothing is placed on it from then on, and its agent is not believed.
func (f Facts) leave() (o Order, over bool) {
	n, force := f.Node, f.Work.Force
	if n == nil || n.State == wire.StateCommissioned || n.State == wire.StateRetired {
		return o, true
	}
	switch {
	case n.Held && !force:
		return end("an allocation has GPUs of node %s", n.Name), false
	case n.State == wire.StateActive && force:
		return Order{Move: MoveDrain}, false
	case n.State == wire.StateActive:
		return end("node %s works: drain it first", n.Name), false
	case n.State == wire.StateUnavailable && f.reports() && !force:
		return end("node %s is unavailable and reports: that must be asked for", n.Name), false
	}
	return Order{Move: MoveDecommission}, false
}

// back brings a machine of ours to Ready. reset: also one that failed.
func (f Facts) back(reset bool) Order {
	step := f.Work.Step
	switch f.Status {
	case statusReady:
		return done
	case statusReserved, statusDeployed, statusAllocated, statusFailedDeployment:
		return Order{Ask: AskRelease}
	case statusDeploying:
		return Order{Ask: AskAbort}
	case statusReleasing, statusErasing:
		return wait("MAAS releases it")
	case statusFailedReleasing, statusFailedErasing:
		if step == AskRelease {
			return end("MAAS could not release it%s", because(": ", f.Error))
		}
		return Order{Ask: AskRelease}
	case statusNew:
		if step == Commissions {
			return end("somebody aborted its commissioning in MAAS")
		}
		return Order{Ask: AskCommission}
	case statusCommissioning:
		if step == AskCommission {
			return Order{Note: Commissions}
		}
		return wait("MAAS commissions it")
	case statusNotCommissioned:
		if reset && step != AskCommission && step != Commissions {
			return Order{Ask: AskCommission}
		}
		return end("its commissioning failed")
	case statusBroken:
		switch {
		case !reset:
		case f.Ours:
			return Order{Ask: AskRelease}
		default:
			return Order{Ask: AskFix}
		}
	case statusTesting:
		return wait("MAAS tests it")
	}
	return end("it is %s in MAAS", f.State())
}

// commission has MAAS look at the machine's hardware.
func (f Facts) commission() Order {
	step := f.Work.Step
	leave, left := f.leave()
	switch {
	case f.Work.Canceled:
		return f.canceled()
	case leave.End:
		return leave
	case f.taken() != "":
		return end("%s", f.taken())
	case f.Locked:
		return end(lockedInMAAS)
	case f.Status == statusCommissioning && step != Commissions:
		return Order{Note: Commissions}
	case f.Status == statusCommissioning:
		return wait("MAAS commissions it")
	case f.Status == statusReady && step == Commissions:
		return f.accept()
	case step == Commissions:
		return end("its commissioning failed: it is %s in MAAS", f.State())
	case f.status().Commissions && !left:
		return leave
	case f.status().Commissions:
		return Order{Ask: AskCommission}
	}
	return end("it is %s in MAAS, which cannot be commissioned", f.State())
}
