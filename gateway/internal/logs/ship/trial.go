package ship

import (
	"context"
	"time"

	"muster/agent/wire"
	"muster/store"
)

// Trial is how a test line went.
type Trial struct {
	Status int           // of the answer; 0: there was none
	Took   time.Duration // until the answer
	Error  string        // "": the sink took it
	Next   string        // what to do
}

// Test pushes one line to a rule's sink, past its buffer, and waits for the answer.
func (d *Desk) Test(ctx context.Context, name, tenant string, by store.Actor) (Trial, error) {
	r := d.find(name)
	if r == nil || tenant != "" && r.Tenant != tenant {
		return Trial{}, noRule(name)
	}
	now := d.Now().UTC()
	line := kept{Tenant: r.Tenant, Node: "muster-test", ID: "test", Line: wire.LogLine{Time: now, Source: wire.LogAgent, Level: "info",
		Message: "This is a test of muster's log shipping by the rule " + name}}
	if line.Tenant == "" {
		line.Tenant = store.DefaultTenant
	}
	body, _, err := encode([]kept{line}, now)
	if err != nil {
		return Trial{}, err
	}
	began := time.Now()
	failed := r.sink.push(ctx, body)
	t := Trial{Status: 204, Took: time.Since(began)}
	e := d.event("shipping.tested", by, name)
	e.Detail["host"] = r.sink.host
	if failed != nil {
		t = Trial{Status: failed.Status, Took: t.Took, Error: failed.Text, Next: failed.Next}
		e.Outcome = store.OutcomeNone
	}
	return t, d.Store.AddEvents(ctx, e)
}
