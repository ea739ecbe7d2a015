package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"muster/gateway/api"
)

// Events lists events: newest first, or oldest first with Forward.
func (c *Client) Events(ctx context.Context, f api.EventFilter) (api.EventList, error) {
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
	var list api.EventList
	err := c.do(ctx, "GET", "events", q, nil, &list)
	return list, err
}
