package run

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/cli/work"
)

const (
	usualGrace = 10 * time.Second
	stopMargin = time.Minute     // for a node to take the task and to say that it is done
	stopQuiet  = 5 * time.Second // until a line says what is waited for
)

// stop is one call of muster run stop.
type stop struct {
	*order
	grace  time.Duration
	params json.RawMessage
}

func runStop(ctx context.Context, s *cli.Session, f struct {
	All   bool
	Grace time.Duration `flag:"grace,seconds"`
}) error {
	if err := oneName(s); err != nil {
		return err
	}
	found, all, err := look(ctx, s)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		if t, ok := gone(ctx, s); ok {
			s.Printf("nothing to stop: %s\n", screen.Printable(goneText(t, s.Words[0])))
			return nil
		}
		return missing(s, all)
	}
	if len(nodesOf(found)) > 1 && !f.All {
		return several(s, found)
	}
	if f.Grace == 0 {
		f.Grace = usualGrace
	}
	params := wire.WorkloadStop{Name: found[0].Name, Grace: int(f.Grace.Seconds())}
	if err := params.Check(); err != nil {
		return err
	}
	o := stop{order: &order{Session: s, name: params.Name}, grace: f.Grace}
	if o.params, err = json.Marshal(params); err != nil {
		return err
	}
	return s.OnEach(ctx, nodesOf(found), func(node cli.Target) (string, error) {
		var said []string
		for _, p := range found {
			if p.id != node.ID {
				continue
			}
			text, err := o.end(ctx, node, p)
			if err != nil {
				return "", err
			}
			said = append(said, text)
		}
		return strings.Join(said, "; "), nil
	})
}

// end ends a program, or takes it back if it has not begun.
func (o stop) end(ctx context.Context, node cli.Target, p placed) (string, error) {
	if p.queued != nil {
		return o.takeBack(ctx, p)
	}
	task, err := work.Queue(ctx, o.Session, nil, api.NewTask{Node: node.ID, Type: wire.TaskWorkloadStop, Params: o.params}, usualExpiry)
	if err != nil {
		return "", err
	}
	task, err = ended(ctx, o.Session, task, stopQuiet)
	if err == nil && !wire.TaskEnded(task.Status) {
		heard, _ := o.LastHeard(ctx, node.ID)
		o.sayOf(node, heard+": waiting for it to end "+o.name+"; ^C leaves the stop queued")
		task, err = ended(ctx, o.Session, task, o.grace+stopMargin-stopQuiet)
	}
	switch {
	case ctx.Err() != nil && !wire.TaskEnded(task.Status):
		return "", cli.Hinted("the stop of "+o.name+" stays queued", "take it back: "+o.Pasted("task cancel "+task.ID))
	case err != nil:
		return "", err
	case !wire.TaskEnded(task.Status):
		return "task " + task.ID + " is " + task.Status + ": the node does it when it is heard from", nil
	case task.Status != wire.TaskCompleted:
		return "", cli.Hinted("the task is "+task.Status+": "+task.Error, "muster task show "+task.ID+" says more")
	case string(task.Values["changed"]) == "false":
		return "there was nothing to stop", nil
	}
	return o.name + " is ended, and removed with its output", nil
}

// takeBack cancels the task that is to start a program.
func (o stop) takeBack(ctx context.Context, p placed) (string, error) {
	task, err := cli.Send[api.Task](ctx, o.Session, "POST", api.At(api.PathTaskCancel, p.queued.ID), nil)
	switch {
	case err != nil:
		return "", err
	case wire.TaskEnded(task.Status):
		return p.Name + " had not begun, and is taken back", nil
	}
	return fmt.Sprintf("%s is just beginning: its node is asked to cancel task %s", p.Name, task.ID), nil
}
