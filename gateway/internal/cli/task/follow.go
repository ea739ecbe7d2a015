package task

import (
	"context"
	"fmt"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// follow shows what a task writes until the task has ended, and gives the task as it is then. to may be nil.
func follow(ctx context.Context, p progress, id string, to *screen.Lines) (api.Task, error) {
	c, err := p.session.Client(ctx)
	if err != nil {
		return api.Task{}, err
	}
	var next int64
	task, err := c.FollowTask(ctx, id, 0, func(offset int64, data []byte) error {
		if to == nil {
			return nil
		}
		if offset > next {
			to.End()
			p.say(fmt.Sprintf("%s[%d bytes are not kept]", to.Name, offset-next))
		}
		next = offset + int64(len(data))
		_, err := to.Write(data)
		return err
	})
	if to != nil {
		to.End()
	}
	return task, err
}

func taskLogs(ctx context.Context, s *cli.Session, o struct{ Follow bool }) error {
	p := newProgress(s)
	to := p.output("")
	if !o.Follow {
		c, err := s.Client(ctx)
		if err == nil {
			err = c.TaskOutput(ctx, s.Words[0], to)
			to.End()
		}
		return err
	}
	task, err := follow(ctx, p, s.Words[0], to)
	if ctx.Err() != nil {
		return nil // a person ended it
	}
	if err == nil && task.Status != wire.TaskCompleted {
		s.Report(ending(task), "")
	}
	return err
}
