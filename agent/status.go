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

func (p program) status(args []string) error {
	f := p.flags("status", "Prints what the agent on this machine is doing. Exit status 1: it is not online.", statusExamples)
	state := f.String("state", p.statePath(), "state `DIR`")
	output := f.String("o", "table", "`FORMAT`: table or json")
	if err := f.parse(args); err != nil {
		return err
	}
	if *output != "table" && *output != "json" {
		return usagef("-o is table or json")
	}
	s, err := identity.ReadStatus(*state)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("no agent has run on %s: give --state where it keeps its state%s", *state, p.asRoot("status"))
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
	if err == nil {
		err = p.notOnline(s, running, *state)
	}
	return err
}

// notOnline ends status where the gateway does not hear from this node, with what to do about it.
func (p program) notOnline(s identity.Status, running bool, state string) error {
	switch {
	case !running:
		return fmt.Errorf("the agent does not run: start it with: %s", p.startHint(state, s.Gateway))
	case s.Phase == identity.PhaseOnline:
		return nil
	case s.Phase == identity.PhaseRefused:
		return errors.New("the gateway refuses this node: an operator has to act, as the last error says")
	}
	return fmt.Errorf("the node is not online: %s", away(s, time.Now()))
}

// away says since when the gateway has not heard from this node.
func away(s identity.Status, now time.Time) string {
	if s.LastOnline == nil {
		return "it was not online yet; the agent was started at " + ago(s.Since, now)
	}
	return "it was last online at " + ago(*s.LastOnline, now)
}

func ago(t, now time.Time) string {
	return fmt.Sprintf("%s (%s ago)", t.UTC().Format(time.RFC3339), max(now.Sub(t), 0).Round(time.Second))
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
	phase := phaseWords(s)
	if !running {
		phase = "not running (was " + s.Phase + ")"
	}
	absence := ""
	if !running || s.Phase != identity.PhaseOnline {
		absence = away(s, time.Now())
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
		{"status", phase}, {"away", absence},
		{"node", strings.TrimSpace(s.Name + " " + s.NodeID)}, {"tenant", s.Tenant}, {"state", stateWords(s)},
		{"gateway", s.Gateway}, {"transport", s.Transport}, {"certificate", certificate}, {"clock", clockWords(s)},
		{"gpus", s.GPUs}, {"last contact", contact}, {"last error", s.LastError}, {"started", s.Since.Format(time.RFC3339)},
		{"version", s.Version}, {"notices", strings.Join(s.Notices, "; ")},
	} {
		if line[1] != "" {
			fmt.Fprintf(p.stdout, "%-13s %s\n", line[0], line[1])
		}
	}
}
