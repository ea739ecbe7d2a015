package client

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// Event is one row of the log.
type Event struct {
	ID       int64             `json:"id"`
	At       time.Time         `json:"at"`
	Kind     string            `json:"kind"`
	Actor    string            `json:"actor"`
	NodeID   string            `json:"node_id"`
	Node     string            `json:"node"` // its name
	Tenant   string            `json:"tenant"`
	Address  string            `json:"address"`
	Outcome  string            `json:"outcome"`
	Detail   map[string]string `json:"detail"`
	Security bool              `json:"security"`
}

// EventList answers GET events: newest first, but oldest first where the request has after.
type EventList struct {
	Events []Event `json:"events"`
}

// EventFilter picks events. A zero field does not count.
type EventFilter struct {
	Node, Kind, Tenant string
	Security           bool
	Since              time.Time
	Forward            bool  // oldest first, those after the id After
	After, Before      int64 // ids
	Limit              int
}

// Events lists events: newest first, or oldest first with Forward.
func (c *Client) Events(ctx context.Context, f EventFilter) (EventList, error) {
	q := url.Values{}
	set(q, "node", f.Node)
	set(q, "kind", f.Kind)
	set(q, "tenant", f.Tenant)
	setIf(q, "security", f.Security)
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339))
	}
	if f.Forward {
		q.Set("after", strconv.FormatInt(f.After, 10))
	}
	setNumber(q, "before", f.Before)
	setNumber(q, "limit", int64(f.Limit))
	var list EventList
	err := c.do(ctx, "GET", "events", q, nil, &list)
	return list, err
}
