// Package provider compares the fleet with the companies that rent machines to it: what runs there and is not heard here, what that costs,
// and what settles it. It adds up what was charged, and gives nodes the prices of their companies.
//
// Package market knows the accounts and what they show; package reconcile says what follows from that. This package keeps the results:
// findings with the time of their beginning, and sums by day.
package provider

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/market"
	"muster/gateway/internal/provider/reconcile"
	"muster/store"
	rentals "muster/store/provider"
)

const (
	roundEvery = 10 * time.Second
	pruneEvery = time.Hour
	keepOver   = 90 * 24 * time.Hour // leases and requests that are over
	keepGone   = 30 * 24 * time.Hour // instances that are gone
	keepDays   = 366                 // of costs
	settles    = 2 * time.Minute     // so long an account may have no view of now after a start, before that is told
)

// Config says what a Service works with.
type Config struct {
	market.Config
	Ready func() bool           // all nodes are known
	Nodes func() []*api.NodeRow // all of them, the retired too; nobody changes them
	// Down is told after each round what the nodes cost an hour whose machines do not run, by id; nil: nobody is told.
	Down func(costs map[string]float64)
	// NodeCosts sums what nodes cost by themselves, and how idle they were, over whole days.
	NodeCosts func(ctx context.Context, from, to time.Time, nodes func(id string) bool) (map[string]*api.NodeCost, error)
}

// Service is safe for concurrent use.
type Service struct {
	Config
	market  *market.Service
	woken   chan struct{}
	started time.Time

	rounding sync.Mutex // one round at a time; it guards these
	prices   map[string]*priced
	meter    meter
	pruned   time.Time

	mu       sync.RWMutex
	open     map[foundKey]time.Time    // since when
	findings []providers.Finding       // of the last round, the worst first
	waiting  map[reconcile.Waiting]int // machines that it could not judge
	foreign  map[reconcile.Waiting]int // those that it does not judge
	looked   bool                      // there was one
}

// Open makes a Service that goes on with what is in the database.
func Open(ctx context.Context, c Config) (*Service, error) {
	s := &Service{Config: c, woken: make(chan struct{}, 1), prices: map[string]*priced{}, open: map[foundKey]time.Time{}}
	s.complete()
	rows, err := s.Records.Findings(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		s.open[foundKey{r.Account, r.Instance, r.Kind}] = r.Since
	}
	s.market, err = market.Open(ctx, s.Config.Config)
	if err != nil {
		return nil, err
	}
	s.started = s.Now()
	s.meter = newMeter(s.market.Accounts())
	return s, nil
}

func (s *Service) complete() {
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Down == nil {
		s.Down = func(map[string]float64) {}
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	told := s.Changed
	s.Changed = func() {
		if told != nil {
			told()
		}
		select {
		case s.woken <- struct{}{}:
		default:
		}
	}
}

// Market returns the service that knows the accounts.
func (s *Service) Market() *market.Service { return s.market }

// Run looks at all accounts, and compares the fleet with them, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	looks := make(chan error, 1)
	go func() { looks <- s.market.Run(ctx) }()
	ticker := time.NewTicker(roundEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.woken:
		case <-ticker.C:
		case <-ctx.Done():
			return <-looks
		}
		s.Round(ctx)
	}
}

// Round compares the fleet with the accounts once. What fails is tried again in the next round.
func (s *Service) Round(ctx context.Context) {
	if !s.Ready() {
		return
	}
	s.rounding.Lock()
	defer s.rounding.Unlock()
	accounts, machines, err := s.machines(ctx)
	if err == nil {
		s.Down(down(accounts, machines))
		err = errors.Join(s.meter.read(ctx, s, accounts, machines), s.setPrices(ctx, machines), s.settle(ctx, accounts, machines), s.prune(ctx))
	}
	if err != nil && ctx.Err() == nil {
		s.Logger.Error("the fleet is not held against its providers", "error", err)
	}
}

