package release

import (
	"cmp"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/release/rollout"
	"muster/store/releases"
)

// Why a node gets nothing now, for a person. The empty text: it gets the pointer, or runs the release already.
const (
	heldUnable   = "its agent cannot update itself"
	heldConflict = "two machines use its identity"
	heldPinned   = "it is pinned where it is"
	heldMoved    = "its pin is for another channel than it has now, and nobody has signed the new pointer yet"
	heldNothing  = "nothing was ever promoted on its channel"
	heldTurn     = "it is not its turn"
	heldBehind   = "a restore left its channel behind its nodes: run muster release promote VERSION --channel CHANNEL"
	heldRestored = "the gateway was restored: nodes first say what they have obeyed"
	heldFailed   = "this release has failed here: promote it again to try again"
	heldWindow   = "its maintenance window is closed"
	heldUnread   = "its labels are not read yet"
	heldStruck   = "the key of the pointer was struck: promote again"
	heldExpired  = "the pointer has expired: promote again"
)

// offer is the pointer that a node should obey now, and else why it gets none.
func (d *Service) offer(n *node, now time.Time) (p releases.Pointer, held string) {
	switch {
	case !n.able:
		return p, heldUnable
	case n.Conflict:
		return p, heldConflict
	}
	p, since, held := d.due(n)
	if held != "" && held != heldTurn || d.runs(n, p.Digest) {
		return p, held
	}
	shut := d.shut(n, now)
	switch {
	case shut != "" && !(shut == heldWindow && n.trying(p.Channel, p.Digest, since)):
		return p, shut
	case held != "":
		return p, held
	case n.failed(p.Channel, p.Digest, since):
		return p, heldFailed
	case !d.believed(p.KeyID):
		return p, heldStruck
	case !now.Before(p.ExpiresAt):
		return p, heldExpired
	}
	return p, ""
}

// shut is why a node's maintenance window keeps it as it is; "": it does not. Who goes back waits for no window.
func (d *Service) shut(n *node, now time.Time) string {
	switch {
	case n.bad == heldUnread:
		return n.bad
	case d.goesBack(n):
		return ""
	case n.bad != "":
		return n.bad
	case !n.window.Open(now):
		return heldWindow
	}
	return ""
}

// goesBack tells whether a node follows its channel, and runs a release that the channel was taken back from.
func (d *Service) goesBack(n *node) bool {
	c := d.channels[n.channel]
	if _, pinned := d.pins[n.ID]; pinned || c == nil || c.rollout == nil {
		return false
	}
	left := c.plan.Leaves
	if c.rollout.Digest != c.Digest {
		left = ""
		if c.rollout.IsLeft() {
			left = c.rollout.Digest
		}
	}
	return left != "" && d.runs(n, left)
}

// wants is the pointer that a node should ask for, and whether there is one. A node that runs the release already asks too, where it has
// obeyed a lower number only: else it would obey an older pointer that lies between the two. So does one that knows a pointer with an
// earlier end: what it knows tells it whether releases are held back.
func (d *Service) wants(n *node) (p releases.Pointer, yes bool) {
	now := d.Now()
	p, held := d.offer(n, now)
	if held != "" || !d.runs(n, p.Digest) {
		return p, held == ""
	}
	news := n.obeyed < p.Sequence || n.TellsEnds && n.Ends.Before(p.ExpiresAt)
	return p, news && d.believed(p.KeyID) && now.Before(p.ExpiresAt)
}

// due is the pointer of a node's pin or channel, if it is its turn. since is the first number under which this release is ordered: the
// same release under a later number is no reason to try again if it failed.
func (d *Service) due(n *node) (p releases.Pointer, since int64, held string) {
	c := d.channels[n.channel]
	switch {
	case c == nil:
		return p, 0, heldNothing
	case c.behind():
		return p, 0, heldBehind
	case d.restored(c):
		return p, 0, heldRestored
	}
	if pin, pinned := d.pins[n.ID]; pinned {
		switch {
		case pin.Digest == "":
			return p, 0, heldPinned
		case pin.Channel != n.channel:
			return p, 0, heldMoved
		}
		return d.pointers[address{pin.Channel, pin.Sequence}], pin.Sequence, ""
	}
	since = c.Sequence
	if o := c.rollout; o != nil && o.Digest == c.Digest {
		since = o.Sequence
	}
	if runs := c.rollout != nil && c.rollout.State == releases.Done && d.runs(n, c.Digest); !runs && !c.admits(n.ID) {
		held = heldTurn
	}
	return d.pointers[address{c.Channel.Channel, c.Sequence}], since, held
}

// admits tells whether a node may get the channel's release now.
func (c *channel) admits(nodeID string) bool {
	o := c.rollout
	if o == nil || o.Digest != c.Digest {
		return true // the channel has moved on without waves
	}
	state := c.rows[nodeID].State
	switch o.State {
	case releases.Running, releases.Done:
		return rollout.Open(state)
	case releases.Paused:
		return state == rollout.Begun
	}
	return false
}

// phase is what a node last said of this release, as it was ordered from a number on; "": it spoke of another, or of none.
func (n *node) phase(channel, digest string, since int64) string {
	said := n.word()
	if said.Digest != digest || said.Channel != channel || said.About < since {
		return ""
	}
	return said.Phase
}

// trying tells whether a node is at work on a release. Each heartbeat says that a trial goes on. If one does not, the word that it has
// ended came just before a restart of the gateway, and was not recorded.
func (n *node) trying(channel, digest string, since int64) bool {
	phase := n.phase(channel, digest, since)
	return phase == wire.UpdateFetching || phase == wire.UpdateTrial && !n.quiet
}

// busy tells whether a node waits with a release until no task runs.
func (n *node) busy(channel, digest string, since int64) bool {
	return n.phase(channel, digest, since) == wire.UpdateHeld && n.word().Code == wire.UpdateBusy
}

// failed tells whether a node went back from a release, or could not install it.
func (n *node) failed(channel, digest string, since int64) bool {
	phase := n.phase(channel, digest, since)
	return phase == wire.UpdateRolledBack || phase == wire.UpdateFailed
}

// runs tells whether a node runs a release.
func (d *Service) runs(n *node, digest string) bool {
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

// settling is how long after a start of the gateway a node is not missed at least: as long as the longest pause of an agent between two
// tries.
const settling = 6 * time.Minute

// there tells whether a node is heard from now. One that is silent for three of its intervals is online still, because it may be going back
// from a release; but it is at no work.
func (d *Service) there(n *node, now time.Time) bool {
	if !n.heard {
		return d.online(n, now)
	}
	return now.Sub(n.seen) <= 3*cmp.Or(n.Interval, wire.UsualInterval)
}

// online tells whether a node is heard from. For some time after a start, those that were heard before it count too.
func (d *Service) online(n *node, now time.Time) bool {
	span := rollout.Span(n.Interval)
	if n.heard || now.Sub(d.upSince) >= max(settling, span) {
		return n.heard && now.Sub(n.seen) <= span
	}
	return !n.seen.IsZero() && d.aliveAt.Sub(n.seen) <= span
}
