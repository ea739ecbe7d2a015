package main

import (
	"context"

	"muster/gateway/internal/health/alert"
)

// openAlerts opens what tells people. It looks at parts that are opened after it, and only when it runs.
func (g *gateway) openAlerts(ctx context.Context) error {
	var err error
	g.alerts, err = alert.Open(ctx, alert.Config{
		Store: g.store, Ready: g.overview.Ready, Node: g.overview.Row, Halted: g.halted, Outage: g.outage.Lasts,
		Sinks: g.failingSinks, Nodes: g.overview.Nodes,
		URL: func() string { return g.settings.publicURL }, Logger: g.log,
	})
	return err
}

// halted are the channels whose rollout was halted, also those that went back by themselves. That is always known.
func (g *gateway) halted() (all []alert.Halt, known bool) {
	for _, c := range g.releases.Halted() {
		all = append(all, alert.Halt{Channel: c.Channel, Why: c.Why})
	}
	return all, true
}
