package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"muster/gateway/internal/adminapi/metrics"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/history"
	"muster/gateway/internal/history/cost"
	"muster/gateway/internal/view"
	"muster/gateway/internal/view/livestream"
	"muster/store/costs"
)

// sight is what the gateway sees: the nodes, and what happens to them. It is the fourth phase. Whoever looks at all events or at all
// heartbeats adds itself to tail or feed when it is opened, in the order in which they then get them.
type sight struct {
	tail     *audit.Tail
	tally    *metrics.Tally
	feed     *view.Feed
	fleet    *fleet.Fleet
	overview *view.Fleet
	costs    *cost.Service
	history  *history.Store // nil: none is kept
	streams  *livestream.Streams
}

// openSight finds the end of the log of events before anything can happen to nodes.
func openSight(ctx context.Context, s settings, log *slog.Logger, d *storage, copy func(context.Context, []history.Minute) error) (*sight, error) {
	v := &sight{tally: &metrics.Tally{}, feed: view.NewFeed(view.FeedConfig{Logger: log}), streams: livestream.New()}
	var err error
	if v.tail, err = audit.OpenTail(ctx, audit.TailConfig{Store: d.store, Logger: log}); err != nil {
		return nil, err
	}
	v.fleet, err = fleet.Open(ctx, fleet.Config{
		Store: d.store, RenewGrace: s.RenewGrace, Logger: log, CountAgain: d.audit.Repeated, Written: v.written,
	})
	if err != nil {
		return nil, err
	}
	v.overview = view.Open(view.Config{Store: d.store, Ref: v.fleet.Ref, Logger: log})
	v.tail.Add(v.overview.Changed)
	v.tail.Add(v.tally.Take)
	v.costs = cost.New(cost.Config{Records: costs.New(d.store.Records()), Ready: v.overview.Ready, Nodes: v.overview.Nodes, Logger: log})
	v.overview.ShowCosts(v.costs.Today)
	if v.history = newHistory(s, log, copy); v.history != nil {
		v.feed.Add(v.history.Take)
	}
	return v, nil
}

// written shows heartbeats at once, so that who lists nodes by their status sees them, and hands them on.
func (v *sight) written(samples []view.Sample) {
	v.overview.Take(context.Background(), samples) // it is in memory
	v.feed.Offer(samples)
}

// newHistory makes what keeps the samples; nil: none are kept. copy gives them to other gateways.
func newHistory(s settings, log *slog.Logger, copy func(context.Context, []history.Minute) error) *history.Store {
	if s.History == 0 {
		return nil
	}
	return history.New(history.Config{Path: filepath.Join(s.Data, datadir.History), Bound: int64(s.History), Logger: log, Copy: copy})
}
