package client

import (
	"context"
	"net/url"
	"time"

	"muster/gateway/api"
)

// Series gives what a node and its GPUs said.
func (c *Client) Series(ctx context.Context, node string, q api.SeriesQuery) (api.Series, error) {
	values := url.Values{}
	set(values, "metric", q.Metric)
	set(values, "value", q.Value)
	setNumber(values, "step", int64(q.Step/time.Second))
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			values.Set(name, at.UTC().Format(time.RFC3339))
		}
	}
	var answer api.Series
	err := c.do(ctx, "GET", "nodes/"+url.PathEscape(node)+"/series", values, nil, &answer)
	return answer, err
}
