package client

import (
	"context"
	"net/url"

	"muster/gateway/api"
)

// CreateTask queues a task.
func (c *Client) CreateTask(ctx context.Context, q api.NewTask) (api.Task, error) {
	var t api.Task
	err := c.do(ctx, "POST", "tasks", nil, q, &t)
	return t, err
}

// Tasks gives one page.
func (c *Client) Tasks(ctx context.Context, f api.TaskFilter) (api.TaskPage, error) {
	q := url.Values{}
	set(q, "node", f.Node)
	set(q, "type", f.Type)
	set(q, "status", f.Status)
	set(q, "tenant", f.Tenant)
	set(q, "cursor", f.Cursor)
	setIf(q, "open", f.Open)
	setIf(q, "lost", f.Lost)
	setNumber(q, "limit", int64(f.Limit))
	var page api.TaskPage
	err := c.do(ctx, "GET", "tasks", q, nil, &page)
	return page, err
}

// Task gives one task with the head and the tail of its output.
func (c *Client) Task(ctx context.Context, id string) (api.Task, error) {
	var t api.Task
	err := c.do(ctx, "GET", "tasks/"+url.PathEscape(id), nil, nil, &t)
	return t, err
}

// CancelTask ends a task that waits at once, and asks the node to end one that runs.
func (c *Client) CancelTask(ctx context.Context, id string) (api.Task, error) {
	var t api.Task
	err := c.do(ctx, "POST", "tasks/"+url.PathEscape(id)+"/cancel", nil, struct{}{}, &t)
	return t, err
}

// RetryTask gives a lost task again. The answer is the new one.
func (c *Client) RetryTask(ctx context.Context, id string) (api.Task, error) {
	var t api.Task
	err := c.do(ctx, "POST", "tasks/"+url.PathEscape(id)+"/retry", nil, struct{}{}, &t)
	return t, err
}
