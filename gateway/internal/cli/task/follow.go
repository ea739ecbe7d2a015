package task

import (
	"context"
	"errors"
	"io"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/client"
)

const (
	followPause = 500 * time.Millisecond // after a stream that ended before its task
	longestRest = 30 * time.Second       // between two tries to reach a gateway that does not answer
)

// follow reads what a task writes, until the task has ended, and gives the task as it is then. A gateway that is away, as in a restart, is
// waited for: the stream goes on where it broke off. to may be nil.
func follow(ctx context.Context, s *cli.Session, c *client.Client, task client.Task, to *lines) (client.Task, error) {
	var out io.Writer = io.Discard
	if to != nil {
		out = to
		defer to.end()
	}
	var from int64
	rest := followPause
	for {
		next, err := c.TaskOutput(ctx, task.ID, from, true, out)
		from = max(from, next)
		var now client.Task
		if err == nil {
			now, err = c.Task(ctx, task.ID)
		}
		switch {
		case err == nil && wire.TaskEnded(now.Status):
			return now, nil
		case err == nil:
			rest = followPause
		case !passing(err):
			return task, err
		default:
			rest = min(2*rest, longestRest)
		}
		if err := s.Pause(ctx, rest); err != nil {
			return task, err
		}
	}
}

// passing tells whether the trouble may pass by itself: it is on the way or in the gateway. A refusal of the question does not pass.
func passing(err error) bool {
	var refused *wire.ErrorDetail
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return !errors.As(err, &refused) || refused.Code == wire.CodeUnavailable || refused.Code == wire.CodeInternal
}

func taskLogs(ctx context.Context, s *cli.Session) error {
	on, err := s.Flags.Bool("follow")
	if err != nil {
		return err
	}
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	task, err := c.Task(ctx, s.Words[0])
	if err != nil {
		return err
	}
	to := &lines{progress: newProgress(s, false)}
	defer to.end()
	if !on || wire.TaskEnded(task.Status) {
		_, err := c.TaskOutput(ctx, task.ID, 0, false, to)
		return err
	}
	task, err = follow(ctx, s, c, task, to)
	if err == nil && task.Status != wire.TaskCompleted {
		s.Report(ending(task), "")
	}
	return err
}
