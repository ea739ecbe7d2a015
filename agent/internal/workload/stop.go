package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/agent/internal/child"
	"muster/agent/internal/mask"
	"muster/agent/internal/task"
	"muster/agent/wire"
)

const (
	// defaultGrace is how long a container may take to end when it is asked to. The param's description says so too.
	defaultGrace = 10 * time.Second
	// stopMargin is what is left of the task's time for killing and removing.
	stopMargin = 15 * time.Second
)

// Stop ends one workload or all of them, and removes their containers and the output of programs. It is a success if there is nothing to
// stop.
func (h Host) Stop(ctx context.Context, job task.Job, params *wire.WorkloadStop) task.Outcome {
	runs := h.runs(params.Name)
	list, trouble := h.stopRuns(ctx, job.Output, runs, grace(ctx, params)) // first: an engine that hangs holds no program up
	v := h.look(ctx, params.Name)
	failures := []error{trouble}
	if params.Name != "" && len(list) > 0 && v.trouble != nil { // what was named is ended
		fmt.Fprintln(job.Output, v.trouble)
	} else {
		failures = append(failures, v.trouble)
	}
	there := len(v.found) > 0 || len(list) > 0 || trouble != nil
	stopped, trouble := v.stop(ctx, job.Output, grace(ctx, params))
	failures = append(failures, trouble)
	list = append(list, stopped...)
	err := errors.Join(failures...)
	if err == nil && !there {
		fmt.Fprintln(job.Output, "there was nothing to stop")
	}
	return task.Ended(err, map[string]any{"changed": len(list) > 0, "stopped": list})
}

// EndAllocation ends the programs and containers of an allocation, and removes them with their output. It returns the names of those that
// are gone. If it could not look for all, that is an error.
func (h Host) EndAllocation(ctx context.Context, out io.Writer, allocation string) (ended []string, err error) {
	limit := grace(ctx, &wire.WorkloadStop{})
	runs := slices.DeleteFunc(h.runs(""), func(r wire.Run) bool { return r.Allocation != allocation })
	ended, failed := h.stopRuns(ctx, out, runs, limit)
	v := h.look(ctx, "")
	v.found = slices.DeleteFunc(v.found, func(c container) bool { return c.label(labelAllocation) != allocation })
	containers, err := v.stop(ctx, out, limit)
	return append(ended, containers...), errors.Join(failed, v.trouble, err)
}

// stop ends the containers that were found, and gives the names of those that are removed.
func (v view) stop(ctx context.Context, out io.Writer, grace time.Duration) (stopped []string, err error) {
	var failures []error
	for _, e := range v.engines {
		var some []container
		for _, c := range v.found {
			if c.engine.name == e.name {
				some = append(some, c)
			}
		}
		if len(some) == 0 {
			continue
		}
		fmt.Fprintf(out, "%s stops %s\n", e.name, strings.Join(names(some), ", "))
		if err := e.stop(ctx, some, grace, out); err != nil {
			failures = append(failures, err)
			continue
		}
		stopped = append(stopped, names(some)...)
	}
	return stopped, errors.Join(failures...)
}

// stopRuns ends programs, all at once, and gives the names of those that it has removed.
func (h Host) stopRuns(ctx context.Context, out io.Writer, runs []wire.Run, grace time.Duration) ([]string, error) {
	failures := make([]error, len(runs))
	var together sync.WaitGroup
	for i, r := range runs {
		if r.State == wire.RunRunning {
			fmt.Fprintf(out, "the program %s is asked to end\n", r.Name)
		}
		together.Go(func() { failures[i] = h.Runs.Stop(ctx, r.Name, grace) })
	}
	together.Wait()
	stopped := []string{}
	for i, r := range runs {
		if failures[i] == nil {
			stopped = append(stopped, r.Name)
		}
	}
	return stopped, errors.Join(failures...)
}

// grace is how long the containers may take to end. It never takes all the time that the task has.
func grace(ctx context.Context, params *wire.WorkloadStop) time.Duration {
	want := cmp.Or(time.Duration(params.Grace)*time.Second, defaultGrace)
	if end, limited := ctx.Deadline(); limited {
		want = min(want, max(time.Until(end)-stopMargin, time.Second))
	}
	return want
}

// stop asks the containers of one engine to end, all at once, kills those that do not, and removes them. A container that cannot be
// stopped may still be removed by force, so only what is left in the end is a failure.
func (e engine) stop(ctx context.Context, all []container, grace time.Duration, out io.Writer) error {
	ids := idsOf(all)
	seconds := strconv.Itoa(int(grace.Seconds()))
	if _, err := e.ask(ctx, append([]string{"stop", "-t", seconds}, ids...)...); err != nil {
		fmt.Fprintf(out, "%v\n", err)
	}
	return e.remove(ctx, "label="+Label, ids...)
}

// maxLines is how many of the last lines of a log are read where the params name no number, or a larger one.
const maxLines = 10_000

// Logs returns the end of what a workload has written, on both its streams. Secrets that its variables hold are hidden.
func (h Host) Logs(ctx context.Context, job task.Job, params *wire.WorkloadLogs) task.Outcome {
	lines := min(cmp.Or(params.Lines, maxLines), maxLines)
	kept := child.Tail{Most: wire.MaxTaskHead + wire.MaxTaskTail}
	if output, err := h.Runs.Output(params.Name); err == nil {
		more, err := output.Tail(lines, &kept)
		return give(job, &kept, more, mask.Mask{}, err) // its keeper has hidden the secrets
	}
	c, err := h.one(ctx, params.Name)
	if err != nil {
		return task.Failed(err)
	}
	err = c.engine.logs(ctx, c.ID, lines, &kept)
	return give(job, &kept, false, mask.New(c.secrets()...), err)
}

// give gives the end of a log. more says that the log is longer, and failed why there is no more of it.
func give(job task.Job, kept *child.Tail, more bool, veil mask.Mask, failed error) task.Outcome {
	text := string(kept.Bytes())
	if kept.Dropped > 0 {
		_, text, _ = strings.Cut(text, "\n") // the first line may have lost its beginning
		more = true
	}
	if more {
		fmt.Fprintln(job.Output, "[the log is longer: this is its end]")
	}
	fmt.Fprint(job.Output, veil.Text(text))
	if failed != nil {
		return task.Failed(errors.New(veil.Text(failed.Error())))
	}
	return task.Ended(nil, map[string]any{"lines": strings.Count(text, "\n"), "truncated": more})
}

// logs writes the last lines of a container's log, both streams as they come.
func (e engine) logs(ctx context.Context, id string, lines int, to io.Writer) error {
	args := []string{"logs", "--tail=" + strconv.Itoa(lines), id}
	if err := e.exec(ctx, child.Command{Program: e.path, Args: args, Env: e.env, Stdout: to, Stderr: to}); err != nil {
		return fmt.Errorf("%s logs: %w", e.name, err)
	}
	return nil
}
