package release

import (
	"context"
	"errors"
	"strconv"
	"time"

	"muster/store"
)

// mostJump bounds how far a node's word moves a channel's numbers with one promotion. There are so many numbers that no node can use them
// up.
const mostJump = 1_000_000

// behind tells whether a restore has left the channel behind its nodes: they have obeyed a number that the database does not know. What
// the database holds may then be a release that was rolled back since. Nobody gets anything until a person promotes or resumes.
func (c *channel) behind() bool { return c.reported > 0 }

// surpass notes that a node has obeyed a higher number than the channel has given out: what is ordered next comes under a number above it,
// whenever the restore was. Only soon after a restore it holds the channel too. The caller holds mu.
func (d *Service) surpass(k *node) {
	c := d.channels[k.channel]
	if c == nil || k.Conflict || k.obeyed <= c.Last || k.obeyed-c.Last > mostJump {
		return
	}
	c.claimed = max(c.claimed, k.obeyed)
	if k.obeyed > c.reported && d.Now().Before(d.restore.AdoptUntil) {
		c.reported = k.obeyed
	}
}

// holdBehind stores which channels are behind, so that they are still held after a restart. The caller holds changing alone.
func (d *Service) holdBehind(ctx context.Context) error {
	found := map[string]int64{}
	d.mu.Lock()
	for name, c := range d.channels {
		if c.reported > c.Reported {
			found[name] = c.reported
		}
	}
	d.mu.Unlock()
	var err error
	for name, number := range found {
		var events []store.Event
		if d.channels[name].Reported == 0 { // the next nodes may have obeyed still higher ones
			events = append(events, d.event("channel.behind", gatewayActor(), true, map[string]string{"channel": name,
				"seq": strconv.FormatInt(number, 10), "next": "muster release status --channel " + name}))
		}
		err = errors.Join(err, d.records.Behind(ctx, name, number, events...))
	}
	if len(found) == 0 || err != nil {
		return err
	}
	return d.reload(ctx)
}

// restored tells whether the gateway was restored only just now, so that nodes had no time to say what they have obeyed. What a person
// has promoted since counts at once. The caller holds mu.
func (d *Service) restored(c *channel) bool { return d.hears(c) && d.Now().Sub(d.upSince) < d.settling }

// hears tells whether after each start nodes first say what they have obeyed. The caller holds mu.
func (d *Service) hears(c *channel) bool {
	return d.Now().Before(d.restore.AdoptUntil) && !c.UpdatedAt.After(d.restore.At)
}

// openSince is since when nodes of a channel can get its release: not while the gateway was away, the channel behind its nodes, or
// the gateway just restored. The caller holds mu.
func (d *Service) openSince(c *channel) time.Time {
	switch {
	case d.hears(c):
		return d.upSince.Add(d.settling)
	case c.UpdatedAt.After(d.upSince):
		return c.UpdatedAt
	}
	return d.upSince
}
