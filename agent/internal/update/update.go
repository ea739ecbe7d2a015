// Package update is how an agent takes another version of itself, and comes back from one that is no good.
//
// An Updater runs in every agent. It fetches what a signed pointer names, installs it beside the version that runs, and asks for a
// restart. The new version is on trial then. It is the good version once it has lived for a while and the gateway has provably accepted
// its heartbeats and answered a wait for tasks. Settle is the other half. The last good version runs it before every start of the agent,
// so a version that does not even start cannot stop the way back.
//
// What both know is in one Record on the disk, and in the two links of a service.Layout. Every step may be the last one before the power
// fails: the record is written before the link that it is about changes.
package update

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// Config is what an Updater works with. Its functions are called from the goroutine of Run.
type Config struct {
	Client   *transport.Client
	State    identity.State // at the start; later it comes with each Heard
	Folder   string         // the agent's state directory
	Policies []string       // files, the first that is there counts
	Digest   string         // of the program that runs, as wire.AgentInfo has it
	// Hold keeps new tasks out while none is at work. It returns false if one is at work, or if ctx is done.
	Hold func(ctx context.Context) (release func(), ok bool)
	// Answered reports whether the gateway has provably answered a wait for tasks in this run, or nothing is asked for on a full disk.
	Answered func() bool
	// Elsewhere writes the content of an https URL, from byte from on, to a writer. The authorization goes only to that host. Nothing
	// proves the content: the caller checks the digest at the end. An error of the writer ends it. nil: only the gateway's own layers are
	// fetched.
	Elsewhere func(ctx context.Context, url, authorization string, from int64, to io.Writer) error
	Restart   func() // asks for a start of what is current now. It returns at once
	News      func() // asks for a heartbeat soon; nil: nobody
	Logger    *slog.Logger
}

// Work waits for tasks as the heartbeat's loop has it done.
type Work = func(ctx context.Context, state identity.State, until time.Time) error

// Updater keeps the agent at the version that its channel points at. Its methods are safe for concurrent use.
type Updater struct {
	Config
	files
	clock   clock
	free    func() (int64, error) // bytes on the disk
	build   string                // that runs, as the layout names it; empty: this program is not installed, and does not update itself
	started time.Time
	wake    chan struct{} // one entry is enough

	mu      sync.Mutex
	state   identity.State
	record  Record
	dirty   bool               // the record has to be saved
	offer   string             // the release that the last heartbeat's answer named
	changed bool               // what is wanted, or whom to believe, has changed
	stop    context.CancelFunc // ends what is being done about the last offer; nil: nothing is
	going   *wire.Update       // held or fetching; nil: neither
	proof   *proof             // of a version on trial; nil: this one is not
	trouble string             // a notice
	damaged []string           // notices about files that this run could not read

	first    wanted // whose share of the stagger is counted
	firstAt  time.Time
	testTime time.Duration // of the self-test
	tries    int           // fetches that failed in a row
	doubted  int64         // number of the trust set by which a pointer was not believed
	begun    bool          // a new version is on trial, and this process is about to end
	heard    chan struct{} // is closed when the gateway has heard that a trial begins; nil: nobody waits for that
	shown    *os.File      // whose lock says that this version has proven itself; nil: none does
}

// proof is what a version on trial has shown in this process.
type proof struct {
	beats    int
	first    time.Time // when the first of them was accepted
	answered bool      // one wait for tasks, or the gateway lets this node not wait
}

// New reads the record. If it cannot read something, that counts as nothing, and a notice says so.
func New(c Config) *Updater {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	u := &Updater{Config: c, files: newFiles(c.Folder), clock: systemClock, state: c.State, started: time.Now(), wake: make(chan struct{}, 1)}
	u.free = u.room
	u.testTime = selfTestTime
	if build := strings.TrimPrefix(c.Digest, digestPrefix); build != "" && build == u.Current() {
		u.build = build
	}
	u.recall()
	u.enrolled()
	u.takeUp()
	return u
}

// recall reads what the disk knows of updates. A damaged file is named for as long as this run lasts: the next save replaces it.
func (u *Updater) recall() {
	record, err := u.load()
	u.record = record
	if _, unread := u.loadFloors(); unread != nil {
		u.damaged = append(u.damaged, "the second copy of the releases' numbers is lost: "+unread.Error())
	}
	if err != nil {
		u.damaged = append(u.damaged, "what was known of updates is lost, but for the releases' numbers: "+err.Error())
	}
	for _, text := range u.damaged {
		u.Logger.Warn(text)
	}
}

// enrolled makes the record that of this enrolment. Another gateway may have numbers of its own.
func (u *Updater) enrolled() {
	r := &u.record
	if r.Node != u.state.NodeID {
		r.Node = u.state.NodeID
		r.Channel = ""
		r.Ends = nil
		r.Floors = nil
		r.Failed = nil
	}
	if r.Channel == "" {
		r.Channel = u.state.Gateway.Channel
	}
	r.raise(u.state.Gateway.Channel, u.state.Gateway.ChannelSequence)
}

