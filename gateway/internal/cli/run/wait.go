package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const (
	endPause   = time.Second      // between two looks whether a program has ended
	quietTime  = 30 * time.Second // without a word of the end of a program whose output has ended
	pollForAll = 30 * 24 * time.Hour
	restTries  = 10 // to read the output of a program that has ended
)

// waitAll starts the program everywhere, shows what it writes, and ends with its exit code.
func (o *order) waitAll(ctx context.Context, nodes []cli.Target) error {
	failed := o.everywhere(ctx, nodes, o.waitOne)
	if ctx.Err() != nil {
		o.say("")
		o.say(o.left(len(nodes)) + "\n" + o.next(nodes))
		return &cli.EndedWith{Code: 130}
	}
	for i, err := range failed {
		var code *cli.EndedWith
		if len(nodes) > 1 && errors.As(err, &code) && code.Err == nil {
			failed[i] = fmt.Errorf("ended with exit code %d", code.Code)
		}
	}
	return o.report(ctx, nodes, failed)
}

// report tells what failed on which node. Of one node alone it is the command's error.
func (o *order) report(ctx context.Context, nodes []cli.Target, failed []error) error {
	if len(nodes) == 1 {
		return failed[0]
	}
	for i, err := range failed {
		if err != nil {
			o.Trouble(ctx, nodes[i].Name, err)
		}
	}
	if errors.Join(failed...) != nil {
		return cli.ErrReported
	}
	return nil
}

func (o *order) waitOne(ctx context.Context, node cli.Target, task api.Task) (err error) {
	if o.json {
		o.printMu.Lock()
		err = o.WriteJSON(task)
		o.printMu.Unlock()
	}
	if err != nil {
		return err
	}
	run, err := o.follow(ctx, node, task, 0)
	if err != nil {
		return err
	}
	return o.outcome(node, run)
}

// left says how the program goes on when a person does not wait for it any more.
func (o *order) left(nodes int) string {
	switch begun := int(o.begunOn.Load()); begun {
	case nodes:
		return o.name + " runs on."
	case 0:
		return o.name + " is still queued."
	default:
		return fmt.Sprintf("%s runs on where it has begun (%d of %s). On the others it is still queued.", o.name, begun,
			screen.Plural(nodes, "node"))
	}
}

// follow waits for the program to begin, and shows what it writes to its end.
func (o *order) follow(ctx context.Context, node cli.Target, task api.Task, lines int) (run wire.Run, err error) {
	heard, away := o.LastHeard(ctx, node.ID)
	if away {
		o.say(screen.Printable(node.Name) + " " + heard + ": the program begins when it is heard again; ^C leaves it queued")
	}
	task, err = ended(ctx, o.Session, task, startTime)
	if err == nil && !wire.TaskEnded(task.Status) {
		if !away {
			o.sayOf(node, o.begun(task))
		}
		task, err = ended(ctx, o.Session, task, pollForAll)
	}
	if task.Status != wire.TaskQueued {
		o.begunOn.Add(1)
	}
	if err != nil {
		return run, err
	}
	began := task.Status == wire.TaskCompleted || task.Values["state"] != nil // it ran, and may have written something
	if !began {
		return run, o.notBegun(task)
	}
	r := reader{Session: o.Session, node: node, name: o.name, lines: lines, print: o.output(node), say: o.say}
	if task.FinishedAt != nil {
		r.began = *task.FinishedAt
	}
	if err := json.Unmarshal(task.Values["task"], &r.task); err != nil {
		return run, fmt.Errorf("the node does not say which run it is: %w", err)
	}
	return r.toEnd(ctx)
}

// output prints one line of a program. What could control a terminal is escaped; into a file or a pipe the text goes as it is.
func (o *order) output(node cli.Target) func(string) error {
	prefix := ""
	if o.several {
		prefix = screen.Printable(node.Name) + ": "
	}
	return func(text string) error {
		o.printMu.Lock()
		defer o.printMu.Unlock()
		switch {
		case o.json:
			return nil
		case o.Screen() > 0 || o.several:
			text = screen.Printable(strings.ReplaceAll(text, "\t", "    "))
		}
		_, err := fmt.Fprintln(o.Stdout, prefix+text)
		return err
	}
}

