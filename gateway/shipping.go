package main

import (
	"context"
	"path/filepath"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/adminapi/metrics"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/logs/ship"
	"muster/gateway/internal/nodeapi"
)

// openShipping opens what forwards the logs of nodes. Its buffers lie in a folder beside the database.
func (g *gateway) openShipping(ctx context.Context) error {
	var err error
	g.shipping, err = ship.Open(ctx, ship.Config{
		Store: g.store, Folder: filepath.Join(g.settings.data, datadir.Logs), Bound: int64(g.settings.logsBuffer), Node: g.overview.Row,
		Count: func(picks func(*api.NodeRow) bool) int {
			n := 0
			for _, row := range g.overview.Nodes() {
				if picks(row) {
					n++
				}
			}
			return n
		},
		Logger: g.log,
	})
	return err
}

// shippingRoute is where nodes ship their logs.
func (g *gateway) shippingRoute() nodeapi.Route {
	return nodeapi.Route{Method: "POST", Path: wire.LogsPath("{id}"), Proof: nodeapi.Identity, Purpose: fleet.ForAnything,
		MaxBody: wire.MaxBody,
		Node: func(ctx context.Context, c nodeapi.Call) (any, error) {
			return g.shipping.Take(ctx, c.Identity.NodeID, c.Body)
		}}
}

// failingSinks are the rules whose sink takes nothing.
func (g *gateway) failingSinks() (all []alert.Sink) {
	for _, r := range g.shipping.Rules("") {
		if r.FailingSince != nil {
			all = append(all, alert.Sink{Rule: r.Name, Tenant: r.Tenant, Since: *r.FailingSince, Why: r.Error})
		}
	}
	return all
}

func (g *gateway) measureShipping(m *metrics.Gateway) {
	m.Shipping = g.shipping.Rules("")
	m.HeldBatches = g.shipping.Held()
}
