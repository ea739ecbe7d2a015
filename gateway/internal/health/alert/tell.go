package alert

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/store"
	records "muster/store/alerts"
)

// States of an alert, as receivers are told.
const (
	Firing   = "firing"
	Resolved = "resolved"
)

const (
	portion = 200 // alerts or deliveries in one write
	giveUp  = 24 * time.Hour
)

// wants sets what a receiver is to be told now.
func (v *delivery) wants(state string, now time.Time) {
	if v.Want == state {
		return
	}
	v.Want = state
	v.Since = now
	v.NextAt = now
	v.Tries = 0
	v.GaveUp = false
	v.dirty = true
}

// plan makes a record for each open alert and each receiver that is to be told of it. A silence holds that back until it ends.
func (d *Service) plan(now time.Time) {
	for _, a := range d.alerts {
		if a.ResolvedAt != nil {
			continue
		}
		for _, r := range d.receivers {
			if d.deliveries[place{a.ID, r.Name}] != nil || !d.takes(r, a) || d.silenced(a, now) {
				continue
			}
			v := &delivery{Delivery: records.Delivery{Alert: a.ID, Receiver: r.Name}}
			v.wants(Firing, now)
			d.deliveries[place{a.ID, r.Name}] = v
		}
	}
}

// takes is true if a receiver wants to be told of an alert.
func (d *Service) takes(r *receiver, a *alert) bool {
	switch {
	case r.Tenant != "" && r.Tenant != a.Tenant,
		len(r.Causes) > 0 && !slices.Contains(r.Causes, a.Cause),
		api.SeverityRank(a.Severity) < api.SeverityRank(r.Severity):
		return false
	}
	return len(r.terms) == 0 || d.matches(r.terms, a)
}

// matches is true if a selector names the node of an alert, or one of its nodes.
func (d *Service) matches(terms []label.Term, a *alert) bool {
	ids := a.Members
	if a.NodeID != "" {
		ids = []string{a.NodeID}
	}
	return slices.ContainsFunc(ids, func(id string) bool {
		n, known := d.Node(id)
		return known && label.Matches(terms, n)
	})
}

// flush writes what has changed. What could not be written is told all the same, and written later.
func (d *Service) flush(ctx context.Context) {
	d.writing.Lock()
	defer d.writing.Unlock()
	for {
		c, events := d.changes()
		if len(c.Alerts)+len(c.Deliveries)+len(c.Contacts)+len(events) == 0 {
			return
		}
		err := d.records.Write(ctx, c, events...)
		d.written(ctx, c, events, err)
		if err != nil {
			return
		}
	}
}

// changes takes one portion of what is not written yet. Alerts come before what was told of them.
func (d *Service) changes() (c records.Change, events []store.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	unwritten := d.unwrittenAlerts()
	for _, a := range unwritten[:min(len(unwritten), portion)] {
		a.dirty = false
		c.Alerts = append(c.Alerts, a.Alert)
	}
	n := min(len(d.events), portion)
	events = slices.Clone(d.events[:n])
	d.events = slices.Delete(d.events, 0, n)
	for _, r := range d.receivers {
		if r.dirty {
			r.dirty = false
			c.Contacts = append(c.Contacts, r.contact)
		}
	}
	if len(c.Alerts) == portion {
		return c, events
	}
	for _, v := range d.deliveries {
		if v.dirty && len(c.Deliveries) < portion {
			v.dirty = false
			c.Deliveries = append(c.Deliveries, v.Delivery)
		}
	}
	return c, events
}

// unwrittenAlerts are those that a write has to store. Resolved ones come first, in whatever portion: an open one takes the place of one
// of the same cause and subject that was resolved since the last write, and the database takes no two that are open.
func (d *Service) unwrittenAlerts() []*alert {
	var all []*alert
	for _, a := range d.alerts {
		if a.dirty {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *alert) int {
		return cmp.Or(openFirst(b.ResolvedAt, a.ResolvedAt), strings.Compare(a.ID, b.ID))
	})
	return all
}

// written notes how a write went.
func (d *Service) written(ctx context.Context, c records.Change, events []store.Event, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && !d.unwritten && ctx.Err() == nil {
		d.Logger.Error("alerts wait in memory, and are told all the same: the database cannot be written", "error", err)
	}
	d.unwritten = err != nil
	for i := range c.Alerts {
		if a := d.alerts[c.Alerts[i].ID]; a != nil && err != nil {
			a.dirty = true
		}
	}
	for i := range c.Deliveries {
		if v := d.deliveries[place{c.Deliveries[i].Alert, c.Deliveries[i].Receiver}]; v != nil {
			v.dirty = v.dirty || err != nil
			v.stored = v.stored || err == nil
		}
	}
	for _, k := range c.Contacts {
		if r := d.receivers[k.Receiver]; r != nil && err != nil {
			r.dirty = true
		}
	}
	if err != nil {
		d.events = append(events, d.events...)
	}
}

// due are the deliveries whose time has come, by receiver, the oldest first. The caller holds the lock.
func (d *Service) due(now time.Time) map[string][]*delivery {
	all := map[string][]*delivery{}
	for p, v := range d.deliveries {
		if v.Told == Resolved && v.Want == Resolved || v.busy || v.GaveUp || !v.stored && !d.unwritten {
			continue
		}
		a := d.alerts[p.alert]
		r := d.receivers[p.receiver]
		if a == nil || r == nil || r.busy || r.rests(now) {
			continue
		}
		if v.Told == "" && v.Want == Firing && d.silenced(a, now) {
			v.Since = now // its day begins when the silence ends
			continue
		}
		if v.NextAt.After(now) && v.NextAt.Sub(now) <= longestPause { // a clock that was set back holds nothing up
			continue
		}
		if v.Told != v.Want || d.again(r, a, v, now) {
			all[r.Name] = append(all[r.Name], v)
		}
	}
	for _, batch := range all {
		slices.SortFunc(batch, func(a, b *delivery) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Alert, b.Alert)) })
	}
	return all
}

// again is true if a receiver is told once more that an alert fires, because it would forget.
func (d *Service) again(r *receiver, a *alert, v *delivery, now time.Time) bool {
	return r.Kind == KindAlertmanager && v.Want == Firing && a.ResolvedAt == nil && v.ToldAt != nil && !d.silenced(a, now) &&
		now.Sub(*v.ToldAt).Abs() >= tellAgain
}
