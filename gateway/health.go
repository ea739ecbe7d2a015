package main

import (
	"context"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/health"
	records "muster/store/health"
)

// openHealth opens what finds what is wrong with nodes. It knows the nodes by the picture of the fleet, and moves them by the fleet,
// which is opened after it.
func (g *gateway) openHealth(ctx context.Context) error {
	var err error
	g.health, err = health.Open(ctx, health.Config{
		Records: records.New(g.store.Records()), Ready: g.overview.Ready, Node: g.overview.Row, Nodes: g.overview.Nodes, Tell: g.tellFindings,
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

// tellFindings shows a node's findings in the picture of the fleet.
func (g *gateway) tellFindings(id string, found []health.Finding) {
	shapes := make([]api.Finding, 0, len(found))
	for _, f := range found {
		shapes = append(shapes, f.Shown())
	}
	g.overview.Findings(id, shapes)
}
