package release

import (
	"slices"
	"time"

	"muster/agent/wire"
	"muster/store/releases"
)

// States of a node in a rollout.
const (
	stateAdmitted   = "admitted"    // let in, and not begun
	stateBegun      = "begun"       // it fetches, or the new version is on trial
	stateCommitted  = "committed"   // it runs the release
	stateRolledBack = "rolled_back" // it went back
	stateFailed     = "failed"      // it could not install it
	stateSilent     = "silent"      // it is heard no more
	stateOut        = "out"         // it left, or its window closed before it began: it may come again
)

// active tells whether a node is let in and not through.
func active(state string) bool { return state == stateAdmitted || state == stateBegun }

// fallen tells whether a state counts as failed.
func fallen(state string) bool {
	return state == stateRolledBack || state == stateFailed || state == stateSilent
}

// Why a node gets nothing now, for a person. The empty text: it gets the pointer, or runs the release already.
const (
	heldUnable   = "its agent cannot update itself"
	heldConflict = "two machines use its identity"
	heldPinned   = "it is pinned where it is"
	heldMoved    = "its pin is for another channel than it has now, and nobody has signed the new pointer yet"
	heldNothing  = "nothing was ever promoted on its channel"
	heldTurn     = "it is not its turn"
	heldFailed   = "this release has failed here: promote it again to try again"
	heldWindow   = "its maintenance window is closed"
	heldStruck   = "the key of the pointer was struck: promote again"
	heldExpired  = "the pointer has expired: promote again"
)

// offer is the pointer that a node should obey now, and else why it gets none.
func (d *Desk) offer(n *node, now time.Time) (p releases.Pointer, held string) {
	switch {
	case !n.able:
		return p, heldUnable
	case n.Conflict:
		return p, heldConflict
	}
	p, since, held := d.due(n)
	if held != "" || d.runs(n, p.Digest) {
		return p, held
	}
	begun := n.trying(p.Channel, p.Digest, since)
	switch {
	case n.failed(p.Channel, p.Digest, since):
		return p, heldFailed
	case n.bad != "":
		return p, n.bad
	case !begun && !n.window.Open(now):
		return p, heldWindow
	case !d.believed(p.KeyID):
		return p, heldStruck
	case !now.Before(p.ExpiresAt):
		return p, heldExpired
	}
	return p, ""
}

// wants is the pointer that a node should ask for, and whether there is one. A node that runs the release already asks too, where it has
// obeyed a lower number only: else it would obey an older pointer that lies between the two.
func (d *Desk) wants(n *node) (p releases.Pointer, yes bool) {
	now := d.Now()
	p, held := d.offer(n, now)
	if held != "" || !d.runs(n, p.Digest) {
		return p, held == ""
	}
	return p, n.obeyed < p.Sequence && d.believed(p.KeyID) && now.Before(p.ExpiresAt)
}

// due is the pointer of a node's pin or channel, if it is its turn. since is the first number under which this release is ordered: the
// same release under a later number is no reason to try again where it failed.
func (d *Desk) due(n *node) (p releases.Pointer, since int64, held string) {
	if pin, pinned := d.pins[n.ID]; pinned {
		switch {
		case pin.Digest == "":
			return p, 0, heldPinned
		case pin.Channel != n.channel:
			return p, 0, heldMoved
		}
		return d.pointers[address{pin.Channel, pin.Sequence}], pin.Sequence, ""
	}
	c := d.channels[n.channel]
	if c == nil {
		return p, 0, heldNothing
	}
	if !c.admits(n.ID) {
		return p, 0, heldTurn
	}
	since = c.Sequence
	if o := c.rollout; o != nil && o.Digest == c.Digest {
		since = o.Sequence
	}
	return d.pointers[address{c.Channel.Channel, c.Sequence}], since, ""
}

// admits tells whether a node may get the channel's release now.
func (c *channel) admits(nodeID string) bool {
	o := c.rollout
	if o == nil || o.Digest != c.Digest {
		return true // the channel has moved on without waves
	}
	state := c.rows[nodeID].State
	switch o.State {
	case releases.Done:
		return true
	case releases.Running:
		return active(state) || state == stateSilent
	case releases.Paused:
		return state == stateBegun
	}
	return false
}

// of tells whether what a node last said is about this release, as it was ordered from a number on.
func (n *node) of(channel, digest string, since int64) bool {
	return n.said.Digest == digest && n.said.Channel == channel && n.said.About >= since
}

// trying tells whether a node is at work on a release.
func (n *node) trying(channel, digest string, since int64) bool {
	return n.of(channel, digest, since) && (n.said.Phase == wire.UpdateFetching || n.said.Phase == wire.UpdateTrial)
}

// failed tells whether a node went back from a release, or could not install it.
func (n *node) failed(channel, digest string, since int64) bool {
	return n.of(channel, digest, since) && (n.said.Phase == wire.UpdateRolledBack || n.said.Phase == wire.UpdateFailed)
}

// runs tells whether a node runs a release.
func (d *Desk) runs(n *node, digest string) bool {
	return n.Digest != "" && slices.ContainsFunc(d.releases[digest].Platforms, func(p releases.Platform) bool {
		return p.Program == n.Digest
	})
}

// platform is the agent that a release has for a node; false: it has none.
func platform(r releases.Release, n Node) (releases.Platform, bool) {
	at := slices.IndexFunc(r.Platforms, func(p releases.Platform) bool { return p.OS == n.OS && p.Arch == n.Arch })
	if at < 0 {
		return releases.Platform{}, false
	}
	return r.Platforms[at], true
}

const (
	// settling is how long after a start of the gateway a node is not missed: as long as the longest pause of an agent between two tries.
	settling = 6 * time.Minute
	// leastSilence is how long a node may be silent at least: a way back from a bad release takes up to two minutes.
	leastSilence = wire.TrialTime + time.Minute
)

// online tells whether a node is heard from. For some time after a start, those that were heard before it count too.
func (d *Desk) online(n *node, now time.Time) bool {
	span := max(3*n.Interval, leastSilence)
	if n.heard || !d.settles(now) {
		return n.heard && now.Sub(n.seen) <= span
	}
	return !n.seen.IsZero() && d.aliveAt.Sub(n.seen) <= span
}

func (d *Desk) settles(now time.Time) bool { return now.Sub(d.upSince) < settling }
