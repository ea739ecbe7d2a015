package release

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"muster/store"
	"muster/store/releases"
)

// Look is one round: it moves every rollout on as far as it goes, and brings pointers up to date.
func (d *Desk) Look(ctx context.Context) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.watch()
	err := d.readLabels(ctx, "")
	err = errors.Join(err, d.forget(ctx))
	for _, name := range d.names() {
		err = errors.Join(err, d.advance(ctx, name))
	}
	return errors.Join(err, d.renew(ctx))
}

// watch notices that the gateway was not at work for a while: nobody could be heard then.
func (d *Desk) watch() {
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
func (d *Desk) forget(ctx context.Context) error {
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
		delete(d.nodes, id)
	}
	return err
}

// let tells whether a node was let into its channel's open rollout, and is neither out nor counted as silent yet.
func (d *Desk) let(n *node) bool {
	c := d.channels[n.channel]
	if c == nil || c.rollout == nil || c.rollout.EndedAt != nil {
		return false
	}
	state := c.rows[n.ID].State
	return active(state) || state == stateCommitted
}

// round is one look at a rollout.
type round struct {
	d       *Desk
	c       *channel
	o       releases.Rollout // as it was, and as it becomes
	now     time.Time
	changed map[string]releases.Node
	events  []store.Event
}

// advance moves a channel's rollout on, and stores what changed in one batch.
func (d *Desk) advance(ctx context.Context, name string) error {
	d.mu.Lock()
	c := d.channels[name]
	if c == nil || c.rollout == nil || c.rollout.EndedAt != nil {
		d.mu.Unlock()
		return nil
	}
	r := &round{d: d, c: c, o: *c.rollout, now: d.Now(), changed: map[string]releases.Node{}}
	from := r.o.State
	if c.halting {
		from = releases.Running
		r.o.State = from
	}
	r.judge()
	r.o.Forgiven = min(r.o.Forgiven, r.tally().fallen) // who came back was not forgiven what it does next
	r.move()
	d.mu.Unlock()
	if r.o == *c.rollout && len(r.changed) == 0 && from == r.o.State {
		return nil
	}
	return d.save(ctx, r, from)
}

