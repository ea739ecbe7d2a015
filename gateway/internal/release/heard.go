package release

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"muster/agent/wire"
	"muster/gateway/internal/release/rollout"
	"muster/store"
	"muster/store/releases"
)

// Heard takes what a heartbeat says of releases; u is nil if the agent cannot update itself. It returns the digest of the release that the
// node should get now ("": it stays), and, if the node has named another channel, the node's channel with the floor. After an error the
// heartbeat must fail, so that the node says it again.
func (d *Service) Heard(ctx context.Context, n Node, u *wire.Update) (wanted, channel string, floor int64, err error) {
	if err := d.ready(ctx); err != nil {
		return "", "", 0, err
	}
	if err := d.meet(ctx, n); err != nil {
		return "", "", 0, err
	}
	if said := d.hear(n, u); said != nil {
		err := d.note(ctx, n.ID, *said)
		if err == nil || u.Phase != "" { // after an error the node says it again; if it does not say it now, the word waits on
			d.noted(n.ID, said)
		}
		if err != nil {
			return "", "", 0, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.nodes[n.ID]
	if k == nil {
		return "", "", 0, nil
	}
	if u == nil { // one that was given no channel when it enrolled learns it here, and can update itself from its next start on
		return "", k.channel, d.floor(k.channel), nil
	}
	if p, wants := d.wants(k); wants {
		wanted = p.Digest
	}
	if u.Channel != k.channel {
		channel = k.channel
		floor = d.floor(k.channel)
	}
	return wanted, channel, floor, nil
}

// floor is the number below which a node obeys no pointer of a channel: that of the channel's own. The caller holds mu.
func (d *Service) floor(channel string) int64 {
	if c := d.channels[channel]; c != nil {
		return c.Sequence
	}
	return 0
}

// meet reads the labels of a node that was never heard before.
func (d *Service) meet(ctx context.Context, n Node) error {
	d.mu.Lock()
	known := d.nodes[n.ID] != nil
	if !known {
		d.nodes[n.ID] = &node{Node: n, channel: wire.DefaultChannel, bad: heldUnread}
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

// notePause is the pause between two records of what a node says of updates, after the first few. An update has a handful of phases. A
// node that says another one with every heartbeat costs no more writes than that.
const notePause = time.Minute

// hear keeps what a heartbeat says, and gives what is to be recorded of an update; nil: nothing now. What the node's allowance does not
// cover waits for a later heartbeat, and then the newest counts.
func (d *Service) hear(n Node, u *wire.Update) *releases.Update {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.nodes[n.ID]
	if k == nil {
		return nil
	}
	k.Node = n
	k.seen = d.Now()
	k.heard = true
	k.able = u != nil
	copy(k.memory[:], k.memory[1:])
	k.memory[steadyLooks-1] = n.Vitals.MemoryKiB
	if u == nil {
		return nil
	}
	if u.Channel == k.channel {
		k.obeyed = u.Sequence
		d.surpass(k)
	}
	s := k.said
	same := s.Phase == u.Phase && s.Digest == u.Release && s.About == u.About && s.Code == u.Code && s.Channel == u.Channel
	if u.Phase != "" {
		k.later = nil
		if !same {
			said := d.update(n.ID, *u)
			k.later = &said
		}
	}
	k.quiet = u.Phase == "" && k.later == nil
	if k.later == nil || !k.notes.Take(d.Now(), notePause) && !d.ends(k, *k.later) {
		return nil
	}
	return k.later
}

// word is the newest that a node said of an update, also if that is not recorded yet.
func (n *node) word() releases.Update {
	if n.later == nil {
		return n.said
	}
	return *n.later
}

// ends is true if a node says for the first time how its rollout's release went. Others wait for that word, so the allowance does not
// hold it. What could come after it needs the allowance, so this costs one write more.
func (d *Service) ends(k *node, said releases.Update) bool {
	row := d.moved(k, said)
	if row == nil || !wire.UpdateEnded(said.Phase) {
		return false
	}
	before := d.channels[k.channel].rows[k.ID].State
	return rollout.Active(before)
}

// update is what is recorded of a node's word.
func (d *Service) update(nodeID string, u wire.Update) releases.Update {
	return releases.Update{NodeID: nodeID, Channel: clean(u.Channel, wire.MaxChannel), Digest: clean(u.Release, 128), About: u.About,
		Phase: clean(u.Phase, 32), Code: clean(u.Code, 32), At: d.Now(), Detail: clean(u.Detail, wire.MaxUpdateDetail),
		Log: clean(u.Log, wire.MaxUpdateLog)}
}

// noted ends the wait of a word, unless the node has said another one meanwhile.
func (d *Service) noted(nodeID string, later *releases.Update) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.nodes[nodeID]; k != nil && k.later == later {
		k.later = nil
	}
}

// note records what a node says of an update, and where that leaves it in its channel's rollout. Until that is done the word waits: a
// round of the rollout may go on meanwhile, and must see it.
func (d *Service) note(ctx context.Context, nodeID string, said releases.Update) error {
	d.changing.RLock()
	defer d.changing.RUnlock()
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
// it has committed only if it runs the release.
func (d *Service) moved(k *node, said releases.Update) *releases.Node {
	c := d.channels[k.channel]
	if c == nil || c.rollout == nil {
		return nil
	}
	o := c.rollout
	row, let := c.rows[k.ID]
	if !let || said.Channel != o.Channel || said.Digest != o.Digest || said.About < o.Sequence {
		return nil
	}
	state := row.State
	switch said.Phase {
	case wire.UpdateFetching, wire.UpdateTrial:
		state = rollout.Begun
	case wire.UpdateRolledBack:
		state = rollout.RolledBack
	case wire.UpdateFailed:
		state = rollout.Failed
	case wire.UpdateCommitted:
		if d.runs(k, o.Digest) {
			state = rollout.Committed
		}
	}
	tries := said.Phase == wire.UpdateTrial && row.TriedAt == nil
	if state == row.State && !tries || row.State == rollout.Out || row.State == rollout.Unwell && state != rollout.RolledBack {
		return nil
	}
	now := d.Now()
	if tries {
		row.TriedAt = &now
	}
	if state != row.State {
		row.State = state
		row.ChangedAt = now
		row.Crashes = k.Vitals.Crashes
		row.Why = ""
	}
	return &row
}

// told is the event about the end of an update; nil: it has not ended.
func (d *Service) told(k *node, said releases.Update) *store.Event {
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
