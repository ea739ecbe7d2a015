// Package logs reads the logs of nodes for operators, while they look.
//
// The gateway keeps no logs. It asks the node, which sends its lines over its own connection. Each reader has a session of its own with the
// node for each source. Lines go straight through: a reader that is slower than the node holds up its own sessions, and nobody else's.
//
// What a node sends is judged line by line. A node can write nonsense into its own log and nowhere else: the source of a line is the one
// that was asked for, its sizes are bounded, and its times decide neither the order nor what is kept.
package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/httpserver/limit"
)

// Bounds.
const (
	MaxSources = 8   // that one reader reads at once
	MaxGrep    = 512 // bytes of an expression

	mostSessions = 512 // of all readers; a reader has one for each of its sources
	mostOfNode   = 64
	mostOfOne    = 16               // readers of one account; all who use the socket are one
	beat         = 15 * time.Second // between two signs of life
	usualBack    = time.Hour
)

// Config says what a Hub works with.
type Config struct {
	// Open reads a log of a node. It returns the frames of the session's channel Main. Closing the reader ends the session.
	Open func(ctx context.Context, nodeID string, p wire.LogsParams) (io.ReadCloser, error)
	Now  func() time.Time // nil: time.Now
}

// Hub connects readers with the nodes whose logs they read. It is safe for concurrent use.
type Hub struct {
	Config
	life context.Context
	stop context.CancelCauseFunc

	readers  limit.Places // by account
	sessions limit.Places // by node
}

// ErrStopped ends readers because the gateway stops.
var ErrStopped = errors.New("the gateway stops")

// New makes a Hub.
func New(c Config) *Hub {
	if c.Now == nil {
		c.Now = time.Now
	}
	h := &Hub{Config: c}
	h.life, h.stop = context.WithCancelCause(context.Background())
	return h
}

// Run ends all readers when ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	<-ctx.Done()
	h.stop(ErrStopped)
	return nil
}

// Query says which lines a reader wants.
type Query struct {
	Sources []string
	Since   time.Time // zero: all of the agent and the kernel, and the last hour of the others
	Follow  bool
	Grep    *regexp.Regexp // nil: all lines
	Limit   int            // so many of the lines that are there already, the last ones; 0: all
}

// CompileGrep compiles what a reader looks for. The expressions are those of RE2: the time of a match is at most the expression's length
// times the line's.
func CompileGrep(text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > MaxGrep {
		return nil, wire.Refuse(wire.CodeBadRequest, "the expression to look for is too long", fmt.Sprintf("at most %d bytes", MaxGrep))
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.100q is no regular expression", text),
			`the syntax is that of RE2; \. stands for a dot, and (?i) before it ignores case`)
	}
	return compiled, nil
}

// Check refuses a query that cannot be answered.
func (q Query) Check() error {
	if len(q.Sources) == 0 || len(q.Sources) > MaxSources {
		return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%d sources of logs at once", len(q.Sources)),
			fmt.Sprintf("name 1 to %d", MaxSources))
	}
	for i, source := range q.Sources {
		if err := wire.CheckLogSource(source); err != nil {
			return err
		}
		if slices.Contains(q.Sources[:i], source) {
			return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the source %q stands twice", source), "name it once")
		}
	}
	return nil
}

// Read calls each with lines of a node until the log ends, each returns an error, ctx ends or the gateway stops. While nothing comes, it
// calls each with no lines now and then, as a sign of life. who is the account under which readers are counted.
//
// An error that wraps a *wire.ErrorDetail is the last word about the log. Any other error ends only this reader.
func (h *Hub) Read(ctx context.Context, who, nodeID string, q Query, each func([]wire.LogLine) error) error {
	if err := q.Check(); err != nil {
		return err
	}
	leave, err := h.enter(who, nodeID, len(q.Sources))
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(h.life, func() { cancel(context.Cause(h.life)) })()
	r := &reader{hub: h, node: nodeID, query: q, each: each, turn: make(chan struct{}, 1), cancel: cancel}
	var alive sync.WaitGroup
	alive.Go(func() {
		for Wait(ctx, beat) {
			r.send(ctx, nil)
		}
	})
	err = r.read(ctx)
	cancel(nil)
	alive.Wait()
	return err
}

// Wait waits for a duration. It returns false if ctx ended first.
func Wait(ctx context.Context, long time.Duration) bool {
	select {
	case <-time.After(long):
		return true
	case <-ctx.Done():
		return false
	}
}

const tooMany = "close a console or a muster node logs that nobody looks at, and try again"

func (h *Hub) enter(who, nodeID string, sessions int) (leave func(), err error) {
	if h.life.Err() != nil {
		return nil, wire.Refuse(wire.CodeUnavailable, "the gateway stops", "try again when it runs")
	}
	full := func(err error, own string) error {
		if err == limit.ErrAll {
			own = "too many logs are read at once"
		}
		return wire.Refuse(wire.CodeTooManyRequests, own, tooMany)
	}
	leaveOwn, err := h.readers.Enter(who, 1, mostOfOne, mostSessions)
	if err != nil {
		return nil, full(err, "this account reads too many logs at once")
	}
	leaveNode, err := h.sessions.Enter(nodeID, sessions, mostOfNode, mostSessions)
	if err != nil {
		leaveOwn()
		return nil, full(err, "too many logs of this node are read at once")
	}
	return func() { leaveNode(); leaveOwn() }, nil
}