// save stores a round, and then puts it into memory.
func (d *Desk) save(ctx context.Context, r *round, from string) error {
	nodes := make([]releases.Node, 0, len(r.changed))
	for _, n := range r.changed {
		nodes = append(nodes, n)
	}
	err := d.records.ChangeRollout(ctx, r.o, from, nodes, r.events...)
	if errors.Is(err, store.ErrConflict) {
		return d.reload(ctx)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := r.o
	r.c.rollout = &next
	r.c.halting = false
	for id, n := range r.changed {
		r.c.rows[id] = n
	}
	return nil
}

// judge looks at every node that was let in.
func (r *round) judge() {
	for id, row := range r.c.rows {
		state := r.judged(r.d.nodes[id], row)
		if state == row.State {
			continue
		}
		row.State = state
		row.ChangedAt = r.now
		r.changed[id] = row
	}
}

// judged is what a node's row becomes by itself. What a node said has changed it already.
func (r *round) judged(n *node, row releases.Node) string {
	if n == nil || n.channel != r.o.Channel || r.pinned(n.ID) {
		if active(row.State) || row.State == stateSilent {
			return stateOut
		}
		return row.State
	}
	online := r.d.online(n, r.now)
	trying := n.trying(r.o.Channel, r.o.Digest, r.o.Sequence)
	switch {
	case (active(row.State) || row.State == stateSilent) && online && r.d.runs(n, r.o.Digest) && !trying:
		return stateCommitted
	case row.State == stateSilent && online:
		return stateBegun
	case !online && (active(row.State) || row.State == stateCommitted && row.Wave == r.o.Wave):
		return stateSilent
	case row.State == stateAdmitted && (n.bad != "" || !n.window.Open(r.now)):
		return stateOut
	}
	return row.State
}

func (r *round) pinned(id string) bool {
	_, pinned := r.d.pins[id]
	return pinned
}

// row is a node's row as this round leaves it.
func (r *round) row(id string) (releases.Node, bool) {
	if row, ok := r.changed[id]; ok {
		return row, true
	}
	row, ok := r.c.rows[id]
	return row, ok
}

// tally counts the rows of a rollout.
type tally struct {
	let    int // in all waves, without those that left
	active int
	size   int // of the wave that is under way
	fallen int // of that wave
}

func (r *round) tally() tally {
	var t tally
	count := func(row releases.Node) {
		if row.State == stateOut {
			return
		}
		t.let++
		if active(row.State) {
			t.active++
		}
		if row.Wave == r.o.Wave {
			t.size++
			if fallen(row.State) {
				t.fallen++
			}
		}
	}
	for id, row := range r.c.rows {
		if _, again := r.changed[id]; !again {
			count(row)
		}
	}
	for _, row := range r.changed {
		count(row)
	}
	return t
}

// move lets nodes in, ends waves, and halts, as far as it goes now.
func (r *round) move() {
	for r.o.State == releases.Running && r.o.EndedAt == nil {
		if r.halt() {
			return
		}
		candidates, expected, shut := r.candidates()
		t := r.tally()
		if t.let == 0 {
			expected += shut // without this, nobody would try the release before all of them get it
		}
		reach := r.c.waves.reach(r.o.Wave, t.let+len(candidates)+expected)
		if more := min(reach-t.let, len(candidates)); more > 0 {
			r.admit(candidates[:more])
			t = r.tally()
		}
		if t.active > 0 || t.let < reach {
			r.o.StillAt = nil
			return
		}
		if !r.through(t.size) {
			return
		}
	}
}

// halt stops the rollout if too many of the wave have failed.
func (r *round) halt() bool {
	t := r.tally()
	limit := r.c.waves.limit(r.o.Wave, t.size)
	if t.fallen-r.o.Forgiven <= limit {
		return false
	}
	r.o.State = releases.Halted
	r.o.Why = why(t, r.o.Forgiven, limit)
	r.tell("rollout.halted", true, map[string]string{"why": r.o.Why})
	return true
}

func why(t tally, forgiven, limit int) string {
	text := fmt.Sprintf("%d of the wave's %d nodes failed or fell silent, and %d may", t.fallen, t.size, limit)
	if forgiven > 0 {
		text += fmt.Sprintf(" beyond the %d that were accepted", forgiven)
	}
	return text
}

// through ends the wave when its nodes have been well for long enough, and tells whether the next one begins. An empty wave and the last
// one wait for nothing.
func (r *round) through(size int) bool {
	last := r.o.Wave == len(r.c.waves.sizes)-1
	if r.o.StillAt == nil {
		at := r.now
		r.o.StillAt = &at
	}
	if !last && size > 0 && r.now.Sub(*r.o.StillAt) < r.c.waves.soak {
		return false
	}
	if last {
		r.end(releases.Done, "")
		r.tell("rollout.done", false, nil)
		return false
	}
	r.o.Wave++
	r.o.WaveAt = r.now
	r.o.StillAt = nil
	r.o.Forgiven = 0
	r.tell("rollout.wave", false, nil)
	return true
}

func (r *round) end(state, why string) {
	at := r.now
	r.o.State = state
	r.o.Why = why
	r.o.EndedAt = &at
}

func (r *round) tell(kind string, security bool, detail map[string]string) {
	all := map[string]string{"channel": r.o.Channel, "release": r.o.Digest, "wave": strconv.Itoa(r.o.Wave + 1)}
	for key, value := range detail {
		all[key] = value
	}
	r.events = append(r.events, r.d.event(kind, gatewayActor(), security, all))
}

// candidates are the nodes that may be let in now, in an order that looks random and stays the same. expected counts those that would be
// among them, and that have not been heard since a start that was only just now. shut counts those whose window is closed.
func (r *round) candidates() (ids []string, expected, shut int) {
	for id, n := range r.d.nodes {
		row, let := r.row(id)
		if let && row.State != stateOut || !r.wants(n) {
			continue
		}
		switch {
		case !n.window.Open(r.now):
			shut++
		case n.heard:
			ids = append(ids, id)
		default:
			expected++
		}
	}
	keys := make(map[string][]byte, len(ids))
	for _, id := range ids {
		sum := sha256.Sum256([]byte(r.o.Digest + " " + id))
		keys[id] = sum[:]
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(bytes.Compare(keys[a], keys[b]), cmp.Compare(a, b)) })
	return ids, expected, shut
}

// wants tells whether a node is of the group that the rollout is for, and can be updated now or when its window opens.
func (r *round) wants(n *node) bool {
	if n.channel != r.o.Channel || !n.able || n.Conflict || r.pinned(n.ID) || n.bad != "" {
		return false
	}
	_, fits := platform(r.d.releases[r.o.Digest], n.Node)
	return fits && r.d.online(n, r.now) && !r.d.runs(n, r.o.Digest) &&
		!n.failed(r.o.Channel, r.o.Digest, r.o.Sequence)
}

func (r *round) admit(ids []string) {
	for _, id := range ids {
		r.changed[id] = releases.Node{Rollout: r.o.Number, NodeID: id, Wave: r.o.Wave, State: stateAdmitted, AdmittedAt: r.now,
			ChangedAt: r.now}
	}
}

// stop halts a rollout in memory as soon as too many nodes have failed, so that no further heartbeat is offered it. The next round
// stores that.
func (d *Desk) stop(c *channel) {
	if c.rollout == nil || c.rollout.State != releases.Running || c.rollout.EndedAt != nil {
		return
	}
	r := &round{d: d, c: c, o: *c.rollout, now: d.Now(), changed: map[string]releases.Node{}}
	if r.halt() {
		next := r.o
		c.rollout = &next
		c.halting = true
	}
}
