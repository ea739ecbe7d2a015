package identity

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"muster/agent/disk"
)

// Phases of a running agent.
const (
	PhaseEnrolling = "enrolling" // no identity yet
	PhaseOnline    = "online"    // the last heartbeat was accepted
	PhaseRetrying  = "retrying"  // the last heartbeat was not accepted; the agent tries again
	PhaseRefused   = "refused"   // the gateway refuses this node for good
	PhaseCrashing  = "crashing"  // the agent ended, and its supervisor will start it again
)

// Status is what a running agent says about itself to the users of this machine. It holds no secrets.
type Status struct {
	PID         int        `json:"pid"`
	Version     string     `json:"version"`
	Phase       string     `json:"phase"`
	NodeID      string     `json:"node_id,omitempty"`
	Name        string     `json:"name,omitempty"`
	Tenant      string     `json:"tenant,omitempty"`
	Gateway     string     `json:"gateway"`
	Through     string     `json:"through,omitempty"`       // the gateway that leads to it now, if that is another one
	Transport   string     `json:"transport,omitempty"`     // mtls, signed, or curl (signed, through that)
	State       string     `json:"state,omitempty"`         // of the node, as the gateway said last
	Reasons     []string   `json:"state_reasons,omitempty"` // what holds it there
	GPUs        string     `json:"gpus,omitempty"`          // what the last look at them gave, for a person; empty before it
	Since       time.Time  `json:"since"`                   // when this agent started
	LastContact *time.Time `json:"last_contact"`            // the last proven answer
	LastOnline  *time.Time `json:"last_online"`             // the last heartbeat that was accepted, in this run or an earlier one
	LastError   string     `json:"last_error,omitempty"`
	NotAfter    *time.Time `json:"certificate_not_after"`
	Generation  int        `json:"generation,omitempty"`
	SkewMillis  int64      `json:"skew_ms"` // the gateway's clock minus this machine's
	Notices     []string   `json:"notices,omitempty"`
}

// SaveStatus replaces status.json. It does not wait for the disk, because the next status comes soon.
func (d *Directory) SaveStatus(s Status) error {
	raw, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return explain(d.path, disk.ReplaceSoon(filepath.Join(d.path, StatusFile), append(raw, '\n'), 0o644))
}

// WriteStatus does what SaveStatus does, for a supervisor, while no agent is at work on the directory. It does not take the lock, because a
// held lock means that an agent runs.
func WriteStatus(path string, s Status) error { return (&Directory{path: path}).SaveStatus(s) }

// ReadStatus reads what the agent on a state directory wrote last, whether or not it still runs.
func ReadStatus(path string) (Status, error) {
	file := filepath.Join(path, StatusFile)
	raw, err := os.ReadFile(file)
	if err != nil {
		return Status{}, err
	}
	var s Status
	if err := json.Unmarshal(raw, &s); err != nil {
		return Status{}, broken(file, err)
	}
	return s, nil
}
