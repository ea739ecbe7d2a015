package adminapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
func (s *server) listTasks(c *call, f api.TaskFilter) (any, error) {
	if err := knownTask(f.Type, f.Status); err != nil {
		return nil, err
	}
	tasks, next, err := s.Tasks.Tasks(c.r.Context(), store.TaskQuery{Node: f.Node, Type: f.Type, Status: f.Status, Tenant: f.Tenant,
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
func (s *server) createTask(c *call, q api.NewTask) (any, error) {
	if err := s.onAllocation(c, &q); err != nil {
		return nil, err
	}
	if err := checkNewTask(q); err != nil {
		return nil, err
	}
	made, created, err := s.Tasks.Create(c.r.Context(), c.caller.Tenant, task.Request{
		ID: q.ID, Node: q.Node, Type: q.Type, Params: q.Params, Expires: time.Duration(q.ExpiresSeconds) * time.Second, Signed: q.Signed,
		May: c.mayTask,
	}, c.caller.Actor)
	if err != nil {
		return nil, err
	}
	if created {
		c.status = http.StatusCreated
	}
	return s.shownTask(c, made)
}

// onAllocation has a workload that names an allocation run on the allocation's node, and on its GPUs, where it names none itself.
func (s *server) onAllocation(c *call, q *api.NewTask) error {
	var p struct {
		Allocation string   `json:"allocation"`
		GPUs       []string `json:"gpus"`
	}
	isWorkload := q.Type == wire.TaskWorkloadLaunch || q.Type == wire.TaskWorkloadProcess
	if !isWorkload || json.Unmarshal(q.Params, &p) != nil || p.Allocation == "" {
		return nil
	}
	nodes, err := s.Placement.GPUs(c.r.Context(), c.caller.Tenant, p.Allocation)
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
func (c *call) mayTask(kind string) error { return c.caller.Part(api.ScopeTasksWrite, kind) }

func (s *server) showTask(c *call) (any, error) {
	t, err := c.task()
	if err != nil {
		return nil, err
	}
	return s.shownTask(c, t)
}

func (s *server) cancelTask(c *call, _ struct{}) (any, error) { return s.changeTask(c, s.Tasks.Cancel) }

// retryTask gives a lost task again.
func (s *server) retryTask(c *call, _ struct{}) (any, error) {
	c.status = http.StatusCreated
	return s.changeTask(c, s.Tasks.Retry)
}

// changeTask does something about the task that the path names, for a caller who may give tasks of its type.
func (s *server) changeTask(c *call, change func(ctx context.Context, tenant, id string, by store.Actor) (store.Task, error)) (any, error) {
	t, err := c.task()
	if err != nil {
		return nil, err
	}
	if err := c.mayTask(t.Type); err != nil {
		return nil, err
	}
	if t, err = change(c.r.Context(), c.caller.Tenant, t.ID, c.caller.Actor); err != nil {
		return nil, err
	}
	return s.shownTask(c, t)
}

// task is the one that the path names. That of another tenant is not found.
func (c *call) task() (store.Task, error) {
	id := c.r.PathValue("task")
	if err := wire.CheckTaskID(id); err != nil {
		return store.Task{}, err
	}
	return c.server.Tasks.Task(c.r.Context(), c.caller.Tenant, id)
}

// shownTask is a task with what it has written.
func (s *server) shownTask(c *call, t store.Task) (any, error) {
	out := task.Shown(t)
	log, err := s.Tasks.Log(c.r.Context(), t)
	if err != nil {
		return nil, err
	}
	out.Output = api.TaskLog{Head: text(log.Head), Tail: text(log.Tail), Bytes: log.Bytes, Truncated: log.Truncated}
	return out, nil
}

// text replaces what is no UTF-8, because JSON has no other text.
func text(data []byte) string { return strings.ToValidUTF8(string(data), "\ufffd") }
