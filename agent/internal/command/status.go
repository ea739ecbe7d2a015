package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/update"
	"muster/agent/wire"
)

const statusExamples = `  muster-agent status
  muster-agent status -o json
  muster-agent status --state ~/.local/state/muster-agent
`

// Status runs the command status. It reads only the status file and the lock, and never asks the gateway or the agent: so it answers at
// once, whatever those two do.
func Status(_ context.Context, p Program, args []string) error {
	o := struct{ State, O string }{p.StatePath(), Table}
	err := p.Flags("status", "Prints what the agent on this machine is doing. Exit status 1: it is not online.", statusExamples,
		stateFlag(""), outputFlag("FORMAT: table or json")).Parse(args, &o)
	if err != nil {
		return err
	}
	if err := CheckFormat(o.O); err != nil {
		return err
	}
	s, err := identity.ReadStatus(o.State)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // without permission: the agent of root, in most cases
		return fmt.Errorf("no agent has run on %s: give --state where it keeps its state%s", o.State, p.AsRoot("status"))
	}
	if err != nil {
		return err
	}
	record, unread := update.Read(o.State)
	if unread != nil {
		s.Notices = append(s.Notices, "what is known of updates cannot be read: "+unread.Error())
	}
	running := identity.Running(o.State) // the lock decides: a killed agent leaves its last status behind
	if o.O == JSON {
		err = printJSON(p, s, running, record)
	} else {
		printStatus(p.Stdout, s, running, record)
	}
	if err == nil {
		err = notOnline(p, s, running, o.State)
	}
	return err
}

// notOnline is the error where the gateway does not hear from this node. It says what to do. Scripts go by its exit status.
func notOnline(p Program, s identity.Status, running bool, state string) error {
	switch {
	case !running:
		return fmt.Errorf("the agent does not run: start it with: %s", p.StartHint(state, s.Gateway))
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

// ago writes a time, and how long ago it was. A time that seems to lie ahead counts as now.
func ago(t, now time.Time) string {
	return fmt.Sprintf("%s (%s ago)", t.UTC().Format(time.RFC3339), max(now.Sub(t), 0).Round(time.Second))
}

func printJSON(p Program, s identity.Status, running bool, record update.Record) error {
	return p.PrintJSON(struct {
		Running bool `json:"running"`
		identity.Status
		Update *wire.Update `json:"update,omitempty"`
	}{running, s, updateJSON(record)})
}

// printStatus prints the lines that have something to say. For an agent that does not run they say what was true last.
func printStatus(to io.Writer, s identity.Status, running bool, record update.Record) {
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
		{"gateway", s.Gateway}, {"through", s.Through}, {"transport", s.Transport}, {"certificate", certificate}, {"clock", clockWords(s)},
		{"gpus", s.GPUs}, {"last contact", contact}, {"last error", s.LastError}, {"started", s.Since.Format(time.RFC3339)},
		{"version", s.Version}, {"channel", channelWords(record)}, {"update", updateWords(record.Last)},
		{"notices", strings.Join(s.Notices, "; ")},
	} {
		if line[1] != "" {
			fmt.Fprintf(to, "%-13s %s\n", line[0], line[1])
		}
	}
}
