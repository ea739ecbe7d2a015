// Package rent rents machines, sees to it that they become nodes that are what is paid for, and replaces those that do not.
//
// What is to be rented is on record before the company is asked, and its spending limits are conditions of that record. A machine has the
// name of its record. After an answer that did not come or cannot be read, the machine is looked for by its name in complete lists, for ten
// minutes, before another one is ordered. A machine with such a name that turns up later is given back. Names of other gateways, and
// machines without one, are none of our business.
//
// Machines are given back by the end of their leases alone: see package lease.
//
// It also has machines that have left the fleet start again with another script.
package rent

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/lease"
	"muster/store"
	rentals "muster/store/provider"
)

const (
	callTime  = 2 * time.Minute // for one call
	byGateway = "gateway"
)

// Config says what a Service works with. What it shares with the leases, it has from them.
type Config struct {
	Leases *lease.Service
	Named  func(name string) (*api.NodeRow, bool) // that is not retired
	Mint   func(ctx context.Context, q api.TokenRequest, by store.Actor) (api.NewToken, error)
	Revoke func(ctx context.Context, tokenID string) error
	// Accept makes a node prove what it is. The same id again starts nothing new.
	Accept func(ctx context.Context, nodeID, id string) error
	// Accepted says how that has ended. done is false if it has not ended; why says why it has not ended well.
	Accepted func(ctx context.Context, nodeID, id string) (ok, done bool, why string)
	// Allocation returns when an allocation ends (nil: it waits), and whether it is over or does not exist any more.
	Allocation func(ctx context.Context, id string) (ends *time.Time, over bool, err error)
}

// Service is safe for concurrent use.
type Service struct {
	Config
	lease.World
	opened    time.Time
	beginning sync.Mutex // held while machines are put on record, so that a round sees all or nothing of a request

	mu      sync.Mutex
	notes   map[string]*note  // of rentals whose order was not answered, or comes later
	waits   map[string]string // why nothing can be ordered now, by request
	foreign map[[2]string]bool
}

// note is what this process knows of a rental's order.
type note struct {
	first time.Duration // the first look for it, by Elapsed
	again time.Duration // no look and no order before
	lists int           // complete ones without it
	// limited: the company was asked too often. Some make the machine all the same.
	limited bool
}

// Open makes a Service.
func Open(c Config) *Service {
	return &Service{Config: c, World: c.Leases.World, opened: c.Leases.Now(), notes: map[string]*note{}, waits: map[string]string{},
		foreign: map[[2]string]bool{}}
}

// Run looks after all rentals again and again, until ctx ends.
func (s *Service) Run(ctx context.Context) error { return s.Again(ctx, s.Round) }

// Round looks once at all that is rented. Accounts do not wait for each other. What fails is tried again in a later round.
func (s *Service) Round(ctx context.Context) {
	accounts, err := s.Records.Accounts(ctx)
	if err != nil {
		s.Complain(ctx, "rentals: accounts cannot be read", err)
		return
	}
	var all sync.WaitGroup
	for _, a := range accounts {
		all.Go(func() {
			if err := s.account(ctx, a); err != nil && !errors.Is(err, store.ErrConflict) {
				s.Complain(ctx, "rentals: rentals are not looked after", err, "provider", a.Name)
			}
		})
	}
	all.Wait()
}

// account looks at what is rented of an account.
func (s *Service) account(ctx context.Context, a rentals.Account) error {
	t, err := s.read(ctx, a)
	if err == nil {
		err = s.readAllocations(ctx, t)
	}
	if err != nil {
		return err
	}
	var failed error
	for _, r := range t.live {
		if err := s.visit(ctx, t, r); err != nil && !errors.Is(err, store.ErrConflict) {
			failed = errors.Join(failed, fmt.Errorf("rental %s: %w", r.ID, err))
		}
	}
	failed = errors.Join(failed, s.endFailed(ctx, t), s.endStrays(ctx, t), s.watchRejoins(ctx, t))
	for _, q := range t.requests {
		if q.State != providers.RentedRenting {
			continue
		}
		if err := s.advance(ctx, a, q); err != nil && !errors.Is(err, store.ErrConflict) {
			failed = errors.Join(failed, fmt.Errorf("request %s: %w", q.ID, err))
		}
	}
	return failed
}

// tables is what the database has of an account when a round begins.
type tables struct {
	rentals.Account
	live     []rentals.Rental
	leases   map[string]rentals.Lease   // that have not ended, by instance
	requests map[string]rentals.Request // that are renting, or have a rental that is live
	ends     map[string]end             // of their allocations, by id
}

func (s *Service) read(ctx context.Context, a rentals.Account) (*tables, error) {
	s.beginning.Lock()
	defer s.beginning.Unlock()
	ctx = store.Fresh(ctx)
	t := &tables{Account: a, leases: map[string]rentals.Lease{}, requests: map[string]rentals.Request{}, ends: map[string]end{}}
	open, err := s.Records.Requests(ctx, rentals.RequestQuery{Live: true})
	if err != nil {
		return nil, err
	}
	for _, q := range open {
		if q.Account == a.Name {
			t.requests[q.ID] = q
		}
	}
	if t.live, err = s.Records.Rentals(ctx, rentals.RentalQuery{Account: a.Name, Live: true}); err != nil {
		return nil, err
	}
	leases, err := s.Records.Leases(ctx, rentals.LeaseQuery{Account: a.Name})
	if err != nil {
		return nil, err
	}
	for _, l := range leases {
		t.leases[l.Instance] = l
	}
	for _, r := range t.live {
		if _, known := t.requests[r.Request]; known {
			continue
		}
		found, err := s.Records.Requests(ctx, rentals.RequestQuery{ID: r.Request})
		if err != nil {
			return nil, err
		}
		for _, q := range found {
			t.requests[q.ID] = q
		}
	}
	return t, nil
}

// named is the id of a machine's order. The same again is the same order, so that no two can be on record.
func named(request string, at place) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "rental\n%s\n%d\n%d", request, at.number, at.orders))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// nameOf is the name of a rental's machine, at its company and as a node.
func nameOf(r rentals.Rental) string { return rentals.NamePrefix + r.ID }

// event is an event of this moment about a rental.
func (s *Service) event(kind string, r rentals.Rental, detail map[string]string) store.Event {
	e := store.Event{At: s.Now(), Kind: kind, Actor: byGateway, NodeID: r.NodeID, Tenant: r.Tenant, Outcome: store.OutcomeOK,
		Detail: map[string]string{"request": r.Request, "provider": r.Account}}
	if r.ID != "" {
		e.Detail["rental"] = r.ID
	}
	if r.Instance != "" {
		e.Detail["instance"] = r.Instance
	}
	for name, value := range detail {
		e.Detail[name] = value
	}
	return e
}
