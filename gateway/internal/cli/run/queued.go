package run

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// latestTasks is how many of a type are looked through for one that is gone.
const latestTasks = 1000

// queued are the programs that are to start on these nodes, and that the nodes have not told of. Who may not see tasks sees none.
func queued(ctx context.Context, s *cli.Session, nodes []api.Node, told []placed) (all []placed, err error) {
	f := api.TaskFilter{Type: wire.TaskWorkloadProcess, Open: true}
	tasks, _, err := cli.Gather(0, func(limit int, cursor string) ([]api.Task, string, error) {
		f.Limit, f.Cursor = limit, cursor
		page, err := cli.Get[api.TaskPage](ctx, s, api.PathTasks, f)
		return page.Tasks, page.Next, err
	})
	if cli.Code(err) == wire.CodeForbidden {
		return nil, nil
	}
	wanted := make(map[string]*api.Node, len(nodes))
	for i := range nodes {
		wanted[nodes[i].ID] = &nodes[i]
	}
	for _, t := range tasks {
		n := wanted[t.NodeID]
		if n != nil && !slices.ContainsFunc(told, func(p placed) bool { return p.Task == t.ID }) {
			all = append(all, placed{Node: n.Name, Status: n.Status, Run: runOf(t), id: n.ID, queued: &t})
		}
	}
	return all, err
}

// gone is the newest task of a program that was looked for and that no node has; false: nothing is known of one, or this account may not
// see tasks. If a node was named, only its tasks count.
func gone(ctx context.Context, s *cli.Session) (api.Task, bool) {
	page, err := cli.Get[api.TaskPage](ctx, s, api.PathTasks, api.TaskFilter{Type: wire.TaskWorkloadProcess, Limit: latestTasks})
	at := slices.IndexFunc(page.Tasks, func(t api.Task) bool {
		isThere := len(s.Words) < 2 || s.Words[1] == t.Node || s.Words[1] == t.NodeID
		return isThere && (runOf(t).Name == s.Words[0] || t.ID == s.Words[0])
	})
	if err != nil || at < 0 {
		return api.Task{}, false
	}
	return page.Tasks[at], true
}

// goneText says how that task has ended.
func goneText(t api.Task, name string) string {
	switch {
	case t.Status == wire.TaskCompleted:
		return fmt.Sprintf("no node has a program %q any more: it was on %s", name, t.Node)
	case t.Error != "":
		return fmt.Sprintf("no node has a program %q: its task on %s is %s: %s", name, t.Node, t.Status, t.Error)
	}
	return fmt.Sprintf("no node has a program %q: its task on %s is %s", name, t.Node, t.Status)
}

// runOf is the run that a task is to start.
func runOf(t api.Task) wire.Run {
	var p wire.WorkloadProcess
	_ = json.Unmarshal(t.Params, &p) // the gateway has checked them
	r := wire.Run{Name: p.Name, Task: t.ID, User: p.User, State: wire.TaskQueued, Why: t.QueueReason, GPUs: p.GPUs}
	if len(p.Command) > 0 {
		r.Program = filepath.Base(p.Command[0])
	}
	return r
}

// awaitLogs says that a program is queued, and follows it once it begins.
func (o *order) awaitLogs(ctx context.Context, node cli.Target, task api.Task, follow bool, lines int) error {
	o.sayOf(node, o.begun(task))
	if !follow {
		return nil
	}
	run, err := o.follow(ctx, node, task, lines)
	return o.told(ctx, node, run, err)
}

// sayOf prints a line about a node for a person.
func (o *order) sayOf(node cli.Target, text string) {
	o.say(screen.Printable(node.Name) + ": " + screen.Printable(text))
}
