// Package machines has the shapes of the admin API that are about MAAS and its machines.
package machines

import "time"

// State is how the gateway stands with MAAS.
type State struct {
	Enabled  bool       `json:"enabled"` // the setting maas.enabled
	URL      string     `json:"url"`
	Version  string     `json:"version"` // of MAAS; empty: not known
	SyncedAt *time.Time `json:"synced_at"`
	Restored bool       `json:"restored"`  // the view is of before the gateway's start
	FailedAt *time.Time `json:"failed_at"` // since when its machines cannot be seen; null: they can
	Error    string     `json:"error"`
	Known    bool       `json:"known"`    // the view is of now
	AskedAt  *time.Time `json:"asked_at"` // since when a view is taken; null: none is
	NextAt   *time.Time `json:"next_at"`  // when the next one is taken; null: one is taken, or that is not known
}

// Machine is a machine as MAAS shows it, beside what muster knows of it.
type Machine struct {
	SystemID  string     `json:"system_id"`
	Hostname  string     `json:"hostname"`
	Status    int        `json:"status"`      // of MAAS
	StatusRaw string     `json:"status_name"` // in MAAS's words
	State     string     `json:"state"`       // in ours: one of States
	Power     string     `json:"power"`
	Owner     string     `json:"owner"`
	Locked    bool       `json:"locked"`
	Tags      []string   `json:"tags"`
	Series    string     `json:"series"` // of the system that is installed
	Pool      string     `json:"pool"`
	Zone      string     `json:"zone"`
	CPUs      int        `json:"cpus"`
	MemoryMiB int64      `json:"memory_mib"`
	Error     string     `json:"error"` // that MAAS tells
	SeenAt    time.Time  `json:"seen_at"`
	Node      string     `json:"node"` // name; empty: there is none
	NodeID    string     `json:"node_id"`
	NodeState string     `json:"node_state"`
	Heard     string     `json:"node_status"` // of the node
	Profile   string     `json:"profile"`
	Work      *Work      `json:"work"`     // what muster does with it now; null: nothing
	Ended     *Ended     `json:"ended"`    // how the last that was done with it ended; null: nothing was
	Finding   string     `json:"finding"`  // in what the two sides disagree; empty: in nothing
	Next      string     `json:"next"`     // what is about to be done, or what a person must do
	Deadline  *time.Time `json:"deadline"` // of the work
}

// States of a Machine, in our words.
const (
	StateNew           = "new"
	StateCommissioning = "commissioning" // it is switched on and looked at
	StateReady         = "ready"         // its hardware is known, and nobody has it
	StateAllocated     = "allocated"     // somebody has it, and it is not installed
	StateDeploying     = "deploying"     // its system is installed
	StateDeployed      = "deployed"      // its agent reports
	StateInstalled     = "installed"     // MAAS calls it deployed, and its agent was not heard since
	StateReleasing     = "releasing"
	StateFailed        = "failed"
	StateBroken        = "broken"
	StateRescue        = "rescue"
	StateTesting       = "testing"
	StateGone          = "gone"
	StateUnknown       = "unknown"
)

// States are all of them.
func States() []string {
	return []string{StateNew, StateCommissioning, StateReady, StateAllocated, StateDeploying, StateDeployed, StateInstalled, StateReleasing,
		StateFailed, StateBroken, StateRescue, StateTesting, StateGone, StateUnknown}
}

// Work is what muster does with a machine until it is done.
type Work struct {
	Act       string     `json:"act"` // one of the MAASActs
	Step      string     `json:"step"`
	Since     time.Time  `json:"since"`
	Tries     int        `json:"tries"`
	TryAt     *time.Time `json:"try_at"`
	Why       string     `json:"why"` // why the last try did not work
	By        string     `json:"by"`
	Profile   string     `json:"profile"` // that its node gets first; empty: it keeps its own
	Reimage   bool       `json:"reimage"`
	Erase     bool       `json:"erase"`
	Allocates string     `json:"allocation"` // that it is for
}

// Ended is how something that was done with a machine ended. A deployment is done when the agent is heard, a commissioning when there is a
// node, and a release when the machine, and its node with it, is ready.
type Ended struct {
	Act string    `json:"act"`
	At  time.Time `json:"at"`
	Why string    `json:"why"` // it did not succeed; empty: it did

	Canceled bool `json:"canceled"` // a person ended it, and nothing is left of it
}

// Acts on a machine.
const (
	ActDeploy       = "deploy"
	ActRelease      = "release"      // back to ready
	ActReset        = "reset"        // of a failed or broken machine, to ready
	ActDecommission = "decommission" // out of muster: its node ends, and MAAS looks at it again or keeps it as it is
	ActCommission   = "commission"
	ActCancel       = "cancel" // ends what goes on with a machine
)

// FindingElsewhere is the Finding of a machine that another gateway has, or a person with muster's key.
const FindingElsewhere = "acquired_elsewhere"

// Conditions of which people are told.
const (
	ToldSevere  = "machine_severe"
	ToldWarning = "machine_warning"
	ToldUnseen  = "maas_unseen"
)

// List answers GET maas/machines.
type List struct {
	MAAS     State     `json:"maas"`
	Machines []Machine `json:"machines"`
}

// Act does something with machines.
type Act struct {
	Act      string   `json:"act"`
	Machines []string `json:"machines"` // system ids, hostnames, or names of nodes
	Series   string   `json:"series,omitempty"`
	Profile  string   `json:"profile,omitempty"` // assigned first
	Tenant   string   `json:"tenant,omitempty"`
	Erase    *bool    `json:"erase,omitempty"`   // null: as its profile says
	Reimage  bool     `json:"reimage,omitempty"` // deploy it although it is deployed
	Force    bool     `json:"force,omitempty"`   // although its node works
	DryRun   bool     `json:"dry_run,omitempty"`
}

// Acted answers a Act: a line for each machine.
type Acted struct {
	Machines []Machine         `json:"machines"`
	Refused  map[string]string `json:"refused"` // by the name that was given
}

// Step is one thing that the next round does, or that a person must do.
type Step struct {
	SystemID string `json:"system_id"`
	Hostname string `json:"hostname"`
	Node     string `json:"node"`
	Finding  string `json:"finding"` // name of the row of the recovery table
	Text     string `json:"text"`
	Does     string `json:"does"` // what muster does by itself; empty: nothing
	Next     string `json:"next"` // what a person does; empty: nothing
	Severity string `json:"severity"`
}

// Plan answers GET maas/plan.
type Plan struct {
	MAAS  State  `json:"maas"`
	Steps []Step `json:"steps"`
}
