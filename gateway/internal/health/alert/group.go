package alert

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/health/condition"
	records "muster/store/alerts"
)

// Bounds of what makes one alert of many.
const (
	mostSingle  = 20               // more stale nodes of one tenant at once are one alert
	leastWhole  = 3                // so many nodes are one alert also if they are all that the tenant has
	joinWithin  = 10 * time.Minute // a node that turns stale so soon after the others is one of them
	leftOfGroup = 3                // so few that stay stale get alerts of their own
)

// drop takes a node out of an alert about many, which is stale no more or has an alert of its own.
func (a *alert) drop(id string) {
	a.Members = slices.DeleteFunc(slices.Clone(a.Members), func(one string) bool { return one == id })
	a.dirty = true
}

// add makes a stale node one of those that an alert is about.
func (a *alert) add(id string, t *track) {
	t.group = a
	t.Begin()
	a.Members = append(a.Members, id)
	a.dirty = true
}

// fireStale tells of stale nodes of one tenant: of each one, or of all at once where they are many.
func (d *Service) fireStale(tenant string, due []key, nodes int, now time.Time) {
	if g := d.youngGroup(tenant, now); g != nil {
		for _, k := range due {
			g.add(k.subject, d.tracks[k])
		}
		return
	}
	all := d.staleAlone(tenant, now)
	if len(all) <= mostSingle && (len(all) < nodes || len(all) < leastWhole) {
		for _, k := range due {
			d.fire(k, d.tracks[k], now)
		}
		return
	}
	g := &alert{next: "Look at what they have in common: a provider, a site, a network; and whether they reach this gateway.",
		Alert: records.Alert{Cause: condition.NodeStale, Tenant: tenant, Severity: wire.SeveritySevere,
			Subject: "many/" + tenant + "/" + strconv.FormatInt(now.UnixMilli(), 10), FiredAt: now, Since: now}}
	const shown = 5
	var names []string
	for _, k := range all {
		t := d.tracks[k]
		g.add(k.subject, t)
		if t.Since.Before(g.Since) {
			g.Since = t.Since
		}
		names = append(names, t.node.Name)
	}
	if len(names) > shown {
		names = append(names[:shown], "...")
	}
	g.Text = fmt.Sprintf("%d of %d nodes turned silent at once: %s", len(all), nodes, strings.Join(names, ", "))
	d.groups = append(d.groups, g)
	d.open(g)
}

// youngGroup is the tenant's group that stale nodes still join; nil: there is none.
func (d *Service) youngGroup(tenant string, now time.Time) *alert {
	for _, g := range d.groups {
		if g.Tenant == tenant && now.Sub(g.FiredAt) < joinWithin {
			return g
		}
	}
	return nil
}

// staleAlone are the stale nodes of a tenant that no alert is about, also those that are not due yet, by name.
func (d *Service) staleAlone(tenant string, now time.Time) []key {
	var all []key
	for k, t := range d.tracks {
		if k.cause == condition.NodeStale && t.tenant == tenant && t.alert == nil && t.group == nil && !t.Idle() &&
			!d.silenced(d.draft(k, t, now), now) {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b key) int { return strings.Compare(d.tracks[a].node.Name, d.tracks[b].node.Name) })
	return all
}

// settleGroups resolves a group when none of its nodes is stale any more. A few that stay stale get alerts of their own.
func (d *Service) settleGroups(now time.Time) {
	d.groups = slices.DeleteFunc(d.groups, func(g *alert) bool {
		old := now.Sub(g.FiredAt) >= joinWithin
		if old && len(g.Members) <= leftOfGroup {
			for _, id := range slices.Clone(g.Members) {
				k := key{condition.NodeStale, id}
				t := d.tracks[k]
				g.drop(id)
				t.group = nil
				if n := t.node; n == nil || n.Status != wire.StatusStale || n.LastSeen == nil {
					delete(d.tracks, k)
					continue
				}
				t.Since = *t.node.LastSeen
				d.fire(k, t, now)
			}
		}
		if len(g.Members) > 0 {
			return false
		}
		d.resolve(g, now)
		return true
	})
}

// gather makes one alert of many stale nodes of a tenant that a silence kept back until now. Else each would be told alone.
func (d *Service) gather(now time.Time, nodes map[string]int) {
	freed := map[string][]key{}
	for k, t := range d.tracks {
		switch {
		case k.cause != condition.NodeStale || t.alert == nil:
		case d.silenced(t.alert, now):
			t.alert.kept = d.untold(t.alert)
		case t.alert.kept:
			t.alert.kept = false
			freed[t.tenant] = append(freed[t.tenant], k)
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(freed)) {
		keys := freed[tenant]
		if len(keys) <= mostSingle {
			continue
		}
		keys = slices.DeleteFunc(keys, func(k key) (back bool) {
			t := d.tracks[k]
			d.resolve(t.alert, now)
			t.alert = nil
			if t.Closing() {
				delete(d.tracks, k)
				return true
			}
			return false
		})
		d.fireStale(tenant, keys, nodes[tenant], now)
	}
}

// untold is true while nobody was told of an alert, nor is to be.
func (d *Service) untold(a *alert) bool {
	for name := range d.receivers {
		if d.deliveries[place{a.ID, name}] != nil {
			return false
		}
	}
	return true
}
