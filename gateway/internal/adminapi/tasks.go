package adminapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account/secret"
	"muster/gateway/internal/task"
	"muster/store"
)

// listTasks lists one page of tasks, the newest first.
func (c *call) listTasks(f api.TaskFilter) (any, error) {
	if err := knownTask(f.Type, f.Status); err != nil {
		return nil, err
	}
	tasks, next, err := c.Tasks.Tasks(c.Context(), store.TaskQuery{Node: f.Node, Type: f.Type, Status: f.Status, Tenant: f.Tenant,
		Open: f.Open, Lost: f.Lost, Limit: f.Limit, Cursor: f.Cursor})
	return api.TaskPage{Tasks: api.Each(tasks, task.Shown), Next: next}, err
}

// knownTask refuses a type and a status that no task can have. Empty ones are not asked for.
func knownTask(kind, status string) error {
	if kind != "" {
		if _, err := wire.FindTaskType(kind); err != nil {
			return err
		}
	}
	if known := wire.TaskStatuses(); status != "" && !slices.Contains(known, status) {
		return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.40q is no status of a task", status), "it is one of "+strings.Join(known, ", "))
	}
	return nil
}

// createTask answers 200 where the same task is there already. An envelope is verified before anything is read from it, its type too.
func (c *call) createTask(q api.NewTask) (any, error) {
	if err := c.onAllocation(&q); err != nil {
		return nil, err
	}
	if err := checkNewTask(q); err != nil {
		return nil, err
	}
	made, created, err := c.Tasks.Create(c.Context(), c.Caller.Tenant, task.Request{
		ID: q.ID, Node: q.Node, Type: q.Type, Params: q.Params, Expires: time.Duration(q.ExpiresSeconds) * time.Second, Signed: q.Signed,
		May: c.mayTask,
	}, c.Caller.Actor)
	if err != nil {
		return nil, err
	}
	if created {
		c.Created()
	}
	return c.shownTask(made)
}

// onAllocation has a workload that names an allocation run on the allocation's node, and on its GPUs, where it names none itself.
func (c *call) onAllocation(q *api.NewTask) error {
	var p struct {
		Allocation string   `json:"allocation"`
		GPUs       []string `json:"gpus"`
	}
	isWorkload := q.Type == wire.TaskWorkloadLaunch || q.Type == wire.TaskWorkloadProcess
	if !isWorkload || json.Unmarshal(q.Params, &p) != nil || p.Allocation == "" {
		return nil
	}
	nodes, err := c.Placement.GPUs(c.Context(), c.Caller.Tenant, p.Allocation)
	if err != nil {
		return err
	}
	if q.Node == "" && len(nodes) > 1 {
		return wire.Refuse(wire.CodeBadRequest, "the allocation "+p.Allocation+" has GPUs on several nodes",
			"name one of them: muster alloc show "+p.Allocation)
	}
	for _, n := range nodes {
		if q.Node != "" && q.Node != n.Node && q.Node != n.NodeID {
			continue
		}
		q.Node = n.NodeID
		if len(p.GPUs) > 0 {
			return nil
		}
		var all map[string]any
		if err := json.Unmarshal(q.Params, &all); err != nil {
			return err
		}
		all["gpus"] = n.GPUs
		q.Params, err = json.Marshal(all)
		return err
	}
	return nil // that node has none of it, which is refused when the task is made
}

// checkNewTask refuses a request that asks for two things at once, and params with a token in them.
func checkNewTask(q api.NewTask) error {
	const longest = int(wire.MaxTaskLife / time.Second)
	gateway := q.Node != "" || q.Type != "" || q.Params != nil || q.ExpiresSeconds != 0
	switch {
	case q.Signed != nil && gateway:
		return wire.Refuse(wire.CodeBadRequest, "the task is signed already, so nothing beside it can say what to do",
			"send signed alone, or node, type and params")
	case q.Signed == nil && (q.Node == "" || q.Type == ""):
		return wire.Refuse(wire.CodeBadRequest, "a task needs a node and a type", `send {"node":"NAME","type":"diag.collect"}`)
	case q.ExpiresSeconds < 0 || q.ExpiresSeconds > longest:
		return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("expires_seconds cannot be %d", q.ExpiresSeconds),
			fmt.Sprintf("it takes 1 to %d, or leave it out for an hour", longest))
	}
	params := []byte(q.Params)
	if q.Signed != nil {
		params = q.Signed.Payload
	}
	if slices.ContainsFunc(secret.Texts(params, 1), secret.HasToken) {
		return wire.Refuse(wire.CodeTaskParamsInvalid, "the params hold a token of this gateway",
			"everybody who may look at tasks sees params: keep the token as a secret (muster secret set), and revoke this one")
	}
	return nil
}

// mayTask refuses a caller who may not give nodes tasks of a type.
func (c *call) mayTask(kind string) error { return c.Caller.Part(api.ScopeTasksWrite, kind) }

func (c *call) showTask() (any, error) {
	t, err := c.task()
	if err != nil {
		return nil, err
	}
	return c.shownTask(t)
}

func (c *call) cancelTask(_ struct{}) (any, error) { return c.changeTask(c.Tasks.Cancel) }

// retryTask gives a lost task again.
func (c *call) retryTask(_ struct{}) (any, error) {
	c.Created()
	return c.changeTask(c.Tasks.Retry)
}

// changeTask does something about the task that the path names, for a caller who may give tasks of its type.
func (c *call) changeTask(change func(ctx context.Context, tenant, id string, by store.Actor) (store.Task, error)) (any, error) {
	t, err := c.task()
	if err != nil {
		return nil, err
	}
	if err := c.mayTask(t.Type); err != nil {
		return nil, err
	}
	if t, err = change(c.Context(), c.Caller.Tenant, t.ID, c.Caller.Actor); err != nil {
		return nil, err
	}
	return c.shownTask(t)
}

// task is the one that the path names. That of another tenant is not found.
func (c *call) task() (store.Task, error) {
	id := c.Named("task")
	if err := wire.CheckTaskID(id); err != nil {
		return store.Task{}, err
	}
	return c.Tasks.Task(c.Context(), c.Caller.Tenant, id)
}

// shownTask is a task with what it has written.
func (c *call) shownTask(t store.Task) (any, error) {
	out := task.Shown(t)
	log, err := c.Tasks.Log(c.Context(), t)
	if err != nil {
		return nil, err
	}
	out.Output = api.TaskLog{Head: text(log.Head), Tail: text(log.Tail), Bytes: log.Bytes, Truncated: log.Truncated}
	return out, nil
}

// text replaces what is no UTF-8, because JSON has no other text.
func text(data []byte) string { return strings.ToValidUTF8(string(data), "\ufffd") }
