package wire

import (
	"slices"
	"time"
)

// Run is a program that a TaskWorkloadProcess has started on a node. A Hardware has those that run, and those that have ended and are not
// removed yet.
type Run struct {
	Name       string     `json:"name"`
	Task       string     `json:"task"`    // that started it
	Program    string     `json:"program"` // without its arguments, which may be private
	User       string     `json:"user"`
	State      string     `json:"state"`                // one of RunStates
	ExitCode   *int       `json:"exit_code"`            // null: it has not ended, or nobody knows how; 128 and the signal that ended it
	Why        string     `json:"why,omitempty"`        // what else is known of its end
	GPUs       []string   `json:"gpus"`                 // UUIDs that it was given, or all; empty: it may see all and holds none
	Allocation string     `json:"allocation,omitempty"` // that it belongs to
	StartedAt  *time.Time `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
}

// MaxRuns is how many runs a node has. The run that ended first makes room for a new one.
const MaxRuns = 32

// AllGPUs stands for each GPU of a node in a list of GPUs.
const AllGPUs = "all"

// States of a Run.
const (
	RunRunning     = "running"
	RunExited      = "exited"      // by itself
	RunStopped     = "stopped"     // somebody ended it
	RunInterrupted = "interrupted" // the machine went down, or its keeper did: nobody knows how it ended
)

// RunStates returns the states of a Run.
func RunStates() []string { return []string{RunRunning, RunExited, RunStopped, RunInterrupted} }

// Holds reports whether the run keeps a GPU for itself.
func (r Run) Holds(uuid string) bool {
	return r.State == RunRunning && (slices.Contains(r.GPUs, uuid) || slices.Contains(r.GPUs, AllGPUs))
}
