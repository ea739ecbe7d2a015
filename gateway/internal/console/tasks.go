package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/form"
)

type tasksPage struct {
	Tasks    []api.Task
	Filter   api.TaskFilter
	Types    []wire.TaskType
	Statuses []string
	Older    string // URL; empty: this is the last page
	Filtered bool
}

func (v *visit) showTasks() (page, error) {
	f := api.TaskFilter{Node: v.Asked("node"), Type: v.Asked("type"), Status: v.Asked("status"), Cursor: v.Asked("cursor"), Limit: 100}
	data := tasksPage{Filter: f, Types: wire.TaskTypes(), Statuses: wire.TaskStatuses(), Filtered: f.Node+f.Type+f.Status+f.Cursor != ""}
	list, err := get[api.TaskPage](v, api.PathTasks, f)
	if err != nil {
		return page{}, err
	}
	data.Tasks = list.Tasks
	if list.Next != "" {
		data.Older = v.with("cursor", list.Next)
	}
	return page{name: "tasks", title: "Tasks", section: "tasks", data: data}, nil
}

type taskPage struct {
	Task   api.Task
	Type   wire.TaskType
	Params string
	Output string
	Live   bool // it has not ended
}

func (v *visit) showTask() (page, error) {
	t, err := get[api.Task](v, api.At(api.PathTask, v.r.PathValue("task")), nil)
	if err != nil {
		return page{}, err
	}
	data := taskPage{Task: t, Params: indented(t.Params), Output: t.Output.Head, Live: !wire.TaskEnded(t.Status)}
	if missing := t.Output.Bytes - int64(len(t.Output.Head)+len(t.Output.Tail)); t.Output.Truncated && missing > 0 {
		data.Output += fmt.Sprintf("\n[%d bytes are not kept]\n", missing)
	}
	data.Output += t.Output.Tail
	data.Type, _ = wire.FindTaskType(t.Type) // one of a later version is shown by its name alone
	return page{name: "task", title: "Task " + t.ID, section: "tasks", data: data}, nil
}

// indented is JSON for people. What is no JSON is shown as it is.
func indented(raw json.RawMessage) string {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return string(raw)
	}
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if e.Encode(value) != nil {
		return string(raw)
	}
	return strings.TrimSpace(out.String())
}

type newTaskPage struct {
	Node   string
	Types  []wire.TaskType // that this account may run
	Chosen string          // empty: none yet
	Type   wire.TaskType
	Params []wire.TaskParam
}

// showNewTask asks for the type first, and then for the params of that type. Both stand in the URL.
func (v *visit) showNewTask() (page, error) {
	data := newTaskPage{Node: cmp.Or(v.field("node"), v.Asked("node")), Chosen: cmp.Or(v.field("type"), v.Asked("type"))}
	for _, t := range wire.TaskTypes() {
		if v.may.May(api.ScopePart(api.ScopeTasksWrite, t.Name)) {
			data.Types = append(data.Types, t)
		}
	}
	if data.Chosen != "" {
		var err error
		if data.Type, err = wire.FindTaskType(data.Chosen); err != nil {
			return page{}, err
		}
		data.Params = data.Type.Params()
	}
	return page{name: "newtask", title: "Run a task", section: "tasks", data: data}, nil
}

func (v *visit) runTask() (page, error) {
	kind, err := wire.FindTaskType(v.field("type"))
	if err != nil {
		return page{}, err
	}
	params, err := form.Params(kind.Params(), v.r.PostForm)
	if err == nil && kind.Name == wire.TaskAgentUninstall {
		ask := question{Title: "Remove the agent from " + v.field("node") + "?", Button: "Remove the agent", Danger: true,
			Back: api.PathConsole + "tasks/new", Says: []string{"The task removes everything that the agent has put on the machine.",
				"The node " + v.field("node") + " is retired, and its certificates end at once.", "To bring it back it has to join again."}}
		if asks, ok := v.sure(ask, "tasks"); !ok {
			return asks, nil
		}
	}
	var made api.Task
	if err == nil {
		made, err = send[api.Task](v, "POST", api.PathTasks, api.NewTask{Node: v.field("node"), Type: kind.Name, Params: params})
	}
	if err != nil {
		return page{}, err
	}
	return page{to: api.PathConsole + "tasks/" + url.PathEscape(made.ID)}, nil
}

func (v *visit) cancelTask() (page, error) {
	id := v.r.PathValue("task")
	return page{to: api.PathConsole + "tasks/" + url.PathEscape(id)}, v.do("POST", api.At(api.PathTaskCancel, id), nil)
}
