package console

import (
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
)

// plots are the plots of a node over one time.
type plots struct {
	Range   string
	Ranges  []picture.Timespan
	GPU     []picture.Figure
	Node    []picture.Figure
	Off     string // why there are none: what the gateway says; empty: there are
	Hint    string
	Empty   bool              // no plot has a value
	Further *picture.Timespan // that has some; nil: none has
	Since   time.Time
	Until   time.Time
}

// plots asks for the series of a node, and lays them out.
func (v *visit) plots(data *nodePage) (plots, error) {
	p := plots{Ranges: picture.Timespans(nodePath(data.Node.Name)), Until: v.now.Truncate(time.Second)}
	var names []string
	for _, r := range p.Ranges {
		names = append(names, r.Name)
	}
	chosen := p.Ranges[max(slices.Index(names, v.Chosen("range", names[0], names[1:]...)), 0)]
	p.Range = chosen.Name
	p.Since = p.Until.Add(-chosen.For)
	events, err := v.turnsOf(data.Node.ID, p.Since)
	if err != nil {
		return plots{}, err
	}
	for _, c := range picture.Charts() {
		if c.GPU && len(data.GPUs) == 0 && data.Hardware != nil {
			continue
		}
		f, err := v.figure(data, c, p.Since, p.Until)
		if refusedBy(err, wire.CodeUnavailable) {
			_, answer := v.Info.Answer(err)
			p.Off = answer.Error.Message
			p.Hint = answer.Error.Hint
			return p, nil
		}
		if err != nil {
			return plots{}, err
		}
		f.Mark(events)
		if c.GPU {
			p.GPU = append(p.GPU, f)
		} else {
			p.Node = append(p.Node, f)
		}
	}
	p.Empty = picture.AllEmpty(p.GPU) && picture.AllEmpty(p.Node)
	p.Further = picture.Further(p.Ranges, p.Since, p.Until, data.Node.LastSeen)
	return p, nil
}

// fastest is the interval of heartbeats below which samples are too many for one plot.
const fastest = 5.0

func (v *visit) figure(data *nodePage, c picture.Chart, since, until time.Time) (picture.Figure, error) {
	q := api.SeriesQuery{Metric: c.Metric, Since: since, Until: until}
	if s := data.Node.IntervalSeconds; s != nil && *s < fastest {
		q.Step = int64(max(time.Minute, until.Sub(since)/720) / time.Second)
	}
	answer, err := get[api.Series](v, api.At(api.PathSeries, data.Node.ID), q)
	if err != nil {
		return picture.Figure{}, err
	}
	asked := picture.Asked{Node: data.Node.ID, Hardware: data.Hardware, Since: since, Until: until,
		Step: time.Duration(q.Step) * time.Second}
	return picture.FigureOf(c, asked, answer), nil
}

// turnsOf are the events that may explain a change in a plot, as far as the account may see them.
func (v *visit) turnsOf(node string, since time.Time) ([]api.Event, error) {
	const most = 200
	if !v.may.May(api.ScopeEventsRead) {
		return nil, nil
	}
	list, err := get[api.EventList](v, api.PathEvents, api.EventFilter{Node: node, Since: since, Limit: most})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Events, func(e api.Event) bool { return !turns(e.Kind) }), nil
}

// turns is true for kinds of events after which a node is not as it was.
func turns(kind string) bool {
	switch kind {
	case "node.enrolled", "node.drained", "node.resumed", "node.failed", "node.cured", "node.retired", "release.committed",
		"release.rolled_back", "release.failed", "health.found", "health.cured", "task.created", "task.finished",
		"session.opened", "session.ended":
		return true
	}
	return false
}
