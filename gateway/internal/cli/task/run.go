package task

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/cli/work"
)

// usualExpiry is how long a task waits for its node where --expires says nothing.
const usualExpiry = time.Hour

// order is one call of task run.
type order struct {
	*cli.Session
	asked asked
	key   ed25519.PrivateKey // of the operator; nil: the gateway signs
	json  bool

	first  sync.Mutex // while no task has told the digest of the image
	pinned bool

	flags struct {
		Expires   time.Duration `flag:"expires,seconds"`
		Wait      bool
		AtMost    int // tasks that have not ended, at the same time; 0: no limit
		StopAfter int // failures; 0: never
	}
}

func taskRun(ctx context.Context, s *cli.Session) error {
	o := &order{Session: s}
	if err := o.read(); err != nil {
		return err
	}
	nodes, err := o.nodes(ctx)
	if err != nil {
		return err
	}
	if !o.flags.Wait {
		return o.queueAll(ctx, nodes)
	}
	return o.watchAll(ctx, nodes)
}

// nodes are those that are named. Without one, a workload runs where its allocation is: the gateway knows that.
func (o *order) nodes(ctx context.Context) ([]cli.Target, error) {
	var p struct {
		Allocation string `json:"allocation"`
	}
	if len(o.asked.nodes) == 0 && !o.Flags.Given("selector") && o.key == nil && json.Unmarshal(o.asked.params, &p) == nil &&
		p.Allocation != "" {
		return []cli.Target{{Name: "allocation " + p.Allocation}}, nil
	}
	return o.Chosen(ctx, o.asked.nodes, "run "+o.asked.kind.Name+" on", o.asked.kind.Name == wire.TaskAgentUninstall)
}

// read reads the words and the flags.
func (o *order) read() error {
	var err error
	if o.asked, err = readWords(o.Session); err != nil {
		return err
	}
	o.flags.Expires = usualExpiry
	if err = o.Flags.Into(&o.flags); err != nil {
		return err
	}
	o.json = o.Form == cli.FormJSON
	o.flags.Wait = o.flags.Wait || o.flags.AtMost > 0 || o.flags.StopAfter > 0
	o.key, err = work.Key(o.Session)
	return err
}

// queueAll queues one task for each node, and does not wait for any.
func (o *order) queueAll(ctx context.Context, nodes []cli.Target) error {
	return o.OnEach(ctx, nodes, func(t cli.Target) (string, error) {
		task, err := o.queue(ctx, t)
		if err != nil {
			return "", err
		}
		if o.json {
			return "", o.WriteJSON(task)
		}
		return queued(task), nil
	})
}

func queued(task api.Task) string {
	said := "task " + task.ID + " " + task.Status
	if task.QueueReason != "" {
		said += " (" + task.QueueReason + ")"
	}
	return said
}

// queue makes one task. The first of a launch is made alone: where its image had a tag, all others get the digest that this one got.
func (o *order) queue(ctx context.Context, t cli.Target) (api.Task, error) {
	if o.asked.kind.Name != wire.TaskWorkloadLaunch || o.key != nil {
		return o.queueOne(ctx, t)
	}
	o.first.Lock()
	if o.pinned {
		o.first.Unlock()
		return o.queueOne(ctx, t)
	}
	defer o.first.Unlock()
	task, err := o.queueOne(ctx, t)
	if err == nil {
		o.asked.params = task.Params
		o.pinned = true
	}
	return task, err
}

func (o *order) queueOne(ctx context.Context, t cli.Target) (api.Task, error) {
	return work.Queue(ctx, o.Session, o.key, api.NewTask{Node: t.ID, Type: o.asked.kind.Name, Params: o.asked.params}, o.flags.Expires)
}

// watchAll queues the tasks and shows them until all have ended. At most atMost of them are open at the same time.
func (o *order) watchAll(ctx context.Context, nodes []cli.Target) error {
	w := newWatch(o, nodes)
	defer w.progress.Clear()
	cli.AtOnce(len(nodes), cmp.Or(o.flags.AtMost, len(nodes)), func(i int) {
		if ctx.Err() == nil && !w.stopped() {
			w.one(ctx, nodes[i])
		}
	})
	w.progress.Clear()
	return w.end(ctx)
}

// summary counts the tasks of one call by their statuses.
func summary(nodes int, counts map[string]int) string {
	text := screen.Plural(nodes, "node") + ":"
	glue := " "
	for _, status := range append(wire.TaskStatuses(), notQueued, notBegun) {
		if n := counts[status]; n > 0 {
			text += fmt.Sprintf("%s%d %s", glue, n, status)
			glue = ", "
		}
	}
	return text
}
