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

	"muster/gateway/api"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/release/build"
	"muster/gateway/internal/release/rollout"
	"muster/store"
)

// Config says what a Service works with.
type Config struct {
	Store     *store.Store
	Artifacts *artifact.Registry
	Sign      func(payload []byte) (envelope []byte, err error) // with the gateway's release key; an error: operators keep them all
	Keys      func() []ed25519.PublicKey                        // the release keys that nodes believe now
	Now       func() time.Time                                  // nil: time.Now
	Logger    *slog.Logger                                      // nil: none
	// Severe names a severe finding of a node that was opened at a time or later; "": there is none. It must not wait. Nil: nobody looks.
	Severe func(nodeID string, since time.Time) string
	// CountAgain counts an event that comes too often, and then returns true: the Service does not record it. Nil: it records every event.
	CountAgain func(context.Context, store.Event) bool
	// Report tells a node to send its next heartbeat at once, if it can be told. It must not wait. Nil: each node reports in its own time.
	Report func(nodeID string)
	// Transport reaches other registries; nil: it uses a transport of its own.
	Transport http.RoundTripper
}

// Promotion points a channel at a release.
type Promotion struct {
	Digest  string // of a way back: "" is the previous release
	Plan    *Plan  // nil: all nodes at once
	Pointer []byte // a signed envelope, where an operator signs; nil: the gateway signs
	Seen    int64  // number of the pointer that the caller saw: another one by now is refused; 0: whatever it is
}

// Plan says in which waves nodes are let in.
type Plan = rollout.Plan

// DefaultPlan returns the plan of a promotion that names none.
func DefaultPlan() Plan { return rollout.DefaultPlan() }

// StateBehind is the state of a channel whose nodes have obeyed higher numbers than a restored database knows. It is shown in place of the
// rollout's state.
const StateBehind = "behind"

// Status is a channel with its nodes.
type Status struct {
	api.Channel
	Nodes []api.ChannelNode // by name
}

// Node is a node as its heartbeat describes it.
type Node struct {
	ID, Name, Tenant string
	OS, Arch         string
	Digest           string        // of the running program
	Interval         time.Duration // between its heartbeats
	Conflict         bool          // two machines use its identity: it gets nothing
	Vitals           rollout.Vitals
	Ends             time.Time // of the newest pointer that it knows; zero: it knows none
	TellsEnds        bool      // its agent says that, also if it knows none
}

// Ref names a node on record.
type Ref struct{ ID, Name, Tenant string }

// Credential opens another registry.
type Credential = build.Credential
