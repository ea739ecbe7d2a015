package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"muster/agent/internal/identity"
)

const statusExamples = `  muster-agent status
  muster-agent status -o json
  muster-agent status --state ~/.local/state/muster-agent
`

// errNotRunning ends status where nobody holds the state directory's lock.
var errNotRunning = errors.New("the agent is not running: start it with muster-agent run, or its service")

func (p program) status(args []string) error {
	f := p.flags("status", "Prints what the agent on this machine is doing. Exit status 1: it is not running.", statusExamples)
	state := f.String("state", p.statePath(), "state `DIR`")
	output := f.String("o", "table", "`FORMAT`: table or json")
	if err := f.parse(args); err != nil {
		return err
	}
	if *output != "table" && *output != "json" {
		return usagef("-o is table or json")
	}
	s, err := identity.ReadStatus(*state)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no agent has run on %s: give --state where it keeps its state", *state)
	}
	if err != nil {
		return err
	}
	running := identity.Running(*state)
	if *output == "json" {
		err = p.printJSON(s, running)
	} else {
		p.printStatus(s, running)
	}
	if err == nil && !running {
		err = errNotRunning
	}
	return err
}

func (p program) printJSON(s identity.Status, running bool) error {
	encoder := json.NewEncoder(p.stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Running bool `json:"running"`
		identity.Status
	}{running, s})
}

func (p program) printStatus(s identity.Status, running bool) {
	phase := s.Phase
	if !running {
		phase = "not running (was " + s.Phase + ")"
	}
	skew := ""
	if off := time.Duration(s.SkewMillis) * time.Millisecond; off.Abs() >= time.Second {
		skew = "the gateway's is " + off.Round(time.Second).String() + " ahead"
	}
	certificate := ""
	if s.NotAfter != nil {
		certificate = fmt.Sprintf("generation %d, until %s", s.Generation, s.NotAfter.UTC().Format(time.RFC3339))
	}
	contact := "never"
	if s.LastContact != nil {
		contact = s.LastContact.Format(time.RFC3339)
	}
	for _, line := range [][2]string{
		{"status", phase}, {"node", strings.TrimSpace(s.Name + " " + s.NodeID)}, {"tenant", s.Tenant}, {"state", s.State},
		{"gateway", s.Gateway}, {"transport", s.Transport}, {"certificate", certificate}, {"clock", skew},
		{"gpus", s.GPUs}, {"last contact", contact}, {"last error", s.LastError}, {"since", s.Since.Format(time.RFC3339)},
		{"version", s.Version}, {"notices", strings.Join(s.Notices, "; ")},
	} {
		if line[1] != "" {
			fmt.Fprintf(p.stdout, "%-13s %s\n", line[0], line[1])
		}
	}
}
