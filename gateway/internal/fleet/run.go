package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/reading"
	"muster/store"
)

// straggle is how long after its sender died a request can still arrive. The kernel sends the last data of a killed process
// again and again, at growing distances, for a minute or two.
const straggle = 2 * time.Minute

// Proof says how and when a request was proven.
type Proof struct {
	Address string
	At      time.Time // when it was made: the time in the signature; on a connection with a client certificate, the arrival
	Opened  time.Time // when that connection was opened; zero: the request was signed, or this is not known
}

// moment is one reading of the fleet's clock.
type moment struct {
	now time.Time
	up  time.Duration
}

// run is one start of an agent, on any machine that uses this identity. The numbers of the heartbeats say which one came first.
// The clock's up time says how much later the other came. Setting the clock changes neither.
type run struct {
	store.Run
	began   time.Duration // when this gateway first knew of the run, in up time
	life    time.Duration // when its latest proof of life was made, in up time
	heard   bool          // this gateway has heard it since its own start
	unsaved bool          // its row in the database is older
}

// lives is true where the run showed life after the other run was first heard. A run that dies leaves one request on its way at
// most. So two proofs of life are enough. One is enough if it was made too long after the other run began to be such a request.
func (x *run) lives(other *run) bool {
	return x.BeforeBeat > other.FirstBeat || x.LastBeat > other.FirstBeat && x.heard && x.life > other.began+straggle
}

// clash is true where two runs were alive at the same time: each showed life after the other was first heard.
func clash(a, b *run) bool { return a.lives(b) && b.lives(a) }

// hear adds a heartbeat to the node's runs. It is overtaken if a later heartbeat of the same run arrived before it. Clashing is
// another run of the same identity that is alive at the same time; nil: there is none.
func (l *live) hear(b *wire.HeartbeatRequest, fingerprint string, p Proof, m moment) (overtaken bool, clashing *run) {
	this := l.run(b.RunID)
	switch {
	case this == nil:
		this = l.newRun(b.RunID, m)
		l.sign(this, p, m)
	case b.Counter < this.Counter:
		return true, nil
	case b.Counter > this.Counter: // an equal counter is the same heartbeat, sent again: no second proof of life
		l.sign(this, p, m)
	}
	this.Counter = b.Counter
	this.Fingerprint = fingerprint
	this.Address = p.Address
	if former := l.run(l.current); former != nil && former != this {
		former.unsaved = true
		this.unsaved = true
	}
	l.current = b.RunID
	for _, other := range l.runs {
		if other != this && clash(this, other) {
			return false, other
		}
	}
	return false, nil
}

// sign counts a proof of life. The time when it was made decides its number, not the arrival: a proof that was made before
// another run was first heard gets no higher number than that run's first heartbeat.
func (l *live) sign(x *run, p Proof, m moment) {
	l.beats++
	number := l.beats
	made := m.up - max(m.now.Sub(p.At), 0)
	for _, other := range l.runs {
		if other != x && made < other.began {
			number = min(number, other.FirstBeat)
		}
	}
	if number <= x.LastBeat {
		return
	}
	x.Before = x.Last
	x.Last = p.At
	x.BeforeBeat = x.LastBeat
	x.LastBeat = number
	x.life = made
	x.heard = true
}

func (l *live) run(id string) *run {
	for _, x := range l.runs {
		if x.ID == id {
			return x
		}
	}
	return nil
}

// newRun adds a run. If there are too many, the run that has been silent longest goes.
func (l *live) newRun(id string, m moment) *run {
	if len(l.runs) >= store.MaxRuns {
		oldest := slices.MinFunc(l.runs, func(a, b *run) int { return cmp.Compare(a.LastBeat, b.LastBeat) })
		l.runs = slices.DeleteFunc(l.runs, func(x *run) bool { return x == oldest })
	}
	x := &run{Run: store.Run{ID: id, First: m.now, FirstBeat: l.beats + 1}, began: m.up, unsaved: true}
	l.runs = append(l.runs, x)
	return x
}

// resave marks runs that could not be written for the next flush.
func (l *live) resave(rows []store.Run) {
	for _, row := range rows {
		if x := l.run(row.ID); x != nil {
			x.unsaved = true
		}
	}
}

// takeUnsaved returns the runs whose rows are old, and marks them as written.
func (l *live) takeUnsaved() []store.Run {
	var rows []store.Run
	for _, x := range l.runs {
		if x.unsaved {
			rows = append(rows, x.Run)
			x.unsaved = false
		}
	}
	return rows
}

// remember makes sure that memory has the node, and reads its runs from the database if it does not. Without that a restart of
// the gateway would hide a copy. The database is read without the lock, so another call may be first: its result then stays.
// The caller holds no lock.
func (f *Fleet) remember(ctx context.Context, nodeID string) error {
	f.beats.Lock()
	l := f.beats.live[nodeID]
	f.beats.Unlock()
	if l != nil {
		return nil
	}
	fresh, err := f.readRuns(ctx, nodeID)
	if err != nil {
		return err
	}
	f.beats.Lock()
	defer f.beats.Unlock()
	if f.beats.live[nodeID] == nil {
		f.beats.live[nodeID] = fresh
	}
	return nil
}

// readRuns reads a node's runs. A run's row is written only when the run begins and ends. So the node's own row, which every
// heartbeat changes, completes the run that still goes on.
func (f *Fleet) readRuns(ctx context.Context, nodeID string) (*live, error) {
	rows, err := f.store.Runs(ctx, nodeID)
	if err != nil {
		return nil, err
	}
	node, err := f.store.Node(ctx, "", nodeID)
	if err != nil {
		return nil, err
	}
	up := f.clock.Up()
	l := &live{current: node.RunID, touched: up}
	if l.ills, _ = reading.Health(node.Hardware); len(l.ills) > 0 {
		l.illHash = illUnread
	}
	for _, row := range rows {
		l.runs = append(l.runs, &run{Run: row, began: up})
		l.beats = max(l.beats, row.FirstBeat, row.LastBeat)
	}
	if node.RunID != "" && node.LastSeen != nil {
		l.goOn(node, up)
	}
	return l, nil
}

// goOn adds to the run that goes on what the node's row knows. It counts two of the newer heartbeats at most: lives needs no more.
func (l *live) goOn(node store.Node, up time.Duration) {
	going := l.run(node.RunID)
	if going == nil { // heard before the database kept runs: its beginning is not known, so it comes before all others
		going = l.newRun(node.RunID, moment{up: up})
		going.FirstBeat = 0
	}
	if node.LastSeen.After(going.Last) {
		going.Before = going.Last
		going.Last = *node.LastSeen
	}
	for range min(max(node.Counter, going.Counter)-going.Counter, 2) {
		l.beats++
		going.BeforeBeat = going.LastBeat
		going.LastBeat = l.beats
	}
	going.Counter = max(going.Counter, node.Counter)
}

// runs returns the runs of a node that memory has; the one that was heard last comes first. Nil: memory has none.
func (f *Fleet) runs(nodeID string) []store.Run {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.beats.live[nodeID]
	if l == nil {
		return nil
	}
	var rows []store.Run
	for _, x := range l.runs {
		rows = append(rows, x.Run)
	}
	slices.SortStableFunc(rows, func(a, b store.Run) int { return cmp.Compare(b.LastBeat, a.LastBeat) })
	return rows
}
