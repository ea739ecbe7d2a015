package main

import (
	"context"
	"time"

	"muster/gateway/internal/health"
	records "muster/store/health"
)

// openHealth opens what finds what is wrong with nodes. It knows the nodes by the picture of the fleet, and moves them by the fleet,
// which is opened after it.
func (g *gateway) openHealth(ctx context.Context) error {
	var err error
	g.health, err = health.Open(ctx, health.Config{
		Records: records.New(g.store.Records()), Ready: g.overview.Ready, Node: g.overview.Row, Nodes: g.overview.Nodes, Tell: g.overview.Findings,
		Judge: func(ctx context.Context, id string, add map[string]string, remove []string) error {
			return g.fleet.Judge(ctx, id, add, remove)
		},
		RetireAfter: time.Duration(g.settings.retireStale),
		Retire: func(ctx context.Context, id string, after time.Duration) (bool, error) {
			return g.fleet.RetireSilent(ctx, id, after)
		},
		CountAgain: g.audit.Told, Logger: g.log,
	})
	return err
}
