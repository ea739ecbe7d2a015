package task

import (
	"context"
	"fmt"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const (
	usualList = 100 // tasks of a table
	pageSize  = 500 // tasks of one question
)

func taskList(ctx context.Context, s *cli.Session) error {
	filter, limit, err := filterOf(s)
	if err != nil {
		return err
	}
	if limit == 0 && s.Form != cli.FormJSON {
		limit = usualList
	}
	tasks, more, err := fetch(ctx, s, filter, limit)
	if err != nil {
		return err
	}
	if s.Form == cli.FormJSON {
		return s.WriteJSON(api.TaskPage{Tasks: tasks})
	}
	if err := s.List(columns()).Write(cli.Rows(tasks, func(t api.Task) []string { return row(t, s.Now()) })); err != nil {
		return err
	}
	footer := screen.Plural(len(tasks), "task")
	if more {
		footer += "; there are older ones: --limit N shows more"
	}
	fmt.Fprintln(s.Stdout, footer)
	return nil
}

func filterOf(s *cli.Session) (f api.TaskFilter, limit int, err error) {
	if err := s.Flags.Into(&f); err != nil {
		return f, 0, err
	}
	if f.Type != "" {
		if _, err := findType(f.Type); err != nil {
			return f, 0, err
		}
	}
	f.Status, err = s.Flags.OneOf("status", "", wire.TaskStatuses()...)
	return f, f.Limit, err
}

// fetch gets so many tasks, page by page; 0: all.
func fetch(ctx context.Context, s *cli.Session, f api.TaskFilter, limit int) (tasks []api.Task, more bool, err error) {
	tasks = []api.Task{}
	for {
		f.Limit = pageSize
		if limit > 0 {
			f.Limit = min(limit-len(tasks), pageSize)
		}
		page, err := cli.Get[api.TaskPage](ctx, s, api.PathTasks, f)
		if err != nil {
			return nil, false, err
		}
		tasks = append(tasks, page.Tasks...)
		if page.Next == "" || limit > 0 && len(tasks) >= limit {
			return tasks, page.Next != "", nil
		}
		f.Cursor = page.Next
	}
}

func columns() []screen.Column {
	return []screen.Column{
		{Name: "ID"}, {Name: "NODE", Least: 12, Most: 40}, {Name: "TYPE", Least: 18}, {Name: "STATUS"}, {Name: "EXIT", Rank: 3},
		{Name: "AGE", Rank: 1}, {Name: "TOOK", Rank: 4}, {Name: "BY", Rank: 5, Least: 8, Most: 30}, {Name: "WHY", Rank: 2, Least: 12, Most: 60},
	}
}

func row(t api.Task, now time.Time) []string {
	return []string{
		screen.Printable(t.ID), screen.OrUnknown(t.Node), screen.OrUnknown(t.Type), statusOf(t), screen.Number(t.ExitCode),
		screen.Age(now.Sub(t.CreatedAt)), took(t, now), screen.OrUnknown(t.CreatedBy), screen.OrUnknown(why(t)),
	}
}

// statusOf says that a running task is to end.
func statusOf(t api.Task) string {
	if t.CancelAskedAt != nil && !wire.TaskEnded(t.Status) {
		return screen.Printable(t.Status) + ", to end"
	}
	return screen.OrUnknown(t.Status)
}

// took is how long the work has taken until its end, or until now.
func took(t api.Task, now time.Time) string {
	switch {
	case t.StartedAt == nil:
		return screen.Unknown
	case t.FinishedAt != nil:
		return screen.Age(t.FinishedAt.Sub(*t.StartedAt))
	case wire.TaskEnded(t.Status):
		return screen.Unknown
	}
	return screen.Age(now.Sub(*t.StartedAt))
}

// why says what keeps a task, or what went wrong with it.
func why(t api.Task) string {
	switch {
	case t.QueueReason != "":
		return t.QueueReason
	case t.Code != "" && t.Error != "":
		return t.Code + ": " + t.Error
	}
	return t.Code + t.Error
}
