package main

import (
	"context"
	"iter"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/health"
	"muster/gateway/internal/label"
	"muster/gateway/internal/view"
	records "muster/store/health"
)

// openHealth opens what finds what is wrong with nodes. It knows the nodes by the picture of the fleet, and moves them by the fleet,
// which is opened after it.
func (g *gateway) openHealth(ctx context.Context) error {
	var err error
	g.health, err = health.Open(ctx, health.Config{
		Records: records.New(g.store.Records()), Ready: g.overview.Ready, Node: g.nodeOfHealth, Nodes: g.nodesOfHealth, Tell: g.tellFindings,
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

func (g *gateway) nodeOfHealth(id string) (health.Node, bool) {
	row, known := g.overview.Row(id)
	if !known {
		return health.Node{}, false
	}
	return healthNode(row), true
}

func (g *gateway) nodesOfHealth() iter.Seq[health.Node] {
	rows, _ := g.overview.Rows(view.Query{})
	return func(yield func(health.Node) bool) {
		for _, row := range rows {
			if !yield(healthNode(row)) {
				return
			}
		}
	}
}

// tellFindings shows a node's findings in the picture of the fleet.
func (g *gateway) tellFindings(id string, found []health.Finding) {
	shapes := make([]api.Finding, 0, len(found))
	for _, f := range found {
		shapes = append(shapes, f.Shown())
	}
	g.overview.Findings(id, shapes)
}

func healthNode(g *api.NodeRow) health.Node {
	return health.Node{
		ID: g.ID, Reasons: g.StateReasons, LastSeen: g.LastSeen, RenewalOverdue: g.RenewalOverdue, PricePerHour: g.PricePerHour,
		Subject: label.Subject{Tenant: g.Tenant, Name: g.Name, Provider: g.Provider, InstanceID: g.InstanceID, State: g.State,
			Status: g.Status, Labels: g.Labels},
	}
}
