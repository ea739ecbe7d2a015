package ship

import (
	"context"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// Test pushes one line to a rule's sink, past its buffer, and waits for the answer.
func (d *Service) Test(ctx context.Context, name, tenant string, by store.Actor) (api.AlertTest, error) {
	r := d.find(name)
	if r == nil || tenant != "" && r.Tenant != tenant {
		return api.AlertTest{}, noRule(name)
	}
	now := d.Now().UTC()
	line := kept{Tenant: r.Tenant, Node: "muster-test", ID: "test", Line: wire.LogLine{Time: now, Source: wire.LogAgent, Level: "info",
		Message: "This is a test of muster's log shipping by the rule " + name}}
	if line.Tenant == "" {
		line.Tenant = store.DefaultTenant
	}
	body, _, err := encode([]kept{line}, now)
	if err != nil {
		return api.AlertTest{}, err
	}
	began := time.Now()
	failed := r.sink.push(ctx, body)
	t := api.AlertTest{Delivered: failed == nil, Status: 204, TookMS: time.Since(began).Milliseconds()}
	e := d.event("shipping.tested", by, name)
	e.Detail["host"] = r.sink.host
	if failed != nil {
		t = api.AlertTest{Status: failed.Status, TookMS: t.TookMS, Error: failed.Text, Next: failed.Next}
		e.Outcome = store.OutcomeNone
	}
	return t, d.Store.AddEvents(ctx, e)
}
