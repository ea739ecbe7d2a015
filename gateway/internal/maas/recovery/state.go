// Package recovery says what follows from what MAAS and muster say of one machine: its state, the next step of what is done with it, and
// what is wrong where the two sides disagree. It is pure: the same facts give the same answer.
package recovery

import (
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/maas/region"
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
	Now      time.Time
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

// Held is true in the statuses in which MAAS keeps the agent name of who acquired the machine.
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

// State is the machine's state in the words of machines.Machine.
func (f Facts) State() string {
	if f.Gone {
		return machines.StateGone
	}
	switch f.Status {
	case statusDeployed:
		if f.works() {
			return machines.StateDeployed
		}
		return machines.StateInstalled
	case statusMissing, statusRetired, statusBroken:
		return machines.StateBroken
	case statusTesting:
		return machines.StateTesting
	}
	switch f.status().State {
	case region.Uncommissioned:
		return machines.StateNew
	case region.Commissioning:
		return machines.StateCommissioning
	case region.Ready:
		return machines.StateReady
	case region.Held:
		return machines.StateAllocated
	case region.Deploying:
		return machines.StateDeploying
	case region.Releasing:
		return machines.StateReleasing
	case region.Failed:
		return machines.StateFailed
	case region.Away:
		return machines.StateRescue
	}
	return machines.StateUnknown
}

// works is true for a node whose agent was heard since it enrolled, and that is in no other hands since.
func (f Facts) works() bool {
	n := f.Node
	if n == nil || n.EnrolledAt == nil || n.LastSeen == nil || n.LastSeen.Before(*n.EnrolledAt) {
		return false
	}
	return f.working()
}

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

// beats is how many intervals a node may be silent.
const beats = 3

// reports is true for a node that was heard a moment ago.
func (f Facts) reports() bool {
	return f.works() && f.Now.Sub(*f.Node.LastSeen) <= beats*max(f.Node.Interval, 30*time.Second)
}

// joined is true if the agent of what the work installs was heard.
func (f Facts) joined() bool { return f.works() && !f.Node.EnrolledAt.Before(f.Work.Begun) }
