package health

import (
	"context"
	"slices"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// Nodes are retired for their silence only if it is likely to be theirs. A gateway that was cut off hears nobody. One that was cut off
// from a provider's network hears none of that provider's nodes. So nobody is retired while no node is online, or soon after a start. And
// few are retired in one hour, so that a person who reads the log has the time to stop it.
const (
	settleFor    = 10 * time.Minute // after a start
	retireWithin = time.Hour
	retireShare  = 10 // one in so many nodes of the fleet may be retired in retireWithin, but one in any case
)

// retirement follows the nodes that are to be retired for their silence. Only the goroutine of Run uses it.
type retirement struct {
	began time.Time   // of the first round
	done  []time.Time // within the last hour
	held  string      // why nobody is retired now, as the log said it last; "": nothing is held
}

// census counts nodes while a round goes over them.
type census struct {
	all, online int
	overdue     []*api.NodeRow
}

func (c *census) count(n *api.NodeRow) {
	c.all++
	if n.Status == wire.StatusOnline {
		c.online++
	}
}

// isOverdue is true for a node that may have been silent for so long that it is to be retired. Who retires it looks again.
func (d *Service) isOverdue(n *api.NodeRow) bool {
	return d.RetireAfter > 0 && n.Status == wire.StatusStale && n.LastSeen != nil && d.Now().Sub(*n.LastSeen) >= d.RetireAfter
}

// retireSilent retires the nodes that are overdue, the longest silent first, as far as that is safe now.
func (d *Service) retireSilent(ctx context.Context, c *census) {
	now := d.Now()
	r := &d.retirement
	if r.began.IsZero() || r.began.After(now) {
		r.began = now
	}
	r.done = slices.DeleteFunc(r.done, func(at time.Time) bool { return at.After(now) || now.Sub(at) >= retireWithin })
	switch {
	case len(c.overdue) == 0:
		r.held = ""
		return
	case now.Sub(r.began) < settleFor:
		return
	case c.online == 0:
		d.hold(ctx, "no node is online: the gateway itself may be cut off", len(c.overdue))
		return
	}
	slices.SortStableFunc(c.overdue, func(a, b *api.NodeRow) int { return a.LastSeen.Compare(*b.LastSeen) })
	most := max(c.all/retireShare, 1)
	for i := range c.overdue {
		if len(r.done) >= most {
			d.hold(ctx, "no more than a tenth of the nodes are retired in an hour", len(c.overdue)-i)
			return
		}
		retired, err := d.Retire(ctx, c.overdue[i].ID, d.RetireAfter)
		d.warn(ctx, "a silent node could not be retired", err)
		if retired {
			r.done = append(r.done, now)
		}
	}
	r.held = ""
}

// hold says once, in the log and as an event, that silent nodes are not retired now.
func (d *Service) hold(ctx context.Context, why string, waiting int) {
	if d.retirement.held == why {
		return
	}
	e := d.event("health.retire_held", store.Actor{Name: byGateway},
		map[string]string{"why": why, "waiting": strconv.Itoa(waiting), "limit": d.RetireAfter.String()})
	if err := d.Records.Write(ctx, nil, e); err != nil {
		d.warn(ctx, "that silent nodes are not retired now could not be recorded", err)
		return
	}
	d.retirement.held = why
	d.Logger.Warn("nodes that were silent for so long are not retired now", "why", why, "waiting", waiting, "limit", d.RetireAfter)
}
