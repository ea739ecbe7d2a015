package client

import (
	"context"
	"io"
	"net/url"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

// NodeLogs calls each with lines of a node's logs. It returns when the log ends. Where the gateway is lost before that, IsLost is true of
// the error.
func (c *Client) NodeLogs(ctx context.Context, node string, f api.LogsQuery, each func(wire.LogLine) error) error {
	q := url.Values{}
	set(q, "source", strings.Join(f.Sources, ","))
	if !f.Since.IsZero() {
		q.Set("since", f.Since.Format(time.RFC3339Nano))
	}
	set(q, "grep", f.Grep)
	setIf(q, "follow", f.Follow)
	setNumber(q, "limit", int64(f.Limit))
	show := func(line string) error {
		if line == "" {
			return nil // a sign of life
		}
		var l wire.LogLine
		if err := understand([]byte(line), &l); err != nil {
			return err
		}
		return each(l)
	}
	return c.live(ctx, "nodes/"+url.PathEscape(node)+"/logs", q, api.LogsType, func() error { return nil },
		func(from io.Reader, alive func()) error { return readLines(from, alive, show) })
}
