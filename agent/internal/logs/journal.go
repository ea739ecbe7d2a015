package logs

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"muster/agent/internal/child"
	"muster/agent/wire"
)

const (
	// answerTime is for a question to journalctl or systemctl. A long journal on a slow disk takes a while.
	answerTime = 20 * time.Second

	journalPlace = "journal:"
)

// openBoot reads all that the journal has of this boot. A reader that goes on after a restart of the machine also gets what came between.
func (h Host) openBoot(ctx context.Context, ask Ask) (feed, error) {
	_, err := h.probe(ctx, nil)
	return h.journal(ask, nil), err
}

// openUnit reads what a unit has logged, in all boots that the journal has.
func (h Host) openUnit(ctx context.Context, ask Ask, unit string) (feed, error) {
	choice := []string{"--unit=" + unit}
	if h.User {
		choice = append(choice, "--user-unit="+unit)
	}
	found, err := h.probe(ctx, choice)
	if err == nil && !found {
		err = h.knowsUnit(ctx, unit)
	}
	return h.journal(ask, choice), err
}

// probe asks for one line, to tell at once if there is no journal.
func (h Host) probe(ctx context.Context, choice []string) (found bool, err error) {
	answer, complaint, err := question(ctx, "journalctl", append([]string{"--no-pager", "--output=json", "--lines=1"}, choice...)...)
	return strings.HasPrefix(answer, "{"), journalTrouble(answer, complaint, err)
}

// journalArgs ask for the lines behind a place, else for those of a time, else for those of this boot. Those of a unit may be older.
func journalArgs(ask Ask, choice []string) []string {
	args := append([]string{"--no-pager", "--quiet", "--all", "--output=json"}, choice...)
	cursor, known := strings.CutPrefix(ask.After, journalPlace)
	known = known && cursor != "" && !strings.ContainsAny(cursor, "\x00\n")
	switch {
	case known:
		args = append(args, "--after-cursor="+cursor)
	case !ask.Since.IsZero():
		args = append(args, "--since=@"+strconv.FormatInt(ask.Since.Unix(), 10))
	}
	if !known && !strings.HasPrefix(ask.Source, wire.LogUnit) {
		args = append(args, "--boot")
	}
	if ask.Follow {
		args = append(args, "--follow", "--no-tail")
	}
	return args
}

func (h Host) journal(ask Ask, choice []string) feed {
	c := child.Command{Program: "journalctl", Args: journalArgs(ask, choice), Env: toolEnv()}
	p := program{command: c, lines: &journalCutter{}}
	started := ask.After != ""
	return func(ctx context.Context, give func(entry) error) error {
		complaint, err := p.run(ctx, func(l one) error {
			e, ok := parseJournal(l)
			if !ok || !started && e.at.Before(ask.Since) {
				return nil
			}
			started = true
			return give(e)
		})
		switch {
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case err != nil:
			return journalTrouble("", complaint, err)
		case ask.Follow:
			return errors.New("journalctl has ended by itself: read the log again")
		}
		return nil
	}
}

// question runs a program of the machine to its end. What it says is bounded.
func question(ctx context.Context, name string, args ...string) (answer, complaint string, err error) {
	ctx, done := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("no answer within %s", answerTime))
	defer done()
	printed := child.Bounded{Most: maxComplaint}
	said := child.Bounded{Most: maxComplaint}
	err = child.Run(ctx, child.Command{Program: name, Args: args, Env: toolEnv(), Stdout: &printed, Stderr: &said, Grace: stopTime})
	return strings.TrimSpace(string(printed.Kept)), strings.TrimSpace(string(said.Kept)), err
}

// toolEnv has programs speak plain English, without colors and pages.
func toolEnv() []string {
	return append(child.Environ(), "LC_ALL=C", "LANGUAGE=C", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=", "SYSTEMD_URLIFY=0")
}

// journalTrouble says why the journal cannot be read, and what to do; nil: it can.
func journalTrouble(answer, complaint string, err error) error {
	none := !strings.HasPrefix(answer, "{")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return wire.Refuse(wire.CodeNotFound, "journalctl is not on this node, so it has no journal that could be read",
			"read the source agent, kernel or workload:NAME")
	case none && (strings.Contains(complaint, "insufficient permissions") || strings.Contains(complaint, "messages from other users")):
		return wire.Refuse(wire.CodeForbidden, "the agent's user may not read the journal of this node",
			"usermod --append --groups systemd-journal USER, then start the agent again")
	case none && strings.Contains(complaint, "No journal files were found"):
		return wire.Refuse(wire.CodeNotFound, "this node keeps no journal",
			"systemctl status systemd-journald on the node says why; or read the source agent, kernel or workload:NAME")
	case err != nil && complaint != "":
		return fmt.Errorf("%w: %s", err, wire.OneLine(complaint, 300))
	}
	return err
}

// knowsUnit refuses a unit of which the journal has nothing and systemd does not know. If systemd cannot be asked, every unit may be.
func (h Host) knowsUnit(ctx context.Context, unit string) error {
	ask := []string{"show", "--property=LoadState", "--", unit}
	asks := [][]string{ask}
	if h.User {
		asks = append(asks, append([]string{"--user"}, ask...))
	}
	for _, args := range asks {
		said, _, err := question(ctx, "systemctl", args...)
		if err != nil || !strings.Contains(said, "LoadState=not-found") {
			return nil
		}
	}
	return wire.Refuse(wire.CodeNotFound, "there is no unit "+unit+" on this node, and the journal has nothing of it",
		"systemctl list-units --all on the node shows the names")
}
