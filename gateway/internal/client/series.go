package client

import (
	"context"
	"net/url"
	"time"
)

// SeriesQuery asks for one metric of a node. What is zero is as the gateway chooses.
type SeriesQuery struct {
	Metric       string
	Since, Until time.Time
	Step         time.Duration // in whole seconds
	Value        string        // mean, least or most
}

// Series gives what a node and its GPUs said.
func (c *Client) Series(ctx context.Context, node string, q SeriesQuery) (Series, error) {
	values := url.Values{}
	set(values, "metric", q.Metric)
	set(values, "value", q.Value)
	setNumber(values, "step", int64(q.Step/time.Second))
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			values.Set(name, at.UTC().Format(time.RFC3339))
		}
	}
	var answer Series
	err := c.do(ctx, "GET", "nodes/"+url.PathEscape(node)+"/series", values, nil, &answer)
	return answer, err
}

// Series answers GET nodes/{node}/series.
type Series struct {
	Metric      string        `json:"metric"`
	Unit        string        `json:"unit"`
	StepSeconds int64         `json:"step_seconds"`
	Series      []SeriesTrack `json:"series"`
}

// SeriesTrack is one line of a plot: of one GPU, or of the node itself where GPU is empty.
type SeriesTrack struct {
	GPU    string        `json:"gpu"`
	Points []SeriesPoint `json:"points"`
}

// SeriesPoint is [unix seconds, value]. The value is null where nothing was heard: a gap, never 0.
type SeriesPoint [2]*float64
