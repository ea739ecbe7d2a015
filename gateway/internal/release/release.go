// Package release decides which agent each node should run. It makes releases of what lies in a registry, points channels at them with
// signed pointers, lets the nodes in wave by wave, and stops by itself where too many of them fail.
//
// The database is the truth. What is in memory repeats it, so that a heartbeat costs no query, and knows of each node what its last
// heartbeat said. A restart builds it anew.
package release

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"time"

	"muster/gateway/internal/artifact"
	"muster/gateway/internal/release/build"
	"muster/gateway/internal/release/rollout"
	"muster/store"
	"muster/store/releases"
)

// Config says what a Desk works with.
type Config struct {
	Store     *store.Store
	Artifacts *artifact.Registry
	Sign      func(payload []byte) (envelope []byte, err error) // with the gateway's release key; an error: operators keep them all
	Keys      func() []ed25519.PublicKey                        // the release keys that nodes believe now
	Now       func() time.Time                                  // nil: time.Now
	Logger    *slog.Logger                                      // nil: none
	// Severe names a severe finding of a node that was opened at a time or later; "": there is none. It must not wait. Nil: nobody looks.
	Severe func(nodeID string, since time.Time) string
	// CountAgain counts an event that comes too often, and then returns true: the Desk does not record it. Nil: it records every event.
	CountAgain func(context.Context, store.Event) bool
	// Transport reaches registries elsewhere; nil: the usual one.
	Transport http.RoundTripper
}

// Release is a release as operators see it.
type Release struct {
	releases.Release
	Channels []string // that point at it
	SignedBy string   // id of the key that signed the newest of their pointers; "": none does
}

// Addition makes a release of what is in a registry.
type Addition struct {
	Digest     string
	Version    string // "": as the index says
	Reference  string // "", a repository of this registry, or host/repository
	Credential string // name of the stored credential for another registry; "": none
}

// Promotion points a channel at a release.
type Promotion struct {
	Digest  string // of a way back: "" is the release before
	Plan    *Plan  // nil: all nodes at once
	Pointer []byte // a signed envelope, where an operator signs; nil: the gateway signs
	Seen    int64  // number of the pointer that the caller saw: another one by now is refused; 0: whatever it is
}

// Plan says in which waves nodes are let in.
type Plan = rollout.Plan

// DefaultPlan is the plan of a promotion that names none.
func DefaultPlan() Plan { return rollout.DefaultPlan() }

// StateBehind is the state of a channel whose nodes have obeyed higher numbers than a restored database knows. It is told in place of its
// rollout's state.
const StateBehind = "behind"

// Channel is a channel as operators see it.
type Channel struct {
	releases.Channel
	Version  string
	SignedBy string // id of the key that signed its pointer
	Expires  time.Time
	State    string // of its newest rollout, or StateBehind; "": it never had one
	Why      string
	Wave     int // from 1; 0: none
	Waves    int
	NextAt   *time.Time // when the next wave begins; nil: it is not known, or there is none
	Counts   Counts
	Sign     string // what an operator has to sign so that the channel goes on; "": nothing
	Note     string // what this change ended, or why it changed nothing, for a person; "": there is nothing to say
}

// Counts are how many nodes of a channel stand where.
type Counts = rollout.Counts

// Status is a channel with its nodes.
type Status struct {
	Channel
	Rollout *releases.Rollout // the newest; nil: there was none
	Plan    *Plan
	Nodes   []NodeStatus // by name
}

// NodeStatus is a node of a channel.
type NodeStatus struct {
	ID, Name, Tenant string
	Wave             int    // from 1; 0: it was not let in
	State            string // one of the words of Counts, in lower case
	Phase            string // that it last said of this release
	Code             string
	Detail           string
	Log              string // the last lines of a version that it went back from
	Held             string // why it gets nothing now, for a person
	At               *time.Time
	Running          string // digest of the program that it runs
}

// Node is a node as its heartbeat describes it.
type Node struct {
	ID, Name, Tenant string
	OS, Arch         string
	Digest           string        // of the running program
	Interval         time.Duration // between its heartbeats
	Conflict         bool          // two machines use its identity: it gets nothing
	Vitals           rollout.Vitals
}

// Ref names a node on record.
type Ref struct{ ID, Name, Tenant string }

// Pin is a pinned node.
type Pin struct {
	releases.Pin
	Node    Ref
	Version string // of its own release
}

// Credential opens a registry elsewhere.
type Credential = build.Credential
