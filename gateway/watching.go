package main

import (
	"context"
	"path/filepath"

	"muster/gateway/internal/audit"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/history"
	"muster/gateway/internal/view"
)

// takers look at all heartbeats, in this order.
func (g *gateway) takers() []view.Taker {
	all := []view.Taker{{Name: "overview", Take: g.overview.Take}, {Name: "health", Take: g.health.Take}}
	if g.history != nil {
		all = append(all, view.Taker{Name: "history", Take: g.history.Take})
	}
	return all
}

// openHistory makes what keeps the nodes' samples. It opens its file when it runs, so a start does not wait for it.
func (g *gateway) openHistory() {
	if g.settings.history > 0 {
		path := filepath.Join(g.settings.data, datadir.History)
		g.history = history.New(history.Config{Path: path, Bound: int64(g.settings.history), Logger: g.log})
	}
}

// keepHistory writes samples until ctx ends, where any are kept.
func (g *gateway) keepHistory(ctx context.Context) error {
	if g.history != nil {
		return g.history.Run(ctx)
	}
	<-ctx.Done()
	return nil
}

// followers look at all events, in this order.
func (g *gateway) followers() []audit.Taker {
	return []audit.Taker{{Name: "overview", Take: g.overview.Changed}, {Name: "metrics", Take: g.tally.Take},
		{Name: "alerts", Take: g.alerts.Take}, {Name: "sessions", Take: g.endSessions}}
}