// takeUp goes on where the record says that an update stopped.
func (u *Updater) takeUp() {
	l := &u.record.Last
	switch {
	case u.build == "":
		return
	case l.Phase == wire.UpdateRolledBack && l.To != "" && l.To != u.build: // the way back is complete: from now on a person may install it
		if u.Good() == l.To && u.SetGood(u.build) != nil { // but for this link, which the disk did not take
			return
		}
		l.To = ""
	case l.Phase != wire.UpdateTrial:
		return
	case l.To == u.build && u.Good() == u.build: // the power failed between the link and the record
		u.record.end(wire.UpdateCommitted, "", "")
		u.keepBefore()
	case l.To == u.build:
		u.proof = &proof{}
		return
	case l.Trial != nil && l.Trial.Starts > 0 && l.Release != "" && l.From == u.build:
		l.Log = u.failedLog(l.Trial)
		u.record.fail(l.Channel, l.Release, l.About)
		u.record.end(wire.UpdateRolledBack, wire.UpdateNoRoom, "the node went back, and could not write why")
	default: // the power failed before it began, or another version was installed by hand
		u.record.Last = Last{}
	}
	u.dirty = true
}

// keepBefore keeps the previous version on the disk. If the link cannot be renamed, it stays by its old name, until the next update begins.
func (u *Updater) keepBefore() {
	if err := u.KeepBefore(); err != nil {
		u.Logger.Warn("the version before may not be kept for long", "error", err)
	}
}

// Heard takes the proven answer to a heartbeat that was accepted. said is what Report gave for that heartbeat.
func (u *Updater) Heard(state identity.State, said *wire.Update, answer wire.HeartbeatAnswer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !bytes.Equal(state.Gateway.Trust, u.state.Gateway.Trust) {
		u.changed = true
	}
	u.state = state
	u.dirty = u.record.stays(u.build) || u.dirty
	u.learnChannel(answer)
	if answer.Release != u.offer {
		u.offer = answer.Release
		u.changed = true
	}
	if l := &u.record.Last; said != nil && wire.UpdateEnded(said.Phase) && !l.Told && said.Phase == l.Phase && said.Release == l.Release &&
		said.About == l.About {
		l.Told = true
		l.Log = ""
		u.dirty = true
	}
	if u.heard != nil && said != nil && said.Phase == wire.UpdateTrial {
		close(u.heard)
		u.heard = nil
	}
	if u.proof != nil {
		if u.proof.beats == 0 {
			u.proof.first = time.Now()
		}
		u.proof.beats++
		u.proof.answered = u.proof.answered || slices.Contains(answer.StateReasons, wire.ReasonConflict) // then it is given no wait
	}
	if u.changed && u.stop != nil {
		u.stop()
	}
	u.poke()
}

// learnChannel takes over which channel this node follows, and from which number on.
func (u *Updater) learnChannel(answer wire.HeartbeatAnswer) {
	if answer.Channel == "" || len(answer.Channel) > wire.MaxChannel {
		return
	}
	if answer.Channel != u.record.Channel {
		u.record.Channel = answer.Channel
		u.record.Ends = nil
		u.changed = true
		u.dirty = true
	}
	u.dirty = u.record.raise(answer.Channel, answer.ChannelSequence) || u.dirty
}

// Report returns what a heartbeat says about updates. It is nil if this program does not update itself, because it is not installed.
func (u *Updater) Report() *wire.Update {
	if u.build == "" {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	said := u.record.Said()
	switch l := u.record.Last; {
	case u.going != nil:
		said.Release, said.About, said.Phase = u.going.Release, u.going.About, u.going.Phase
		said.Code, said.Detail = u.going.Code, u.going.Detail
	case l.Phase == wire.UpdateTrial || wire.UpdateEnded(l.Phase) && !l.Told:
		said.Log = l.Log
	default:
		said = wire.Update{Channel: said.Channel, Sequence: said.Sequence}
	}
	return &said
}

// Pace returns the longest time from one heartbeat to the next; 0: as usual.
func (u *Updater) Pace() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.proof != nil {
		return wire.TrialBeat
	}
	return 0
}

// Spare returns how long a version on trial may leave the gateway alone if that asks for it: in the first trial time not at all, because
// the previous version may reach the gateway meanwhile. If the previous version did not either, the gateway has trouble, and all nodes ask
// it at once; then it is the rest of the time except its end, in which a gateway that is back must be heard.
func (u *Updater) Spare() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.record.Last.Trial
	if u.proof == nil || t == nil || t.Extended == 0 {
		return 0
	}
	return max(t.left(u.clock)-spareEnd, 0)
}

// Waiting passes a wait for tasks on, and looks whether the gateway has answered one.
func (u *Updater) Waiting(wait Work) Work {
	return func(ctx context.Context, state identity.State, until time.Time) error {
		err := wait(ctx, state, until)
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.proof != nil && u.Answered() {
			u.proof.answered = true
			u.poke()
		}
		return err
	}
}

// Ends returns when the newest pointer that this node has believed ends; nil: it has seen none. A pointer that does not come tells nothing
// else: its end is how a node notices a gateway that holds releases back.
func (u *Updater) Ends() *time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.record.Ends
}

// Notices returns what a person should know.
func (u *Updater) Notices() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := slices.Clone(u.damaged)
	if end := u.record.Ends; end != nil && (!u.Client.Now().Before(*end) || !u.Client.Local().Before(*end)) { // by either clock
		all = append(all, "the newest pointer of its release that it was given ended at "+end.UTC().Format(time.RFC3339)+
			": the gateway may hold newer ones back")
	}
	if u.trouble != "" {
		all = append(all, u.trouble)
	}
	return all
}

// note sets the notice, and logs it where it is new. An empty text ends it.
func (u *Updater) note(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if text != "" && text != u.trouble {
		u.Logger.Warn(text)
	}
	u.trouble = text
}

// poke wakes Run.
func (u *Updater) poke() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *Updater) news() {
	if u.News != nil {
		u.News()
	}
}
