// Package lease ends what machines cost. A lease is the time until which somebody has decided to pay for a machine. Whoever wants a
// machine to be stopped or destroyed ends its lease: nothing else in the gateway asks a company for that.
//
// At the end the machine's node takes no new work, and what works there has time to finish. Then the company is asked, and looked at until
// it says that it is done. This is tried without end. A machine is gone when two complete lists leave it out and the company says that
// there is no such machine.
//
// A lease ends by the gateway's clock, which can be set wrong. So an end counts only after this process has seen it pass for a minute of
// the time that no clock changes. Before the company is asked, the try is on record under the version of the lease: an extension that came
// first keeps the machine, and one that comes later is refused.
package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
)

const (
	roundEvery = 5 * time.Second
	passLeast  = time.Minute // for which an end must be seen to have passed
	passRounds = 2
	callTime   = 2 * time.Minute // for what is done with one machine in one round
	byGateway  = "gateway"
)

// World is what leases and rentals both look at.
type World struct {
	Records rentals.Records
	Ready   func() bool          // all nodes are known
	Market  *market.Service      // the accounts, and what their companies show
	Soon    func(account string) // has the market take a list soon; nil: nobody is asked

	Node   func(id string) (*api.NodeRow, bool)             // as it is known now
	NodeOf func(kind, instance string) (*api.NodeRow, bool) // that says that it is this instance; also a retired one

	Now     func() time.Time                       // nil: time.Now
	Elapsed func() time.Duration                   // since any fixed moment, by a clock that nobody sets; nil: the process's own
	Away    func(from, to time.Time) time.Duration // for which the gateway was away or its clock skipped; nil: never
	Logger  *slog.Logger                           // nil: nothing is logged
}

// Again does a round again and again, once all nodes are known, until ctx ends.
func (w World) Again(ctx context.Context, round func(context.Context)) error {
	ticker := time.NewTicker(roundEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if w.Ready() {
			round(ctx)
		}
	}
}

// Complain logs what did not work, unless it is because ctx has ended.
func (w World) Complain(ctx context.Context, what string, err error, about ...any) {
	if ctx.Err() == nil {
		w.Logger.Error(what, append(about, "error", err)...)
	}
}

// Config says what a Service works with.
type Config struct {
	World
	Nodes  func() []*api.NodeRow        // all that are not retired
	Busy   func(nodeID string) []string // what works there: allocations and tasks
	Drain  func(ctx context.Context, nodeID string) error
	Resume func(ctx context.Context, nodeID string) error
	Retire func(ctx context.Context, nodeID string) error
}

// Service is safe for concurrent use.
type Service struct {
	Config

	mu    sync.Mutex
	notes map[key]*note // of leases that have not ended
}

type key struct{ account, instance string }

// note is what this process has seen of a lease.
type note struct {
	end    time.Time     // that has passed
	past   time.Duration // since when, by Elapsed
	rounds int           // in which it had passed
	quiet  time.Duration // since when it is idle, by Elapsed; negative: it is not
	since  time.Time     // lists of before do not count
	list   time.Time     // the last list that left it out
	lists  int           // how many did
	listed bool          // it was there before

	isAbsent bool // when it was looked at last
}

// Open makes a Service.
func Open(c Config) *Service {
	s := &Service{Config: c, notes: map[key]*note{}}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Elapsed == nil {
		begun := time.Now()
		s.Elapsed = func() time.Duration { return time.Since(begun) }
	}
	if s.Soon == nil {
		s.Soon = func(string) {}
	}
	if s.Away == nil {
		s.Away = func(time.Time, time.Time) time.Duration { return 0 }
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	return s
}

// Run looks at all leases again and again, until ctx ends.
func (s *Service) Run(ctx context.Context) error { return s.Again(ctx, s.Round) }

// Round looks once at all leases. Accounts do not wait for each other. What fails is tried again in a later round.
func (s *Service) Round(ctx context.Context) {
	accounts, err := s.Records.Accounts(ctx)
	var live []rentals.Lease
	if err == nil {
		live, err = s.Records.Leases(ctx, rentals.LeaseQuery{})
	}
	if err != nil {
		s.Complain(ctx, "leases: leases cannot be read", err)
		return
	}
	s.forget(live)
	of := map[string][]rentals.Lease{}
	for _, l := range live {
		of[l.Account] = append(of[l.Account], l)
	}
	var all sync.WaitGroup
	for _, a := range accounts {
		all.Go(func() {
			for _, l := range of[a.Name] {
				err := s.visit(ctx, a, l)
				if errors.Is(err, errSlow) {
					return
				}
				if err != nil && !errors.Is(err, store.ErrConflict) {
					s.Complain(ctx, "leases: a lease is not looked after", err, "provider", l.Account, "instance", l.Instance)
				}
			}
		})
	}
	all.Wait()
}

// event is an event of this moment about a lease.
func (s *Service) event(kind string, l rentals.Lease, by store.Actor, detail map[string]string) store.Event {
	e := store.Event{At: s.Now(), Kind: kind, Actor: by.Name, Address: by.Address, Tenant: l.Tenant, NodeID: l.NodeID,
		Outcome: store.OutcomeOK, Detail: map[string]string{"provider": l.Account, "instance": l.Instance, "act": l.Act,
			"ends": l.EndsAt.UTC().Format(time.RFC3339)}}
	if by.Name == "" {
		e.Actor = byGateway
	}
	if l.Why != "" {
		e.Detail["why"] = l.Why
	}
	for name, value := range detail {
		e.Detail[name] = value
	}
	return e
}