// outcome is how a program ended, as an exit code of this command.
func (o *order) outcome(node cli.Target, run wire.Run) error {
	switch {
	case run.State == "":
		return cli.Hinted(o.name+" was stopped and removed by somebody else", "muster events --node "+node.Name+" says by whom")
	case run.State != wire.RunExited || run.ExitCode == nil:
		return cli.Hinted(strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", o.name, run.State, run.Why), ": "), "muster run ls "+node.Name)
	case run.Why != "":
		o.sayOf(node, run.Why)
	}
	if *run.ExitCode == 0 {
		return nil
	}
	return &cli.EndedWith{Code: *run.ExitCode}
}

// reader reads the output of one program over as many answers as that takes.
type reader struct {
	*cli.Session
	node  cli.Target
	name  string
	lines int       // only so many of those that are there; 0: all
	task  string    // that started it
	began time.Time // when that was done; what the node said before knows nothing of the program
	print func(text string) error
	say   func(text string)

	from  time.Time       // the last line of the reads before
	known map[string]bool // the lines of that time
	last  time.Time       // of the last line
	same  map[string]bool // the lines of that time
	told  bool            // that the way to the output is cut
	quiet bool            // that the node is silent

	answered func() // ends the wait of which a person is told; nil: it has not begun
}

// toEnd shows the output until the program has ended, and gives how. The state is empty if the program is not on its node any more.
func (r *reader) toEnd(ctx context.Context) (wire.Run, error) {
	for {
		err := r.read(ctx, true)
		if ctx.Err() != nil {
			return wire.Run{}, ctx.Err()
		}
		var run wire.Run
		var sure bool // that it is not there, if it was not found
		ended, failed := r.Poll(ctx, endPause, quietTime, func() (bool, error) {
			var found bool
			var asked error
			run, found, sure, asked = r.state(ctx)
			return asked == nil && found && run.State != wire.RunRunning, ctx.Err()
		})
		switch {
		case failed != nil:
			return run, failed
		case ended:
			return run, r.rest(ctx)
		case run.State == "" && err == nil && sure: // the node has said nothing of it for long, and its output has ended
			return run, nil
		case run.State == "" && !sure && !r.quiet:
			r.quiet = true
			r.say(screen.Printable(r.node.Name) + " has not said yet how " + r.name + " is: waiting for the node to report")
		case err != nil && !r.told:
			r.told = true
			r.say(screen.Printable(r.node.Name) + ": the output cannot be read now (" + screen.Printable(err.Error()) + "); trying again")
		}
	}
}

// rest shows what the reads before have missed: the way to the node may be cut just when the program ends.
func (r *reader) rest(ctx context.Context) error {
	err := r.read(ctx, false)
	for tries := 1; err != nil && tries < restTries; tries++ {
		if err := r.Pause(ctx, endPause); err != nil {
			return err
		}
		err = r.read(ctx, false)
	}
	if err != nil {
		r.say(screen.Printable(r.node.Name) + ": the output cannot be read to its end (" + screen.Printable(err.Error()) +
			"): " + r.Pasted("run logs "+r.name))
	}
	return ctx.Err()
}

// state is how the program is, as its node said last. sure is true if the node is heard from, and has said something since the program
// began.
func (r *reader) state(ctx context.Context) (run wire.Run, found, sure bool, err error) {
	node, err := cli.Get[api.Node](ctx, r.Session, api.At(api.PathNode, r.node.ID), nil)
	if err != nil {
		return run, false, false, err
	}
	for _, run := range runsOf(node) {
		if run.Task == r.task {
			return run, true, true, nil
		}
	}
	sure = node.Status == wire.StatusOnline && !node.Unheard && node.LastSeen != nil && !node.LastSeen.Before(r.began)
	return run, false, sure, nil
}

// read shows the output once: what is new since the last time. It ends when the program does, if it follows.
func (r *reader) read(ctx context.Context, follow bool) error {
	c, err := r.Client(ctx)
	if err != nil {
		return err
	}
	r.from = r.last
	r.known = r.same
	q := api.LogsQuery{Sources: []string{wire.LogWorkload + r.name}, Follow: follow, Since: r.from}
	switch {
	case r.from.IsZero() && r.lines == 0:
		q.Since = time.Unix(1, 0) // all of it
	case r.from.IsZero():
		q.Limit = r.lines
	}
	if r.answered == nil {
		r.answered = r.TellWait(ctx, r.node, follow, r.say)
		defer r.answered()
	}
	return c.NodeLogs(ctx, r.node.ID, q, r.line)
}

func (r *reader) line(l wire.LogLine) error {
	r.answered()
	switch {
	case l.Source == wire.LogGateway:
		if l.Level == "error" {
			return errors.New(l.Message)
		}
		return nil
	case l.Dropped > 0:
		lines := screen.Plural(int(l.Dropped), "older line")
		if !r.last.IsZero() {
			lines = screen.Plural(int(l.Dropped), "line")
		}
		r.say(fmt.Sprintf("[%s %s gone: %s]", lines, isAre(l.Dropped), screen.Printable(l.Message)))
		return nil
	case l.Time.Equal(r.from) && r.known[l.Message], l.Time.Before(r.from):
		return nil
	case !l.Time.Equal(r.last):
		r.last = l.Time
		r.same = map[string]bool{}
	}
	r.told = false
	r.same[l.Message] = true
	text := l.Message
	if l.Cut > 0 {
		text += fmt.Sprintf(" [%d more bytes]", l.Cut)
	}
	return r.print(text)
}

func isAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
