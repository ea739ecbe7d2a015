// Package clash tells when two agents live at the same time with the identity of one node.
//
// A Runs has the runs of one node. Each heartbeat is a proof of life of its run. Two runs clash where each showed life after the other was
// first heard: an agent that starts again ends its earlier run, so this needs a second machine.
package clash

import (
	"cmp"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/httpserver/limit/uptime"
	"muster/store"
)

// Straggle is how long after its sender died a request can still arrive. The kernel sends the last data of a killed process
// again and again, at growing distances, for a minute or two.
const Straggle = 2 * time.Minute

// Proof says how and when a request was proven.
type Proof struct {
	Address string
	At      time.Time // when it was made: the time in the signature; on a connection with a client certificate, the arrival
	Opened  time.Time // when that connection was opened; zero: the request was signed, or this is not known
}

// Moment is one reading of the gateway's clock.
type Moment struct {
	Now time.Time
	Up  time.Duration
}

// Runs has the runs of one node. The zero value has none. Its owner guards it.
type Runs struct {
	current string // the run that was heard last
	runs    []*run
	beats   int64 // how many proofs of life were counted, over all runs; it orders them
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

// lives is true if the run showed life after the other run was first heard. A run that dies leaves one request on its way at
// most. So two proofs of life are enough. One is enough if it was made too long after the other run began to be such a request.
func (x *run) lives(other *run) bool {
	return x.BeforeBeat > other.FirstBeat || x.LastBeat > other.FirstBeat && x.heard && x.life > other.began+Straggle
}

// clashes is true if two runs were alive at the same time: each showed life after the other was first heard.
func clashes(a, b *run) bool { return a.lives(b) && b.lives(a) }

// Hear adds a heartbeat to the node's runs. overtaken is true if a later heartbeat of the same run arrived before it. clashing is another
// run of the same identity that is alive at the same time; nil: there is none.
func (b *Runs) Hear(beat *wire.HeartbeatRequest, fingerprint string, p Proof, m Moment) (overtaken bool, clashing *store.Run) {
	this := b.run(beat.RunID)
	switch {
	case this == nil:
		this = b.newRun(beat.RunID, m)
		b.sign(this, p, m)
	case beat.Counter < this.Counter:
		return true, nil
	case beat.Counter > this.Counter: // an equal counter is the same heartbeat, sent again: no second proof of life
		b.sign(this, p, m)
	}
	this.Counter = beat.Counter
	this.Fingerprint = fingerprint
	this.Address = p.Address
	if former := b.run(b.current); former != nil && former != this {
		former.unsaved = true
		this.unsaved = true
	}
	b.current = beat.RunID
	for _, other := range b.runs {
		if other != this && clashes(this, other) {
			row := other.Run // a copy: the original may change later
			return false, &row
		}
	}
	return false, nil
}

// sign counts a proof of life. The time when it was made decides its number, not the arrival: a proof that was made before
// another run was first heard gets no higher number than that run's first heartbeat.
func (b *Runs) sign(x *run, p Proof, m Moment) {
	b.beats++
	number := b.beats
	made := m.Up - max(m.Now.Sub(p.At), 0)
	for _, other := range b.runs {
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

func (b *Runs) run(id string) *run {
	for _, x := range b.runs {
		if x.ID == id {
			return x
		}
	}
	return nil
}

// newRun adds a run. If there are too many, the run that has been silent longest goes.
func (b *Runs) newRun(id string, m Moment) *run {
	if len(b.runs) >= store.MaxRuns {
		oldest := slices.MinFunc(b.runs, func(a, b *run) int { return cmp.Compare(a.LastBeat, b.LastBeat) })
		b.runs = slices.DeleteFunc(b.runs, func(x *run) bool { return x == oldest })
	}
	x := &run{Run: store.Run{ID: id, First: m.Now, FirstBeat: b.beats + 1}, began: m.Up, unsaved: true}
	b.runs = append(b.runs, x)
	return x
}

// Resave marks runs that could not be written for the next flush.
func (b *Runs) Resave(rows []store.Run) {
	for _, row := range rows {
		if x := b.run(row.ID); x != nil {
			x.unsaved = true
		}
	}
}

// TakeUnsaved returns the runs whose rows are old, and marks them as written.
func (b *Runs) TakeUnsaved() []store.Run {
	var rows []store.Run
	for _, x := range b.runs {
		if x.unsaved {
			rows = append(rows, x.Run)
			x.unsaved = false
		}
	}
	return rows
}

// Read makes the runs of a node from what the database has. A run's row is written only when the run begins and ends. So the node's own
// row, which every heartbeat changes, completes the run that still goes on.
func Read(node store.Node, rows []store.Run, up time.Duration) Runs {
	b := Runs{current: node.RunID}
	for _, row := range rows {
		b.runs = append(b.runs, &run{Run: row, began: up})
		b.beats = max(b.beats, row.FirstBeat, row.LastBeat)
	}
	if node.RunID != "" && node.LastSeen != nil {
		b.goOn(node, up)
	}
	return b
}

// goOn adds to the run that goes on what the node's row knows. It counts two of the newer heartbeats at most: lives needs no more.
func (b *Runs) goOn(node store.Node, up time.Duration) {
	going := b.run(node.RunID)
	if going == nil { // heard before the database kept runs: its beginning is not known, so it comes before all others
		going = b.newRun(node.RunID, Moment{Up: up})
		going.FirstBeat = 0
	}
	if node.LastSeen.After(going.Last) {
		going.Before = going.Last
		going.Last = *node.LastSeen
	}
	for range min(max(node.Counter, going.Counter)-going.Counter, 2) {
		b.beats++
		going.BeforeBeat = going.LastBeat
		going.LastBeat = b.beats
	}
	going.Counter = max(going.Counter, node.Counter)
}

// Rows returns all runs; the one that was heard last comes first.
func (b *Runs) Rows() []store.Run {
	var rows []store.Run
	for _, x := range b.runs {
		rows = append(rows, x.Run)
	}
	slices.SortStableFunc(rows, func(a, b store.Run) int { return cmp.Compare(b.LastBeat, a.LastBeat) })
	return rows
}

// SetBack corrects the times of the runs after the clock was set back. See uptime.SetBack.
func (b *Runs) SetBack(now time.Time, by time.Duration) {
	for _, x := range b.runs {
		for _, at := range []*time.Time{&x.First, &x.Last, &x.Before} {
			*at = uptime.SetBack(*at, now, by)
		}
	}
}
