package placement

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const (
	checkPause = time.Second
	usualCheck = 30 * time.Minute // until a check counts as one that does not come
)

// checkFlags are those of node check.
type checkFlags struct {
	Accept       bool
	Image, Login string
	Timeout      time.Duration
}

// nodeCheck starts a check, waits for its evidence and shows it. It fails where something is missing that the profile asks for.
func nodeCheck(ctx context.Context, s *cli.Session, o checkFlags) error {
	q := api.CheckRequest{Accept: o.Accept, Image: o.Image, Command: s.Behind, Login: o.Login}
	switch {
	case len(q.Command) > 0 && q.Image == "":
		return cli.Usagef("add --image HOST/PATH@sha256:DIGEST", "the program runs in a container, and no image is named")
	case q.Image != "" && !o.Accept:
		return cli.Usagef("add --accept", "an image is for an acceptance")
	}
	node := cli.Target{ID: s.Words[0], Name: s.Words[0]}
	before, err := evidenceOf(ctx, s, node)
	if err != nil {
		return err
	}
	started, err := cli.Send[api.CheckStarted](ctx, s, http.MethodPost, api.At(api.PathCheck, node.ID), q)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Stderr, "task %s looks at %s\n", screen.Printable(started.Task), screen.Printable(node.Name))
	e, err := awaitEvidence(ctx, s, node, before, started.Task, o.Timeout)
	lacks := e.Missing
	if err == nil && o.Accept {
		lacks = append(slices.Clone(lacks), unaccepted(e)...)
	}
	switch {
	case ctx.Err() != nil:
		s.Say("The check goes on. muster node show " + node.Name + " shows what it has found.")
		return ctx.Err()
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		err = s.WriteJSON(e)
	default:
		e.Missing = lacks
		err = showEvidence(s, e)
	}
	if err == nil && len(lacks) > 0 {
		err = cli.ErrReported
	}
	return err
}

// unaccepted are the checks of an acceptance that are not ok, one line each, beside those that are missing anyway.
func unaccepted(e api.NodeEvidence) (lines []string) {
	for _, c := range e.Evidence.Checks {
		isMissing := slices.ContainsFunc(e.Missing, func(line string) bool { return strings.HasPrefix(line, c.Name+":") })
		if slices.Contains(wire.AcceptChecks(), c.Name) && c.State != wire.CheckOK && !isMissing {
			lines = append(lines, c.Name+": "+c.State+": "+c.Saw)
		}
	}
	return lines
}

func evidenceOf(ctx context.Context, s *cli.Session, node cli.Target) (api.NodeEvidence, error) {
	return cli.Get[api.NodeEvidence](ctx, s, api.At(api.PathCheck, node.ID), nil)
}

// awaitEvidence waits until there is evidence that was not there before, or until the task has ended without any.
func awaitEvidence(ctx context.Context, s *cli.Session, node cli.Target, before api.NodeEvidence, task string,
	timeout time.Duration) (e api.NodeEvidence, err error) {
	timeout = cmp.Or(timeout, usualCheck)
	told := s.TellWait(ctx, node, true, func(text string) { fmt.Fprintln(s.Stderr, text) })
	defer told()
	came, err := s.Poll(ctx, checkPause, timeout, func() (bool, error) {
		if e, err = evidenceOf(ctx, s, node); err != nil {
			return false, err
		}
		if e.At != nil && (before.At == nil || e.At.After(*before.At)) && e.Pending != task {
			return true, nil
		}
		if e.Pending == task {
			return false, nil
		}
		return false, failed(ctx, s, task)
	})
	if err == nil && !came {
		err = cli.Hinted(fmt.Sprintf("after %s, %s has not been looked at", screen.Age(timeout), node.Name),
			"muster task show "+task+" says how far it is; muster node show "+node.Name+" whether it is heard from")
	}
	return e, err
}

// failed is the error of a task that has ended without what was asked for; nil: it has not, or this account may not look at tasks.
func failed(ctx context.Context, s *cli.Session, id string) error {
	t, err := cli.Get[api.Task](ctx, s, api.At(api.PathTask, id), nil)
	if err != nil || !wire.TaskEnded(t.Status) || t.Status == wire.TaskCompleted {
		return nil
	}
	return cli.Hinted(fmt.Sprintf("the check is %s: %s", t.Status, t.Error), "muster task show "+id)
}

// showEvidence prints the newest evidence of a node: each check, the figures beside those of its kind, its tags, and what is missing.
func showEvidence(s *cli.Session, e api.NodeEvidence) error {
	profile := cmp.Or(e.Profile, "no profile")
	s.Printf("%s: %s, looked at %s in %s\n\n", screen.OrUnknown(e.Node), profile, screen.Stamp(e.At),
		screen.Age(time.Duration(e.Evidence.TookMS)*time.Millisecond))
	checks := []screen.Column{{Name: "CHECK"}, {Name: "STATE"}, {Name: "SAW", Least: 16}}
	err := s.List(checks).Write(cli.Rows(e.Evidence.Checks, func(c wire.Check) []string {
		return []string{c.Name, c.State, c.Saw}
	}))
	if err == nil && len(e.Figures) > 0 {
		fmt.Fprintln(s.Stdout)
		figures := []screen.Column{{Name: "FIGURE", Least: 8}, {Name: "VALUE"}, {Name: "MEDIAN"}, {Name: "OF", Rank: 1}}
		err = s.List(figures).Write(cli.Rows(e.Figures, figureRow))
	}
	if err == nil && len(e.Tags) > 0 {
		fmt.Fprintln(s.Stdout)
		tags := []screen.Column{{Name: "TAG", Least: 12}, {Name: "FROM", Least: 16}}
		err = s.List(tags).Write(cli.Rows(e.Tags, func(t api.Tag) []string {
			return []string{t.Name, t.From}
		}))
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(s.Stdout)
	return conclude(s, e)
}

func figureRow(f api.FigureBeside) []string {
	return []string{f.Name, amount(&f.Value, f.Unit), amount(f.Median, f.Unit), screen.Plural(f.Of, "node")}
}

// amount is a figure with its unit. Of a large one only whole numbers are shown.
func amount(value *float64, unit string) string {
	if value == nil {
		return screen.Unknown
	}
	format := "%.4g %s"
	if *value >= 1000 {
		format = "%.0f %s"
	}
	return strings.TrimSpace(fmt.Sprintf(format, *value, screen.Printable(unit)))
}

// conclude says what is missing, and the next step.
func conclude(s *cli.Session, e api.NodeEvidence) error {
	for _, line := range e.Missing {
		fmt.Fprintln(s.Stdout, "missing: "+screen.Printable(line))
	}
	switch {
	case len(e.Missing) > 0:
		s.Printf("muster help placement explains the checks. When that is mended: muster node check %s\n", e.Node)
	case e.Profile == "":
		s.Printf("It has no profile, so it gives no slots: muster profile assign PROFILE %s\n", e.Node)
	default:
		s.Printf("Nothing is missing. Its slots: muster slot ls --node %s\n", e.Node)
	}
	return nil
}