// machines are all that the accounts and the fleet know of.
func (s *Service) machines(ctx context.Context) ([]reconcile.Account, []reconcile.Machine, error) {
	leases, err := s.Records.Leases(ctx, rentals.LeaseQuery{})
	if err != nil {
		return nil, nil, err
	}
	rows := s.market.Accounts()
	accounts := make([]reconcile.Account, len(rows))
	for i, row := range rows {
		a := reconcile.Account{Name: row.Name, Kind: row.Kind, Tenant: row.Tenant, Error: row.Error}
		a.Seen, a.At, a.Known = s.market.Instances(row.Name)
		a.Starts = row.FailedAt == nil && (s.Now().Sub(s.started) < settles || s.Now().Sub(row.CreatedAt) < settles)
		accounts[i] = a
	}
	machines := reconcile.Join(accounts, s.Nodes(), leases)
	return accounts, machines, errors.Join(s.markForeign(ctx, machines), s.markGone(ctx, accounts, machines))
}

// markForeign marks the machines that another gateway has rented, and that did not join here, and those that this one has rented.
func (s *Service) markForeign(ctx context.Context, machines []reconcile.Machine) error {
	unknown := map[string][]*reconcile.Machine{} // by account
	names := map[string][]string{}
	for i := range machines {
		if m := &machines[i]; m.Seen != nil && (m.Node == nil || m.Lease == nil) {
			unknown[m.Account] = append(unknown[m.Account], m)
			names[m.Account] = append(names[m.Account], m.Seen.Name)
		}
	}
	for account, all := range unknown {
		foreign, err := s.Records.Foreign(ctx, account, names[account])
		if err != nil {
			return err
		}
		for _, m := range all {
			m.Foreign = foreign[m.Seen.Name] && m.Node == nil
			if id, made := strings.CutPrefix(m.Seen.Name, rentals.NamePrefix); made && !foreign[m.Seen.Name] {
				m.Rental = id
			}
		}
	}
	return nil
}

// markGone marks the machines that an account had once, and has no longer by a view of now. That is known however young their nodes are.
func (s *Service) markGone(ctx context.Context, accounts []reconcile.Account, machines []reconcile.Machine) error {
	missing := map[string][]*reconcile.Machine{} // by kind
	ids := map[string][]string{}
	for i := range machines {
		if m := &machines[i]; m.Seen == nil {
			kind := m.Node.Provider
			missing[kind], ids[kind] = append(missing[kind], m), append(ids[kind], m.ID)
		}
	}
	for kind, all := range missing {
		gone, err := s.Records.WhenGone(ctx, kind, ids[kind])
		if err != nil {
			return err
		}
		for _, m := range all {
			i, isGone := gone[m.ID]
			isKnown := slices.ContainsFunc(accounts, func(a reconcile.Account) bool { return a.Name == i.Account && a.Known })
			if isGone && isKnown && !i.GoneAt.Before(m.Node.CreatedAt) {
				m.Account, m.Gone, m.Unsure = i.Account, i.GoneAt, false
			}
		}
	}
	return nil
}

// prune forgets what is too old, once an hour.
func (s *Service) prune(ctx context.Context) error {
	now := s.Now()
	if since := now.Sub(s.pruned); since >= 0 && since < pruneEvery {
		return nil
	}
	s.pruned = now
	before := now.Add(-keepOver)
	return errors.Join(
		inPieces(func() (int, error) { return s.Records.DropLeases(ctx, before, store.Piece) }),
		inPieces(func() (int, error) { return s.Records.DropRequests(ctx, before, store.Piece) }),
		inPieces(func() (int, error) { return s.Records.DropGone(ctx, now.Add(-keepGone), store.Piece) }),
		inPieces(func() (int, error) { return s.Records.DropCosts(ctx, dayOf(now)-keepDays, store.Piece) }))
}

// inPieces drops until nothing is left to drop.
func inPieces(drop func() (int, error)) error {
	for {
		if n, err := drop(); err != nil || n < store.Piece {
			return err
		}
	}
}

func notFound(what, name string) error {
	return wire.Refuse(wire.CodeNotFound, "there is no "+what+" "+wire.Plain(name, 200),
		"muster provider ls and muster provider instances show them")
}
