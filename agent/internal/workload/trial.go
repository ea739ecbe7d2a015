package workload

import (
	"context"
	"errors"
	"fmt"

	"muster/agent/internal/mask"
	"muster/agent/internal/task"
	"muster/agent/wire"
)

// trialName is the workload of a Trial. No task can name it, because a name ends with a letter or a digit.
const trialName = "node-check_"

// Trial runs a container to its end and removes it. It calls began once the container runs. code is the exit code of its program, and last
// is the end of the program's output, fit for one line. There is no code if the container did not come to its end.
func (h Host) Trial(ctx context.Context, job task.Job, params wire.WorkloadLaunch, began func()) (code int, last string, err error) {
	params.Name = trialName
	l := launch{host: h, job: job, params: &params, veil: &mask.Veil{To: job.Output}}
	l.out = l.veil
	code, last, err = l.try(ctx, began)
	l.veil.Flush()
	if err != nil {
		err = errors.New(l.veil.Text(l.hint(err).Error()))
	}
	return code, last, err
}

func (l *launch) try(ctx context.Context, began func()) (code int, last string, err error) {
	v := l.host.look(ctx, trialName)
	if l.engine, err = choose("", v.engines, v.silent); err != nil {
		return 0, "", err
	}
	for _, left := range v.found { // by an agent that ended in the middle
		if err := left.engine.remove(ctx, labelFilter(Label, trialName), left.ID); err != nil {
			return 0, "", fmt.Errorf("the container of an earlier check could not be removed: %w", err)
		}
	}
	if err := l.prepare(ctx); err != nil {
		return 0, "", err
	}
	code, last, err = l.toEnd(ctx, began)
	if failed := l.clean(ctx); failed != nil {
		err = errors.Join(err, fmt.Errorf("its container could not be removed: %w", failed))
	}
	return code, last, err
}

func (l *launch) toEnd(ctx context.Context, began func()) (code int, last string, err error) {
	c, err := l.run(ctx)
	if err != nil {
		return 0, "", err
	}
	began()
	if _, err := l.engine.ask(ctx, "wait", c.ID); err != nil {
		return 0, "", err
	}
	found, err := l.engine.inspect(ctx, c.ID)
	switch {
	case err != nil:
		return 0, "", err
	case len(found) != 1 || found[0].State.Status != "exited" && found[0].State.Status != "stopped":
		return 0, "", fmt.Errorf("%s does not say how the container has ended", l.engine.name)
	}
	return found[0].State.ExitCode, l.lastWords(ctx, c.ID), nil
}

// Engines returns the engines that answer. If there is none, the error says why.
func (h Host) Engines(ctx context.Context) (names []string, err error) {
	answer, mute := h.engines(ctx)
	for _, e := range answer {
		names = append(names, e.name)
	}
	if len(names) == 0 {
		_, err = choose("", nil, mute)
	}
	return names, err
}
