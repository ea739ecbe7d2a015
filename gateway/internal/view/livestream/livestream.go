// Package livestream tells readers what changes, as server-sent events. It bounds how many read at once, and ends their streams when the
// gateway stops. The caller says who may read what.
package livestream

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/httpserver/limit"
	"muster/gateway/internal/view"
)

// Bounds of live streams. Each holds a connection and two goroutines.
const (
	most      = 512
	mostOfOne = 16 // of one account; all who use the socket are one
	tooMany   = "close a console or a muster top that nobody looks at, and try again"
)

// Streams counts the live streams of all listeners, and ends them when the gateway stops: otherwise the listeners would wait for them.
type Streams struct {
	places limit.Places // by account
	ended  chan struct{}

	mu      sync.Mutex
	readers []*stream // of tasks
}

// New makes a Streams.
func New() *Streams { return &Streams{ended: make(chan struct{})} }

// Run ends all streams when ctx ends.
func (s *Streams) Run(ctx context.Context) error {
	<-ctx.Done()
	close(s.ended)
	return nil
}

// Source says where the news comes from, and how it is shown.
type Source struct {
	Tail     *audit.Tail
	Overview *view.Fleet
	Task     func(ctx context.Context, tenant, id string) (api.Task, error) // as it is now
}

// Reader says who reads a stream, and what they may see.
type Reader struct {
	Account string      // whose streams are counted together
	Nodes   view.Query  // its tenant picks tasks and events too
	Kinds   []string    // some of api.StreamKinds
	Still   func() bool // whether the reader may still read
}

// Serve answers a request with a stream, and returns when the stream ends: the reader leaves, Still says no, or the gateway stops. It
// returns an error if there is no room; then nothing is sent.
func (s *Streams) Serve(w http.ResponseWriter, r *http.Request, from Source, to Reader) error {
	leave, err := s.enter(to.Account)
	if err != nil {
		return err
	}
	defer leave()
	live := &stream{Source: from, Reader: to, w: httpserver.Patient(w), after: from.Tail.Last(),
		moves: moves{heard: make(chan string, mostMove)}}
	id := api.LastEvent(r)
	if id > 0 {
		live.after = id
	}
	if slices.Contains(to.Kinds, api.StreamTask) {
		defer s.listens(live)()
	}
	live.begin()
	live.run(r.Context(), s.ended, id > 0)
	return nil
}

// enter counts a stream of an account until leave is called.
func (s *Streams) enter(account string) (leave func(), err error) {
	switch leave, err = s.places.Enter(account, 1, mostOfOne, most); err {
	case limit.ErrOwn:
		err = wire.Refuse(wire.CodeTooManyRequests, "this account has too many live streams open", tooMany)
	case limit.ErrAll:
		err = wire.Refuse(wire.CodeTooManyRequests, "the gateway has too many live streams open", tooMany)
	}
	return leave, err
}
