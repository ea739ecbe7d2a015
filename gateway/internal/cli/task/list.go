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

// usualList is how many tasks a table has.
const usualList = 100

func taskList(ctx context.Context, s *cli.Session, filter api.TaskFilter) error {
	if _, err := s.Flags.OneOf("status", "", wire.TaskStatuses()...); err != nil {
		return err
	}
	if filter.Type != "" {
		if _, err := findType(filter.Type); err != nil {
			return err
		}
	}
	limit := filter.Limit
	if limit == 0 && s.Form != cli.FormJSON {
		limit = usualList
	}
	tasks, next, err := cli.Gather(limit, func(limit int, cursor string) ([]api.Task, string, error) {
		filter.Limit, filter.Cursor = limit, cursor
		page, err := cli.Get[api.TaskPage](ctx, s, api.PathTasks, filter)
		return page.Tasks, page.Next, err
	})
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
	if next != "" {
		footer += "; there are older ones: --limit N shows more"
	}
	fmt.Fprintln(s.Stdout, footer)
	return nil
}

func columns() []screen.Column {
	return []screen.Column{
		{Name: "ID"}, {Name: "NODE", Least: 12, Most: 40}, {Name: "TYPE", Least: 18}, {Name: "STATUS"}, {Name: "EXIT", Rank: 3},
		{Name: "AGE", Rank: 1}, {Name: "TOOK", Rank: 4}, {Name: "BY", Rank: 5, Least: 8, Most: 30}, {Name: "WHY", Rank: 2, Least: 12, Most: 60},
	}
}

func row(t api.Task, now time.Time) []string {
	return []string{t.ID, t.Node, t.Type, statusOf(t), screen.Number(t.ExitCode), screen.Age(now.Sub(t.CreatedAt)), took(t, now), t.CreatedBy,
		why(t)}
}

// statusOf says that a running task is to end.
func statusOf(t api.Task) string {
	if t.CancelAskedAt != nil && !wire.TaskEnded(t.Status) {
		return t.Status + ", to end"
	}
	return t.Status
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
