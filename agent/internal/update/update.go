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
	"context"
	"io"
	"log/slog"
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
	// Hold keeps new tasks out while none is at work. It reports false where one is at work, or where ctx is done.
	Hold func(ctx context.Context) (release func(), ok bool)
	// Elsewhere writes what an https URL gives, from this byte on, until its end. The authorization goes to that host alone. Nothing of it
	// need be proven: the digest is checked at the end. An error of the writer ends it. nil: only the gateway's own layers are fetched.
	Elsewhere func(ctx context.Context, url, authorization string, from int64, to io.Writer) error
	Restart   func() // asks for a start of what is current now. It returns at once
	News      func() // asks for a heartbeat soon; nil: nobody
	Logger    *slog.Logger
}

// Sink takes a layer as it arrives. Its error ends the transfer.
type Sink interface {
	Write(data []byte) (int, error)
}

// Work waits for tasks as the heartbeat's loop has it done.
type Work = func(ctx context.Context, state identity.State, until time.Time) error

// Updater keeps the agent at the version that its channel points at. Its methods are safe for concurrent use.
type Updater struct {
	Config
}

// New reads the record. What it cannot read counts as nothing, and is said in a notice.
func New(c Config) *Updater { return &Updater{Config: c} }

// Run follows what the gateway wants until ctx is done. An error ends the agent: it is on trial and has not proven itself in time, and
// Settle decides what is started next.
func (u *Updater) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Heard takes the proven answer to a heartbeat that was accepted. said is what Report gave for that heartbeat.
func (u *Updater) Heard(state identity.State, said *wire.Update, answer wire.HeartbeatAnswer) {}

// Report is what a heartbeat says about updates.
func (u *Updater) Report() *wire.Update { return nil }

// Pace is the longest time from one heartbeat to the next; 0: as usual.
func (u *Updater) Pace() time.Duration { return 0 }

// Waiting passes a wait for tasks on, and notes that the gateway has answered one. It ends the wait with an error that trust.Stale knows
// where a newer trust set may name the key of a release.
func (u *Updater) Waiting(wait Work) Work { return wait }

// Notices are what a person should know.
func (u *Updater) Notices() []string { return nil }
