// Package inventory knows what nodes can give: it asks them for evidence, judges that by their profiles, makes slots of it, and has people
// and rules approve the slots. Package placement decides who has a slot; it says so here, and chooses from here.
//
// The database decides. What is in memory is what the database has of the nodes, so that a choice among ten thousand slots costs no query.
// Whoever changes the database has the nodes read again.
package inventory

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"muster/gateway/api"
	"muster/store"
	records "muster/store/placement"
)

// ByGateway is the actor of changes that nobody asked for.
const ByGateway = "gateway"

// Order asks for a task of one node.
type Order struct {
	ID      string // the same again makes no second task
	NodeID  string
	Type    string
	Params  any
	Expires time.Duration
	By      store.Actor
	May     func(taskType string) error // refuses what the caller may not ask for; nil: anything
}

// Config says what a Service works with.
type Config struct {
	Store   *store.Store
	Records records.Records

	// These functions know the nodes. They must not wait.
	Ready func() bool                          // all nodes are known
	Node  func(id string) (*api.NodeRow, bool) // as it is known now
	Nodes func() []*api.NodeRow                // all that are not retired

	Placed func(nodeID string, p *api.NodePlacement) // gets a node's place when it has changed, and must not wait
	Send   func(ctx context.Context, o Order) error  // makes a task
	Cancel func(ctx context.Context, task string, by store.Actor) error
	// Taken returns the UUIDs of the GPUs of a node that somebody uses without an allocation.
	Taken func(row *api.NodeRow) []string

	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: nothing is logged
}

// Caller is who asks.
type Caller struct {
	Account string // as allocations name their owner
	Tenant  string // empty: of all tenants
	By      store.Actor
	Write   bool // may also change what belongs to others
}

// Service is safe for concurrent use.
type Service struct {
	Config
	wake    chan struct{} // holds one token while there is something to do
	reading sync.Mutex    // held from before nodes are read until they are in memory, so that the newest comes last
	serving sync.Mutex    // one choice at a time

	mu       sync.Mutex // guards all below
	nodes    map[string]*node
	again    map[string]bool // nodes that have enrolled anew
	claims   uint64          // that were written since the start
	pushed   map[string]api.Profile
	rules    []rule
	accepted map[string]figures // by node
	told     bool               // the view was told of all nodes since it has them all
}

// Open makes a Service that goes on with what the database has.
func Open(ctx context.Context, c Config) (*Service, error) {
	s := &Service{Config: c, wake: make(chan struct{}, 1), nodes: map[string]*node{}, again: map[string]bool{}, accepted: map[string]figures{}}
	if s.Now == nil {
		s.Now = time.Now
	}
	s.Logger = cmp.Or(s.Logger, slog.New(slog.DiscardHandler))
	if err := errors.Join(s.readProfiles(ctx), s.readRules(ctx)); err != nil {
		return nil, err
	}
	return s, s.load(ctx)
}

// Wake has whoever waits for Woken look at once.
func (s *Service) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Enrolled notes that a node has enrolled. It may be another machine than before, so requests that it has not answered are void.
func (s *Service) Enrolled(nodeID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again[nodeID] = true
	s.Wake()
}

// Woken gets a token while there is something to do.
func (s *Service) Woken() <-chan struct{} { return s.wake }

// Event makes an event of this moment about a node; nil: about no node.
func (s *Service) Event(kind string, n *api.NodeRow, by store.Actor, detail map[string]string) store.Event {
	e := store.Event{At: s.Now(), Kind: kind, Actor: by.Name, Address: by.Address, Outcome: store.OutcomeOK, Detail: detail}
	if by.Name == "" {
		e.Actor = ByGateway
	}
	if n != nil {
		e.NodeID, e.NodeName, e.Tenant = n.ID, n.Name, n.Tenant
	}
	return e
}
