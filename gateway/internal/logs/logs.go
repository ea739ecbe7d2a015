// Package logs reads the logs of nodes for operators, while they look.
//
// The gateway keeps no logs. It asks the node, which sends its lines over its own connection. Readers who follow the same source of one
// node share one stream: the node sends each line once. The stream keeps its last lines in memory. It never waits for a reader: one that
// is slower than the node misses lines, and is told how many.
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
)

// Bounds. A ring of a stream is the smaller the more streams there are, so that all of them together keep within budget.
const (
	MaxSources = 8       // that one reader reads at once
	MaxGrep    = 512     // bytes of an expression
	MaxLines   = 100_000 // that a reader can ask for as the last ones

	ringBytes       = 4 << 20
	budget          = 256 << 20 // bytes that all rings keep together
	mostReaders     = 256
	mostOfOne       = 16 // readers of one account; all who use the socket are one
	mostStreams     = 256
	mostNodeStreams = 16
	linger          = 5 * time.Second  // how long a stream outlives its last reader
	beat            = 15 * time.Second // between two signs of life
	portion         = 256              // lines that a reader gets at once
	usualBack       = time.Hour
)

// Config says what a Hub works with.
type Config struct {
	// Open reads a log of a node. It gives the frames of the session's channel Main. Close ends the session.
	Open func(ctx context.Context, nodeID string, p wire.LogsParams) (io.ReadCloser, error)
	Now  func() time.Time // nil: time.Now
}

// Hub is where readers and nodes meet. It is safe for concurrent use.
type Hub struct {
	Config
	life context.Context
	stop context.CancelCauseFunc

	mu      sync.Mutex
	readers int
	by      map[string]int // readers by account
	streams []*stream
}

// ErrStopped ends readers because the gateway stops.
var ErrStopped = errors.New("the gateway stops")

// New makes a Hub.
func New(c Config) *Hub {
	if c.Now == nil {
		c.Now = time.Now
	}
	h := &Hub{Config: c, by: map[string]int{}}
	h.life, h.stop = context.WithCancelCause(context.Background())
	return h
}

// Run ends all readers and streams when ctx ends.
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

// CompileGrep compiles what a reader looks for. The expressions are those of RE2: none takes longer than its length times the line's.
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

// Check refuses what cannot be read.
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

// Read calls each with lines of a node until the log ends, each returns an error, ctx ends or the gateway stops. While nothing comes it
// is called with no lines now and then, as a sign of life. who is the account whose readers are counted together.
//
// An error that wraps a *wire.ErrorDetail is the last word about the log. Others end this reader alone.
func (h *Hub) Read(ctx context.Context, who, nodeID string, q Query, each func([]wire.LogLine) error) error {
	if err := q.Check(); err != nil {
		return err
	}
	if err := h.enter(who); err != nil {
		return err
	}
	defer h.leave(who)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.life, func() { cancel(context.Cause(h.life)) })()
	r := &reader{hub: h, node: nodeID, query: q, each: each, out: make(chan []wire.LogLine)}
	if q.Follow {
		return r.follow(ctx)
	}
	return r.once(ctx)
}

const tooMany = "close a console or a muster node logs that nobody looks at, and try again"

func (h *Hub) enter(who string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.life.Err() != nil:
		return wire.Refuse(wire.CodeUnavailable, "the gateway stops", "try again when it runs")
	case h.by[who] >= mostOfOne:
		return wire.Refuse(wire.CodeTooManyRequests, "this account reads too many logs at once", tooMany)
	case h.readers >= mostReaders:
		return wire.Refuse(wire.CodeTooManyRequests, "too many logs are read at once", tooMany)
	}
	h.readers++
	h.by[who]++
	return nil
}

func (h *Hub) leave(who string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers--
	if h.by[who]--; h.by[who] == 0 {
		delete(h.by, who)
	}
}

// since is from when on a source is read.
func (h *Hub) since(q Query, source string) time.Time {
	if q.Since.IsZero() && source != wire.LogAgent && source != wire.LogKernel {
		return h.Now().Add(-usualBack)
	}
	return q.Since
}

// join gives a stream that has what the query asks for: one that runs, or a new one. The caller leaves it by part.
func (h *Hub) join(nodeID, source string, q Query) (*stream, error) {
	since := h.since(q, source)
	h.mu.Lock()
	defer h.mu.Unlock()
	ofNode := 0
	for _, s := range h.streams {
		if s.node != nodeID {
			continue
		}
		ofNode++
		if s.source == source && s.covers(since, q) {
			s.readers++
			return s, nil
		}
	}
	if ofNode >= mostNodeStreams || len(h.streams) >= mostStreams {
		return nil, wire.Refuse(wire.CodeTooManyRequests, "too many logs are read at once", tooMany)
	}
	s := newStream(h, nodeID, source, since)
	s.readers = 1
	h.streams = append(h.streams, s)
	h.shrink()
	go s.run()
	return s, nil
}

// part ends that a reader reads a stream. Without readers the stream ends soon.
func (h *Hub) part(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.readers--
	if s.readers == 0 {
		time.AfterFunc(linger, func() { h.drop(s, false) })
	}
}

// drop forgets a stream that has ended, or one that nobody reads.
func (h *Hub) drop(s *stream, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !ended && s.readers > 0 {
		return
	}
	s.cancel(errUnread)
	h.streams = slices.DeleteFunc(h.streams, func(other *stream) bool { return other == s })
	h.shrink()
}

var errUnread = errors.New("nobody reads this log any more")

// shrink shares the memory among the streams. The lock is held.
func (h *Hub) shrink() {
	share := min(ringBytes, budget/max(len(h.streams), 1))
	for _, s := range h.streams {
		s.bound(share)
	}
}
