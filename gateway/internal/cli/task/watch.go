package task

import (
	"context"
	"fmt"
	"sync"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// Words of a summary for nodes without a task.
const (
	notQueued = "refused"     // by the gateway
	notBegun  = "not started" // too many others had failed, or the command was ended
)

// mostStreams is how many tasks are read at the same time. The others wait for their turn; nothing of them is lost.
const mostStreams = 16

// watch shows the tasks of one call until they have ended.
type watch struct {
	*order
	nodes    []cli.Target
	streams  chan struct{}
	progress progress

	mu      sync.Mutex
	tasks   map[string]string // by node id: the task's id
	ended   map[string]int    // by status
	failed  int
	trouble []string // a line for each node that has no completed task
}

func newWatch(o *order, nodes []cli.Target) *watch {
	return &watch{order: o, nodes: nodes, streams: make(chan struct{}, mostStreams), tasks: map[string]string{}, ended: map[string]int{},
		progress: newProgress(o.Session)}
}

// one queues the task of one node and follows it to its end.
func (w *watch) one(ctx context.Context, node cli.Target) {
	task, err := w.queue(ctx, node)
	if err != nil {
		w.refused(ctx, node, err)
		return
	}
	w.mu.Lock()
	w.tasks[node.ID] = task.ID
	w.mu.Unlock()
	if len(w.nodes) == 1 && !w.json {
		w.progress.say(queued(task))
	}
	select {
	case w.streams <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-w.streams }()
	var to *screen.Lines
	if !w.json {
		to = w.progress.output(w.prefix(node))
	}
	if task, err = follow(ctx, w.progress, task.ID, to); err != nil {
		if ctx.Err() == nil {
			w.refused(ctx, node, err)
		}
		return
	}
	w.over(node, task)
}

// prefix is what stands before each line of a node's output; empty if there is one node only.
func (w *watch) prefix(node cli.Target) string {
	if len(w.nodes) == 1 {
		return ""
	}
	return screen.Printable(node.Name) + ": "
}

// refused notes a node whose task could not be queued or followed.
func (w *watch) refused(ctx context.Context, node cli.Target, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[notQueued]++
	w.failed++
	w.progress.Around(func() { w.Trouble(ctx, node.Name, err) })
	w.tell()
}

// over notes a task that has ended.
func (w *watch) over(node cli.Target, task api.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[task.Status]++
	if task.Status != wire.TaskCompleted {
		w.failed++
		w.trouble = append(w.trouble, screen.Printable(node.Name+": "+ending(task)))
	}
	if w.json {
		w.progress.Around(func() { _ = w.WriteJSON(task) })
	}
	if task.Archive != nil && !w.json {
		w.progress.say(w.prefix(node) + fmt.Sprintf("made %s, %s: get it with %s", screen.Printable(task.Archive.Name),
			screen.Plural(int(task.Archive.Size), "byte"), w.Pasted("task download "+task.ID)))
	}
	w.tell()
}

// ending says in one line how a task ended.
func ending(task api.Task) string {
	text := task.Status
	if task.Code != "" {
		text += " (" + task.Code + ")"
	}
	if task.Error != "" {
		text += ": " + task.Error
	}
	if task.ExitCode != nil && *task.ExitCode != 0 {
		text += fmt.Sprintf(" [exit %d]", *task.ExitCode)
	}
	return text + "; muster task show " + task.ID
}

// done is how many nodes are through.
func (w *watch) done() (all int) {
	for _, n := range w.ended {
		all += n
	}
	return all
}

// tell renews the line that counts.
func (w *watch) tell() {
	done := w.done()
	if len(w.nodes) > 1 && !w.json {
		w.progress.Set(fmt.Sprintf("%d of %s done, %d failed", done, screen.Plural(len(w.nodes), "node"), w.failed))
	}
}

// stopped tells whether no further task may begin, after too many failures.
func (w *watch) stopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flags.StopAfter > 0 && w.failed >= w.flags.StopAfter
}

// end prints what came of all tasks. It gives the error that makes the exit status.
func (w *watch) end(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := w.done()
	open := len(w.tasks) - done + w.ended[notQueued]
	if ctx.Err() != nil {
		if open > 0 {
			fmt.Fprintf(w.Stderr, "muster: ended here; %s on: %s shows them, %s ends one\n", goesOn(open), w.Pasted("task ls --open"),
				w.Pasted("task cancel ID"))
		}
		return ctx.Err()
	}
	w.ended[notBegun] = len(w.nodes) - done
	for _, line := range w.trouble {
		w.Report(line, "")
	}
	if len(w.nodes) > 1 || w.failed > 0 || w.json {
		fmt.Fprintln(w.Stderr, summary(len(w.nodes), w.ended))
	} else {
		fmt.Fprintln(w.Stderr, "completed")
	}
	if w.failed > 0 || w.ended[notBegun] > 0 {
		return cli.ErrReported
	}
	return nil
}

func goesOn(open int) string {
	if open == 1 {
		return "1 task goes"
	}
	return fmt.Sprintf("%d tasks go", open)
}
