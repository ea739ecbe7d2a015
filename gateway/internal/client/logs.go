package client

import (
	"context"
	"io"

	"muster/agent/wire"
	"muster/gateway/api"
)

// NodeLogs calls each with lines of a node's logs. It returns when the log ends. If the gateway is lost before that, IsLost reports true
// for the error.
func (c *Client) NodeLogs(ctx context.Context, node string, f api.LogsQuery, each func(wire.LogLine) error) error {
	q, err := query(f)
	if err != nil {
		return err
	}
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
	return c.live(ctx, api.At(api.PathNodeLogs, node), q, api.LogsType, func() error { return nil },
		func(from io.Reader, alive func()) error { return readLines(from, alive, show) })
}
