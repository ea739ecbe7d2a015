package release

import (
	"context"
	"errors"
	"strconv"
	"time"

	"muster/gateway/internal/release/rollout"
	"muster/store"
	"muster/store/releases"
)

// Look does one round: it moves every rollout on as far as it goes, and brings pointers up to date.
func (d *Service) Look(ctx context.Context) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.watch()
	err := d.readLabels(ctx, "")
	err = errors.Join(err, d.forget(ctx))
	err = errors.Join(err, d.holdBehind(ctx))
	for _, name := range d.names() {
		err = errors.Join(err, d.advance(ctx, name), d.takeBack(ctx, name))
	}
	return errors.Join(err, d.renew(ctx))
}

// watch notices that the gateway was not at work for a while: nobody could be heard then.
func (d *Service) watch() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Now()
	if pause := now.Sub(d.looked); pause > time.Minute || pause < -time.Minute {
		d.upSince = now
		d.aliveAt = d.looked
		for _, n := range d.nodes {
			n.heard = false
		}
	}
	d.looked = now
}

// forgetEvery is how often all retired nodes leave memory.
const forgetEvery = time.Minute

// forget takes nodes that are retired out of memory. It looks at those that are silent: at once at those that were let in, because who
// left has not failed, and at the others now and then.
func (d *Service) forget(ctx context.Context) error {
	var silent []string
	d.mu.Lock()
	now := d.Now()
	since := now.Sub(d.forgot)
	all := since < 0 || since >= forgetEvery
	if all {
		d.forgot = now
	}
	for id, n := range d.nodes {
		if (all || d.let(n)) && !d.online(n, now) {
			silent = append(silent, id)
		}
	}
	d.mu.Unlock()
	if len(silent) == 0 {
		return nil
	}
	retired, err := d.records.Retired(ctx, silent)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range retired {
		d.drop(id)
	}
	return err
}

// Moved takes a node out of memory as soon as it is retired: no rollout counts it or waits for it any more.
func (d *Service) Moved(n store.Node) {
	if n.State != store.StateRetired {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(n.ID)
}

// drop takes a retired node out of memory. Its pin is gone from the database already.
func (d *Service) drop(id string) {
	delete(d.nodes, id)
	delete(d.pins, id)
}

// let tells whether a node was let into its channel's open rollout, and is neither out nor counted as silent yet.
func (d *Service) let(n *node) bool {
	c := d.channels[n.channel]
	if c == nil || c.rollout == nil || c.rollout.EndedAt != nil && c.rollout.State != releases.Done {
		return false
	}
	state := c.rows[n.ID].State
	return rollout.Active(state) || state == rollout.Committed && c.rollout.State != releases.Done
}

// standings is what memory knows of the nodes that a channel's rollout is about. The caller holds mu.
func (d *Service) standings(c *channel, now time.Time) map[string]rollout.Standing {
	o := c.rollout
	r := d.releases[o.Digest]
	all := map[string]rollout.Standing{}
	for id, n := range d.nodes {
		if n.channel != o.Channel {
			continue
		}
		_, pinned := d.pins[id]
		_, fits := platform(r, n.Node)
		shut := d.shut(n, now)
		readable := shut == "" || shut == heldWindow
		all[id] = rollout.Standing{Name: n.Name, Interval: n.Interval, Belongs: !pinned, Online: d.online(n, now), Heard: n.heard,
			Missed: !d.there(n, now),
			Takes:  n.able && !n.Conflict && readable && fits && !n.failed(o.Channel, o.Digest, o.Sequence),
			Shut:   shut != "", Runs: d.runs(n, o.Digest),
			Trying: n.trying(o.Channel, o.Digest, o.Sequence), Busy: n.busy(o.Channel, o.Digest, o.Sequence),
			Seen: n.seen, Vitals: n.vitals(), Severe: d.severe(c.rows[id])}
	}
	return all
}

// healthSlip is how much earlier a finding may be than the word of the node that the release is on trial: one heartbeat brings both.
const healthSlip = 5 * time.Second

// severe is what health has found on a node since it began with the release that it has; "": nothing.
func (d *Service) severe(row releases.Node) string {
	if d.Severe == nil || row.State != rollout.Committed {
		return ""
	}
	since := row.AdmittedAt
	if row.TriedAt != nil {
		since = *row.TriedAt
	}
	return d.Severe(row.NodeID, since.Add(-healthSlip))
}

// seen is what is known of a channel's rollout. The caller holds mu.
func (d *Service) seen(c *channel) rollout.View {
	now := d.Now()
	return rollout.View{Now: now, Since: d.openSince(c), Rollout: *c.rollout, Waves: c.waves, Rows: c.rows, Nodes: d.standings(c, now)}
}

// advance moves a channel's rollout on, and stores what changed in one batch. While the channel is behind its nodes, nothing moves.
func (d *Service) advance(ctx context.Context, name string) error {
	d.mu.Lock()
	c := d.channels[name]
	if c == nil || c.rollout == nil || c.behind() || c.rollout.EndedAt != nil && c.rollout.State != releases.Done {
		d.mu.Unlock()
		return nil
	}
	v := d.seen(c)
	if c.halting != nil {
		v.Rollout = *c.halting
	}
	from := v.Rollout
	out := rollout.Look(v)
	same := c.halting == nil && out.Rollout == from && len(out.Rows) == 0
	d.mu.Unlock()
	if same {
		return nil
	}
	return d.save(ctx, c, out, from)
}

// save stores what came of a look, and then puts it into memory.
func (d *Service) save(ctx context.Context, c *channel, out rollout.Outcome, from releases.Rollout) error {
	d.mu.Lock()
	events := d.happened(out)
	d.mu.Unlock()
	err := d.records.ChangeRollout(ctx, out.Rollout, from, out.Rows, events...)
	if errors.Is(err, store.ErrConflict) {
		return d.reload(ctx)
	}
	if err != nil { // a part of it may be stored
		return errors.Join(err, d.reload(ctx))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := out.Rollout
	c.rollout = &next
	c.halting = nil
	c.Finished = c.Finished || next.State == releases.Done
	told := 0
	for _, n := range out.Rows {
		c.rows[n.NodeID] = n
		if n.State == rollout.Admitted && told < mostTold {
			d.Report(n.NodeID)
			told++
		}
	}
	return nil
}

// mostTold is how many nodes learn at once that they are let in. The others learn it with their next heartbeats, which are spread already.
const mostTold = 200

// happened are the events of a look. The caller holds mu.
func (d *Service) happened(out rollout.Outcome) []store.Event {
	var events []store.Event
	for _, one := range out.Told {
		detail := map[string]string{"channel": out.Rollout.Channel, "release": out.Rollout.Digest, "wave": strconv.Itoa(one.Wave + 1)}
		if one.Why != "" {
			detail["why"] = one.Why
		}
		e := d.event(one.Kind, gatewayActor(), one.Why != "", detail)
		if n := d.nodes[one.Node]; n != nil {
			e.NodeID, e.NodeName, e.Tenant = n.ID, n.Name, n.Tenant
		}
		events = append(events, e)
	}
	return events
}

// stop halts a rollout in memory as soon as too many nodes have failed, so that no further heartbeat is offered it. The next round
// stores that. The caller holds mu.
func (d *Service) stop(c *channel) {
	if c.rollout == nil || !rollout.Watched(*c.rollout) {
		return
	}
	out, halted := rollout.Halt(rollout.View{Now: d.Now(), Rollout: *c.rollout, Waves: c.waves, Rows: c.rows})
	if !halted {
		return
	}
	c.halting = c.rollout
	c.rollout = &out.Rollout
}
