// Package rollout decides how a release comes to the nodes of a channel: who is let in, when a wave is through, and when so many nodes
// have failed that nobody else is let in. It is told what is known and says what comes of it; it reads no clock and no database.
package rollout

import (
	"time"

	"muster/agent/wire"
	"muster/store/releases"
)

// States of a node in a rollout.
const (
	Admitted   = "admitted"    // let in, and not begun
	Begun      = "begun"       // it fetches, or the new version is on trial
	Committed  = "committed"   // it runs the release
	RolledBack = "rolled_back" // it went back
	Failed     = "failed"      // it could not install it
	Silent     = "silent"      // it is heard no more
	Late       = "late"        // it is heard, and did not begin, or did not get through, in a fair time
	Unwell     = "unwell"      // it runs the release, and does not do well with it
	Out        = "out"         // it left, or its window closed before it began: it may come again
)

// Active reports whether a node was let in and is not through yet.
func Active(state string) bool { return state == Admitted || state == Begun }

// Open reports whether a node may still get through. A node that counts as failed only because nothing came from it so far may.
func Open(state string) bool { return Active(state) || state == Silent || state == Late }

// Fallen reports whether a state counts as failed.
func Fallen(state string) bool {
	return state == RolledBack || state == Failed || state == Unwell || state == Silent || state == Late
}

// Times that a node has.
const (
	// LeastSilence is the least time that a node may be silent: a way back from a bad release takes up to two minutes.
	LeastSilence = wire.TrialTime + time.Minute
	// fairTime is what a node has to begin in, beyond its share of the stagger and the time in which it must be heard.
	fairTime = 5 * time.Minute
	// longTime is what a node has that waits until no task runs, or that has begun. Fetching and trial end by themselves well before.
	longTime = 6 * time.Hour

	// updatesPerSecond is how many nodes begin when many are let in at once. Each fetches an agent of 9 MB: 5 take a third of a network of
	// 1 Gbit/s, and leave the processor to the heartbeats.
	updatesPerSecond = 5
	mostStagger      = min(10*time.Minute, wire.MaxStagger)
)

// Span returns how long a node may be silent.
func Span(interval time.Duration) time.Duration { return max(3*interval, LeastSilence) }

// Stagger returns the time over which nodes nodes spread that are let in at once, in whole seconds.
func Stagger(nodes int) time.Duration {
	return min(time.Duration(nodes/updatesPerSecond)*time.Second, mostStagger)
}

// Standing is what is known of a node now.
type Standing struct {
	Name     string
	Interval time.Duration // between its heartbeats
	Belongs  bool          // it is of the channel, and not pinned
	Takes    bool          // it can get the release, now or when its window opens
	Shut     bool          // its maintenance window is closed, or cannot be read
	Online   bool
	Heard    bool // since the gateway is at work
	Missed   bool // its last heartbeats did not come
	Runs     bool // the release
	Trying   bool // it says that it is at work on the release
	Busy     bool // it says that it waits until no task runs
	Seen     time.Time
	Vitals
	Severe string // what health has found on it since it began with the release; "": nothing
}

// View is what is known of a rollout. Nobody changes it.
type View struct {
	Now     time.Time
	Since   time.Time // since when nodes can get the release: the gateway is at work without a pause, and the newest pointer is there
	Rollout releases.Rollout
	Waves   Waves
	Rows    map[string]releases.Node
	Nodes   map[string]Standing // of the channel; in it, or not, is who was let in
}

// Outcome is what follows from a View.
type Outcome struct {
	Rollout releases.Rollout
	Rows    []releases.Node // those that changed
	Told    []Told          // in the order in which it happened
}

// Told is something that happened: the rollout as it was then.
type Told struct {
	Kind string // of the event
	Wave int
	Why  string // "": there is nothing to explain
	Node string // id; "": it is about the rollout
}

// Kinds of Told.
const (
	ToldHalted = "rollout.halted"
	ToldWave   = "rollout.wave"
	ToldDone   = "rollout.done"
	ToldUnwell = "release.unwell"
)

// Look moves a rollout on as far as it goes. A rollout that is done is still watched: nodes that come to the release later are let in and
// counted with the last wave.
func Look(v View) Outcome {
	r := &round{View: v, o: v.Rollout, changed: map[string]releases.Node{}}
	r.judge()
	r.o.Forgiven = min(r.o.Forgiven, r.count().fallen) // who came back was not forgiven what it does next
	if r.o.State == releases.Done {
		r.follow()
	} else {
		r.move()
	}
	return r.outcome()
}

// Halt looks only at the rows, and reports whether too many nodes have failed.
func Halt(v View) (Outcome, bool) {
	r := &round{View: v, o: v.Rollout, changed: map[string]releases.Node{}}
	halted := Watched(r.o) && r.halt()
	return r.outcome(), halted
}

// Watched reports whether failures can halt a rollout.
func Watched(o releases.Rollout) bool {
	return o.State == releases.Done || o.State == releases.Running && o.EndedAt == nil
}

// Resume lets a paused or halted rollout go on. If it was halted, the nodes that have failed so far are accepted. Nodes that were let in
// and are not through have their whole time again: meanwhile nobody could begin, and nodes that fetched in a halt had to stop.
func Resume(v View) Outcome {
	r := &round{View: v, o: v.Rollout, changed: map[string]releases.Node{}}
	if r.o.State == releases.Halted {
		r.o.Forgiven = r.count().fallen
	}
	for id, row := range r.Rows {
		if Active(row.State) {
			row.AdmittedAt = r.Now
			row.ChangedAt = r.Now
			r.changed[id] = row
		}
	}
	r.o.State = releases.Running
	r.o.Why = ""
	return r.outcome()
}
