package release

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/agent/wire"
	"muster/store"
	"muster/store/releases"
)

// mostJump bounds how far a node's word moves a channel's numbers after a restore.
const mostJump = 1_000_000

// Heard takes what a heartbeat says of releases (u nil: the agent cannot update itself). It gives the digest of the release that the node
// should get now ("": stay), and its channel with the floor, where the node has said another channel. After an error the heartbeat must
// fail, so that the node says it again.
func (d *Desk) Heard(ctx context.Context, n Node, u *wire.Update) (wanted, channel string, floor int64, err error) {
	if err := d.meet(ctx, n); err != nil {
		return "", "", 0, err
	}
	if d.hear(n, u) {
		if err := d.note(ctx, n.ID, *u); err != nil {
			return "", "", 0, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.nodes[n.ID]
	if u == nil || k == nil {
		return "", "", 0, nil
	}
	if p, wants := d.wants(k); wants {
		wanted = p.Digest
	}
	if u.Channel != k.channel {
		channel = k.channel
		floor = d.floor(k)
	}
	return wanted, channel, floor, nil
}

// floor is the number below which a node obeys no pointer of its channel.
func (d *Desk) floor(n *node) int64 {
	if c := d.channels[n.channel]; c != nil {
		return c.Sequence
	}
	return 0
}

// meet reads the labels of a node that was never heard before.
func (d *Desk) meet(ctx context.Context, n Node) error {
	d.mu.Lock()
	known := d.nodes[n.ID] != nil
	if !known {
		d.nodes[n.ID] = &node{Node: n, channel: wire.DefaultChannel, bad: "its labels are not read yet"}
	}
	d.mu.Unlock()
	if known {
		return nil
	}
	err := d.readLabels(ctx, n.ID)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		delete(d.nodes, n.ID)
	} else if k := d.nodes[n.ID]; k != nil && k.label == "" {
		k.bad = ""
	}
	return err
}

// hear keeps what a heartbeat says, and tells whether it says something of an update that is not on record.
func (d *Desk) hear(n Node, u *wire.Update) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.nodes[n.ID]
	if k == nil {
		return false
	}
	k.Node = n
	k.seen = d.Now()
	k.heard = true
	k.able = u != nil
	if u == nil {
		return false
	}
	if u.Channel == k.channel {
		k.obeyed = u.Sequence
		d.surpass(k)
	}
	s := k.said
	same := s.Phase == u.Phase && s.Digest == u.Release && s.About == u.About && s.Code == u.Code && s.Channel == u.Channel
	return u.Phase != "" && !same
}

// surpass notes that a node has obeyed a higher number than the channel has given out: the restored database does not know of it.
func (d *Desk) surpass(k *node) {
	c := d.channels[k.channel]
	if c == nil || k.obeyed <= max(c.Last, c.reported) || k.obeyed-c.Last > mostJump || k.Conflict ||
		!d.Now().Before(d.restore.AdoptUntil) {
		return
	}
	c.reported = k.obeyed
}

// note records what a node says of an update, and where that leaves it in its channel's rollout.
func (d *Desk) note(ctx context.Context, nodeID string, u wire.Update) error {
	d.changing.RLock()
	defer d.changing.RUnlock()
	now := d.Now()
	said := releases.Update{NodeID: nodeID, Channel: clean(u.Channel, wire.MaxChannel), Digest: clean(u.Release, 128), About: u.About,
		Phase: clean(u.Phase, 32), Code: clean(u.Code, 32), At: now, Detail: clean(u.Detail, wire.MaxUpdateDetail),
		Log: clean(u.Log, wire.MaxUpdateLog)}
	d.mu.Lock()
	k := d.nodes[nodeID]
	if k == nil {
		d.mu.Unlock()
		return nil
	}
	row := d.moved(k, said)
	event := d.told(k, said)
	d.mu.Unlock()
	var events []store.Event
	if event != nil && (d.CountAgain == nil || !d.CountAgain(ctx, *event)) {
		events = append(events, *event)
	}
	if err := d.records.Note(context.WithoutCancel(ctx), said, row, events...); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	said.Log = ""
	k.said = said
	if c := d.channels[k.channel]; row != nil && c != nil {
		c.rows[nodeID] = *row
		d.stop(c)
	}
	return nil
}

// moved is a node's row in its channel's rollout after what it said; nil: it stays as it is. A node moves its own row alone, and says that
// it has committed only where it runs the release.
func (d *Desk) moved(k *node, said releases.Update) *releases.Node {
	c := d.channels[k.channel]
	if c == nil || c.rollout == nil {
		return nil
	}
	o := c.rollout
	row, let := c.rows[k.ID]
	if !let || said.Channel != o.Channel || said.Digest != o.Digest || said.About < o.Sequence || o.State == releases.Done {
		return nil
	}
	state := row.State
	switch said.Phase {
	case wire.UpdateFetching, wire.UpdateTrial:
		state = stateBegun
	case wire.UpdateRolledBack:
		state = stateRolledBack
	case wire.UpdateFailed:
		state = stateFailed
	case wire.UpdateCommitted:
		if d.runs(k, o.Digest) {
			state = stateCommitted
		}
	}
	if state == row.State || row.State == stateOut {
		return nil
	}
	row.State = state
	row.ChangedAt = d.Now()
	return &row
}

// told is the event about the end of an update; nil: it has not ended.
func (d *Desk) told(k *node, said releases.Update) *store.Event {
	if !wire.UpdateEnded(said.Phase) {
		return nil
	}
	detail := map[string]string{"release": said.Digest, "channel": said.Channel, "seq": strconv.FormatInt(said.About, 10)}
	if said.Detail != "" {
		detail["detail"] = said.Detail
	}
	return &store.Event{At: said.At, Kind: "release." + said.Phase, Actor: "node:" + k.ID, NodeID: k.ID, NodeName: k.Name, Tenant: k.Tenant,
		Outcome: cmp.Or(said.Code, store.OutcomeOK), Security: true, Detail: detail}
}

// clean keeps the end of a foreign text, as far as it can be shown: line feeds and tabs stay, other control characters do not.
func clean(text string, most int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	text = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	for !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}
