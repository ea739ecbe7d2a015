package main

import (
	"context"
	"time"

	"muster/gateway/internal/health/alert"
	"muster/store/releases"
)

const haltedWait = 100 * time.Millisecond

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

// halted are the channels whose rollout was halted, also those that went back by themselves. It is not known before the channels are read,
// or when a channel went meanwhile.
func (g *gateway) halted() (all []alert.Halt, known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), haltedWait) // the round of alerts must not wait for a start that hangs
	defer cancel()
	channels, err := g.releases.Channels(ctx)
	if err != nil {
		return nil, false
	}
	for i := range channels {
		if c := &channels[i]; c.State == releases.Halted || c.State == releases.TakenBack {
			all = append(all, alert.Halt{Channel: c.Channel, Why: c.Why})
		}
	}
	return all, true
}
