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

// straggle is how long after its sender died a request can still arrive: the kernel goes on sending what a killed process
// left behind, at growing distances, for a minute or two.
const straggle = 2 * time.Minute

// Proof says how and when a request was proven.
type Proof struct {
	Address string
	At      time.Time // when it was made: a signature's time, or the arrival on a connection with a client certificate
	Opened  time.Time // that connection; zero: signed, or not known
}

// moment is one reading of the fleet's clock.
type moment struct {
	now time.Time
	up  time.Duration
}

// run is one start of an agent on whatever machine shows this identity. Which came first is told by the numbers of heartbeats, and
// how much later by the fleet's up time: both of them whatever the clock said meanwhile.
type run struct {
	store.Run
	began   time.Duration // when this gateway first knew of it
	life    time.Duration // when its latest proof of life was made
	heard   bool          // by this gateway
	unsaved bool
}

// lives tells that the run showed life after another one was first heard: twice, or once so late that it cannot be what a run that
// had died before then left on its way. A run that dies leaves one request at most.
func (x *run) lives(other *run) bool {
	return x.BeforeBeat > other.FirstBeat || x.LastBeat > other.FirstBeat && x.heard && x.life > other.began+straggle
}

// clash tells that two runs were alive at once: each after the other had been heard.
func clash(a, b *run) bool { return a.lives(b) && b.lives(a) }

// hear takes a heartbeat into the memory of a node's runs. Overtaken is one that a later one of its run came before.
// Clashing is another run of the same identity that is alive at the same time.
func (l *live) hear(b *wire.HeartbeatRequest, fingerprint string, p Proof, m moment) (overtaken bool, clashing *run) {
	this := l.run(b.RunID)
	switch {
	case this == nil:
		this = l.newRun(b.RunID, m)
		l.sign(this, p, m)
	case b.Counter < this.Counter:
		return true, nil
	case b.Counter > this.Counter: // one that was sent twice is no second sign of life
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

// sign counts a proof of life. One that was made before another run was first heard does not come after that, however late it
// arrives.
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

// newRun makes room for another run where there is none left: the one that was silent longest goes.
func (l *live) newRun(id string, m moment) *run {
	if len(l.runs) >= store.MaxRuns {
		oldest := slices.MinFunc(l.runs, func(a, b *run) int { return cmp.Compare(a.LastBeat, b.LastBeat) })
		l.runs = slices.DeleteFunc(l.runs, func(x *run) bool { return x == oldest })
	}
	x := &run{Run: store.Run{ID: id, First: m.now, FirstBeat: l.beats + 1}, began: m.up, unsaved: true}
	l.runs = append(l.runs, x)
	return x
}

// resave puts runs back in line that could not be written.
func (l *live) resave(rows []store.Run) {
	for _, row := range rows {
		if x := l.run(row.ID); x != nil {
			x.unsaved = true
		}
	}
}

// takeUnsaved gives the runs that have to be written.
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

// remember gives what is known of a node, reading its runs where that has not been done since it was last forgotten. The
// caller holds no lock.
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

// readRuns brings the run that goes on up to what its heartbeats left: its own row is written when it begins and ends.
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

// goOn counts what the node's row tells of the run that goes on. Of its heartbeats since its own row was written two at most matter.
func (l *live) goOn(node store.Node, up time.Duration) {
	going := l.run(node.RunID)
	if going == nil { // heard before runs were recorded: since when is not known, but for long
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

// runs gives the runs of a node that memory has, the one that was heard last first; nil: none.
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
