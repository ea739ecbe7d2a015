package history

import (
	"context"
	"fmt"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Ways to tell a roll-up's value.
const (
	Mean  = "mean"
	Least = "least"
	Most  = "most"
)

// point is one value, nil if nothing was heard or said.
func point(at time.Time, value *float64) api.SeriesPoint {
	seconds := float64(at.Unix())
	return api.SeriesPoint{&seconds, value}
}

const (
	usualSpan  = time.Hour
	fewPoints  = 800     // of a track, where the caller names no step
	mostPoints = 11_000  // of a track
	mostInAll  = 400_000 // of all tracks: they are in memory together
	rawSpan    = 3 * time.Hour
	mostSpan   = 3 * 366 * 24 * time.Hour // the hours are kept for 400 days, and each day is a look into the file
	minute     = time.Minute
)

// Series reads the points of one metric of a node, in the order of time. Steps are counted in UTC. Without times it is the last hour, or
// the hour before Until. The step is the time between two points; 0: the gateway chooses it by the length of the time; less than a minute:
// the samples themselves.
func (b *Store) Series(ctx context.Context, nodeID string, q api.SeriesQuery) (api.Series, error) {
	metric, err := complete(&q, b.Now())
	if err != nil {
		return api.Series{}, err
	}
	b.reading.RLock()
	defer b.reading.RUnlock()
	if b.file == nil {
		return api.Series{}, wire.Refuse(wire.CodeUnavailable, "the history's file is not open", "see the gateway's log")
	}
	r := &reader{store: b, file: b.file, node: nodeID, q: q, metric: metric}
	answer, err := r.read(ctx)
	return answer, b.note(err)
}

// complete fills in what the query leaves out, and refuses what cannot be answered.
func complete(q *api.SeriesQuery, now time.Time) (Metric, error) {
	if q.Until.IsZero() {
		q.Until = now
	}
	if q.Since.IsZero() {
		q.Since = q.Until.Add(-usualSpan)
	}
	if q.Value == "" {
		q.Value = Mean
	}
	bad := func(message, hint string) (Metric, error) {
		return Metric{}, wire.Refuse(wire.CodeBadRequest, message, hint)
	}
	switch {
	case q.Value != Mean && q.Value != Least && q.Value != Most:
		return bad(fmt.Sprintf("the value %.40q is not known", q.Value), "write mean, least or most")
	case !q.Since.Before(q.Until):
		return bad("the time begins after its end", "let since be before until")
	case q.Until.Sub(q.Since) > mostSpan:
		return bad("the time is longer than 3 years", "the history keeps 400 days: ask for a shorter time")
	case q.Step > 0 && q.Until.Sub(q.Since)/stepOf(*q) > mostPoints:
		return bad(fmt.Sprintf("these are more than %d points", mostPoints), "ask for a larger step or a shorter time")
	}
	var names []string
	for _, m := range Metrics() {
		if m.Name == q.Metric {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return bad(fmt.Sprintf("there is no metric %.60q", q.Metric), "the metrics are "+strings.Join(names, ", "))
}

// steps are those that are chosen from, in their order.
func steps() []time.Duration {
	return []time.Duration{minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, time.Hour, 2 * time.Hour, 6 * time.Hour,
		12 * time.Hour, 24 * time.Hour}
}

// choose gives the step that is wanted, and whether the samples themselves are.
func choose(q api.SeriesQuery) (step time.Duration, raw bool) {
	span := q.Until.Sub(q.Since)
	if step = stepOf(q); step > 0 {
		return roundUp(step, minute), step < minute
	}
	all := steps()
	for _, step := range all {
		if span/step <= fewPoints {
			return step, span <= rawSpan
		}
	}
	return roundUp(span/fewPoints, all[len(all)-1]), false
}

func stepOf(q api.SeriesQuery) time.Duration { return time.Duration(q.Step) * time.Second }

func roundUp(d, unit time.Duration) time.Duration { return (d + unit - 1) / unit * unit }
