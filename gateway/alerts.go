package main

import (
	"context"
	"time"

	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/health/condition"
	"muster/store/releases"
)

const haltedWait = 100 * time.Millisecond

// openAlerts opens what tells people. It looks at parts that are opened after it, and only when it runs.
func (g *gateway) openAlerts(ctx context.Context) error {
	var err error
	g.alerts, err = alert.Open(ctx, alert.Config{
		Store: g.store, Ready: g.overview.Ready, Node: g.overview.Row, Nodes: g.overview.Nodes, Facts: g.alertFacts,
		URL: func() string { return g.settings.publicURL }, Logger: g.log,
	})
	return err
}

// alertFacts are what is wrong with the gateway and the fleet, beside the nodes.
func (g *gateway) alertFacts() []alert.Fact {
	all := g.halted()
	for _, r := range g.shipping.Rules("") {
		if r.FailingSince != nil {
			all = append(all, alert.Fact{Condition: condition.LogShippingFailing, Subject: r.Name, Tenant: r.Tenant, Since: *r.FailingSince,
				Text: "no log lines are taken for the rule " + r.Name + ": " + r.Error})
		}
	}
	if since, reason, lasts := g.outage.Lasts(); lasts {
		all = append(all, alert.Fact{Condition: condition.GatewayCannotWrite, Subject: "database", Since: since,
			Text: "the database takes no writes: " + reason})
	}
	return all
}

// halted are the channels whose rollout was halted, also those that went back by themselves. It is not known before the channels are read,
// or when a channel went meanwhile.
func (g *gateway) halted() (all []alert.Fact) {
	ctx, cancel := context.WithTimeout(context.Background(), haltedWait) // the round of alerts must not wait for a start that hangs
	defer cancel()
	channels, err := g.releases.Channels(ctx)
	if err != nil {
		return []alert.Fact{{Condition: condition.RolloutHalted, Unknown: true}}
	}
	for i := range channels {
		if c := &channels[i]; c.State == releases.Halted || c.State == releases.TakenBack {
			all = append(all, alert.Fact{Condition: condition.RolloutHalted, Subject: c.Channel,
				Text: "the rollout on the channel " + c.Channel + " was halted: " + c.Why})
		}
	}
	return all
}
