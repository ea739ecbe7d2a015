// Package recovery says what follows from what MAAS and muster say of one machine: its state, the next step of what is done with it, and
// what is wrong where the two sides disagree. It is pure: the same facts give the same answer.
package recovery

import (
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/maas/region"
	"muster/store"
	records "muster/store/maas"
)

// Facts are what is known of one machine at one moment.
type Facts struct {
	Machine
	Node     *records.Node // nil: it is none
	Work     *records.Work // nil: nothing is done with it
	Ended    string        // why the last work failed; empty: it did not
	KeptOut  bool          // a person has taken it out of muster
	Profiles []string      // the names of all that there are, sorted
	Defined  bool          // MAAS itself sets the tag of the node's profile
	Wrote    string        // the tag of a profile that muster wrote to it last, and that MAAS does not set itself; empty: none
	Old      bool          // MAAS is not seen now: what it said is shown, and nothing follows from it
	Now      time.Time
	Ref      store.StatusRef // by which its node is online, at Now
}

// Machine is what MAAS says.
type Machine struct {
	Status int
	Owner  string // empty: nobody
	Ours   bool   // the owner is the user of our key
	Unsure bool   // whose it is cannot be said: the user of our key is not known
	Mine   bool   // it was acquired for the Work: its agent name says so
	Locked bool
	Power  string
	Tags   []string
	Error  string
	Since  time.Time // since when it has this status
	Gone   bool      // MAAS has it no more
	Twin   string    // system id of a machine that is there, and is the same by its firmware or its interfaces; empty: there is none

	Acquired bool // a work of this gateway acquired it, this one or an earlier one
}

func (m Machine) status() region.Status { return region.StatusOf(m.Status) }

// foreign is true for a machine that somebody else has.
func (m Machine) foreign() bool { return m.Owner != "" && !m.Ours && !m.Unsure }

// Held reports whether MAAS, in this status, keeps the agent name of whoever acquired the machine.
func (m Machine) Held() bool {
	switch m.Status {
	case statusReserved, statusDeployed, statusDeploying, statusAllocated, statusFailedDeployment:
		return true
	}
	return false
}

// elsewhere is true for a machine that was acquired with our key, and by no work of this gateway: another gateway has it, or a person.
func (m Machine) elsewhere() bool {
	switch m.Status {
	case statusNew, statusCommissioning, statusNotCommissioned, statusMissing, statusReady, statusRetired, statusTesting, statusNotTested:
		return false // MAAS makes who looks at the hardware the owner for that time
	}
	return m.Ours && !m.Mine && !m.Acquired
}

// Numbers of MAAS's statuses which more than the table of package region must tell apart.
const (
	statusNew              = 0
	statusCommissioning    = 1
	statusNotCommissioned  = 2
	statusMissing          = 3
	statusReady            = 4
	statusReserved         = 5
	statusDeployed         = 6
	statusRetired          = 7
	statusBroken           = 8
	statusDeploying        = 9
	statusAllocated        = 10
	statusFailedDeployment = 11
	statusReleasing        = 12
	statusFailedReleasing  = 13
	statusErasing          = 14
	statusFailedErasing    = 15
	statusTesting          = 21
	statusNotTested        = 22
)

// Empty reports whether a machine can have nothing of a tenant on it: nobody has it, and its node was not at work since.
func (f Facts) Empty() bool {
	isFree := f.Owner == "" || slices.Contains([]int{statusNew, statusCommissioning, statusNotCommissioned, statusReady}, f.Status)
	return isFree && (f.Node == nil || f.in(wire.StateCommissioned) || f.in(wire.StateReady) || f.in(wire.StateRetired))
}

// Erases reports whether MAAS erases its disks.
func (m Machine) Erases() bool { return m.Status == statusErasing }

// unerased is true for a machine whose disks the work was to have erased, where MAAS did not do so as far as was seen.
func (f Facts) unerased() bool { return f.Work.Erase && !f.Work.Erasing }

// State returns the machine's state in the words of machines.Machine.
func (f Facts) State() string {
	if f.Gone {
		return machines.StateGone
	}
	if f.Status == statusDeployed && f.works() {
		return machines.StateDeployed
	}
	return f.status().State
}

// works is true for a node whose agent was heard since it enrolled, and that is in no other hands since.
func (f Facts) works() bool {
	n := f.Node
	if n == nil || n.EnrolledAt == nil {
		return false
	}
	if n.State == wire.StateActive { // a heartbeat has made it so; its time is on record some seconds later
		return true
	}
	return n.LastSeen != nil && !n.LastSeen.Before(*n.EnrolledAt) && f.working()
}

// away is true for a machine that people have taken out of MAAS's use: nothing there gives it back.
func (f Facts) away() bool { return f.Status == statusMissing || f.Status == statusRetired }

// working is true for a node that has an agent, by its state.
func (f Facts) working() bool {
	if f.Node == nil {
		return false
	}
	switch f.Node.State {
	case wire.StateActive, wire.StateDrained, wire.StateUnavailable, wire.StateEnrolled:
		return true
	}
	return false
}

// shortest is the interval that a node has at least, between its heartbeats.
const shortest = 30 * time.Second

// reports is true for a node that was heard a moment ago.
func (f Facts) reports() bool {
	status, heard := f.online()
	return status == store.StatusOnline && f.Ref.Heard(heard)
}

// silent is true for a node that was at work, and is not heard any more. The time in which the gateway was away does not count.
func (f Facts) silent() bool {
	status, _ := f.online()
	return status == store.StatusStale
}

// online is the status of a node that works, and when it was heard. Its enrolment counts too.
func (f Facts) online() (status string, heard time.Time) {
	if !f.works() {
		return store.StatusPending, heard
	}
	heard = *f.Node.EnrolledAt
	if seen := f.Node.LastSeen; seen != nil && seen.After(heard) {
		heard = *seen
	}
	ref := f.Ref
	ref.Now = f.Now
	return ref.Status(f.Node.State, &heard, max(f.Node.Interval, shortest)), heard
}

// joined is true if the agent of what the work installs was heard.
func (f Facts) joined() bool { return f.works() && !f.Node.EnrolledAt.Before(f.Work.Begun) }
