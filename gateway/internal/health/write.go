package health

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"muster/store"
	records "muster/store/health"
)

// Run writes what Take found, and goes over all nodes now and then, until ctx ends.
func (d *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(roundEvery)
	defer ticker.Stop()
	for {
		select {
		case <-d.wake:
		case <-d.again:
			d.Round(ctx)
		case <-ticker.C:
			d.Round(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return d.Flush(last)
		}
		d.said(d.Flush(ctx), ctx)
	}
}

// said logs once that writing fails, and once that it goes on.
func (d *Service) said(err error, ctx context.Context) {
	switch {
	case err != nil && !d.failing && ctx.Err() == nil:
		d.Logger.Error("findings of health wait in memory: the database cannot be written", "error", err)
		d.failing = true
	case err == nil && d.failing:
		d.Logger.Info("findings of health are written again")
		d.failing = false
	}
}

// Flush writes the changes that wait, then tells of them and moves their nodes.
func (d *Service) Flush(ctx context.Context) error {
	for {
		batch := d.takeChanges()
		if len(batch) == 0 {
			return nil
		}
		rows := make([]records.Change, 0, len(batch))
		var events []store.Event
		nodes := map[string]bool{}
		for _, c := range batch {
			rows = append(rows, c.Change)
			nodes[c.NodeID] = true
			if e := d.changed(c); !d.CountAgain(ctx, e) {
				events = append(events, e)
			}
		}
		if err := d.Records.Write(ctx, rows, events...); err != nil {
			d.giveBack(batch)
			return err
		}
		if err := d.apply(ctx, slices.Sorted(maps.Keys(nodes))); err != nil {
			return err
		}
	}
}

func (d *Service) takeChanges() []change {
	d.mu.Lock()
	defer d.mu.Unlock()
	var batch []change
	for place, c := range d.changes {
		if len(batch) == portion {
			break
		}
		batch = append(batch, c)
		delete(d.changes, place)
	}
	return batch
}

// giveBack keeps changes that could not be written, unless later ones came meanwhile.
func (d *Service) giveBack(batch []change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range batch {
		if _, newer := d.changes[c.Place]; !newer {
			d.changes[c.Place] = c
		}
	}
}

// changed is the event of a change.
func (d *Service) changed(c change) store.Event {
	e := d.event("health.found", store.Actor{Name: byGateway}, map[string]string{"rule": c.Rule, "text": c.Text,
		"since": c.Since.UTC().Format(time.RFC3339), "severity": d.rule(c.Rule).Severity})
	e.At, e.NodeID, e.NodeName, e.Tenant = c.at, c.NodeID, c.name, c.tenant
	if c.GPU != "" {
		e.Detail["gpu"] = c.GPU
	}
	if c.Cured {
		e.Kind = "health.cured"
		delete(e.Detail, "text")
	}
	if c.why != "" {
		e.Detail["why"] = c.why
	}
	return e
}

// byGateway is the actor of what nobody asked for.
const byGateway = "gateway"

// event is one of this moment. What a person does is for the auditor.
func (d *Service) event(kind string, by store.Actor, detail map[string]string) store.Event {
	return store.Event{At: d.Now(), Kind: kind, Actor: by.Name, Address: by.Address, Outcome: store.OutcomeOK,
		Security: by.Name != byGateway, Detail: detail}
}

// apply tells of nodes' findings, and moves the nodes. A node that cannot be moved now is moved in a later round.
func (d *Service) apply(ctx context.Context, ids []string) error {
	var failed error
	for _, id := range ids {
		d.Tell(id, d.findings(id))
		add, remove := d.wanted(id)
		failed = errors.Join(failed, d.Judge(ctx, id, add, remove))
	}
	return failed
}

// wanted are the reasons that a node should have by the rules that move nodes, and those that it should not have.
func (d *Service) wanted(id string) (add map[string]string, remove []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	add = map[string]string{}
	if w := d.nodes[id]; w != nil {
		for k, t := range w.tracks {
			if t.Open && d.rule(k.rule).moves() && (add[k.rule] == "" || t.Text < add[k.rule]) {
				add[k.rule] = t.Text
			}
		}
	}
	for i := range d.rules {
		if r := &d.rules[i]; !r.Word && add[r.Name] == "" {
			remove = append(remove, r.Name)
		}
	}
	return add, remove
}
