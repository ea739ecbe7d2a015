// Package placement says who has which GPU until when. It gives slots to allocations, and takes them back when nothing of an allocation is
// left on them. Package inventory knows which slots there are.
//
// The database decides: each claim is one batch with all its conditions in it. A claim that the database refuses has its nodes read again.
package placement

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/placement/inventory"
	"muster/store"
)

const (
	roundEvery = 5 * time.Second

	keepEnded = 90 * 24 * time.Hour
)

// warnBefore is how long before the end of an allocation its owner is told.
const warnBefore = 15 * time.Minute

// Caller is who asks.
type Caller = inventory.Caller

// Config says what a Service works with.
type Config struct {
	inventory.Config
	TTL     time.Duration // of an allocation that asks for none
	Longest time.Duration // that one may ask for, from now
}

// Service is safe for concurrent use.
type Service struct {
	*inventory.Service
	ttl, longest time.Duration // as Config says
	supply       func(ctx context.Context, w Wanted) string
	supplies     func(ctx context.Context, w Wanted) (bool, error) // nil: nothing does
	supplySoon   chan struct{}                                     // has room for one

	pruned time.Time // when old allocations were last dropped; Round's alone

	queueing sync.Mutex // one after the other, so that no more wait than may

	mu       sync.Mutex // guards all below
	finished []finished // tasks that have ended and were not looked at
	queued   []*ask     // allocations that wait, in the order in which they are served
	claimed  []*ask     // allocations that may lack what follows from their claims
	doubtful []doubtful
	waits    map[string]string // what they wait for, by id
	rents    map[string]string // how far it is with what is rented for them
}

// Open makes a Service that goes on with what the database has.
func Open(ctx context.Context, c Config) (*Service, error) {
	i, err := inventory.Open(ctx, c.Config)
	if err != nil {
		return nil, err
	}
	s := &Service{Service: i, ttl: c.TTL, longest: c.Longest, waits: map[string]string{}, rents: map[string]string{},
		supplySoon: make(chan struct{}, 1)}
	if err := s.readQueue(ctx); err != nil {
		return nil, err
	}
	unseen, err := s.Unseen(ctx)
	for _, id := range unseen {
		s.finished = append(s.finished, finished{task: id})
	}
	return s, err
}

// finished is a task that has ended.
type finished struct {
	task  string
	tries int // to take what it has found
}

// mostTries is how often that is tried: what cannot be taken must not keep back the rest.
const mostTries = 5

// Take takes events: a task of ours has ended.
func (s *Service) Take(_ context.Context, events []store.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		kind := e.Detail["type"]
		if e.Kind == "allocation.waiting" {
			s.askSupply()
		}
		if e.Kind == "node.enrolled" {
			s.Enrolled(e.NodeID)
		}
		if isEnd := e.Kind == "task.finished" || e.Kind == "task.canceled" || e.Kind == "task.expired" || e.Kind == "task.lost"; isEnd &&
			(kind == wire.TaskNodeCheck || kind == wire.TaskGPUClean) {
			s.finished = append(s.finished, finished{task: e.Detail["task"]})
			s.Wake()
		}
	}
}

// Run does what nobody asks for, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(roundEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.Woken():
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if s.Ready() {
			s.Round(ctx)
		}
	}
}

// Round looks once at everything. What fails is tried again in the next round.
func (s *Service) Round(ctx context.Context) {
	for _, part := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"claims are not read", s.readDoubtful},
		{"what tasks have found is not taken", s.takeFinished},
		{"owners do not get what they asked for", s.equipAgain},
		{"nodes that are gone keep their slots", s.forgetGone},
		{"nodes that have started anew keep their evidence", s.SeeBoots},
		{"nodes are not checked", s.SendChecks},
		{"allocations do not end", s.endOverdue},
		{"owners are not told of an end", s.warnOwners},
		{"GPUs are not cleaned", s.cleanUp},
		{"allocations wait", s.serve},
		{"ended allocations are kept", s.prune},
	} {
		if err := part.do(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Error("placement: "+part.what, "error", err)
		}
	}
	s.Tell()
}

// prune drops allocations that ended long ago, once an hour.
func (s *Service) prune(ctx context.Context) error {
	now := s.Now()
	if now.Sub(s.pruned) < time.Hour {
		return nil
	}
	s.pruned = now
	_, err := s.Records.Prune(ctx, now.Add(-keepEnded), store.Piece)
	return err
}

// takeFinished takes what ended tasks have found.
func (s *Service) takeFinished(ctx context.Context) (failed error) {
	s.mu.Lock()
	ended := s.finished
	s.finished = nil
	s.mu.Unlock()
	var again []finished
	for _, f := range ended {
		err := s.take(ctx, f.task)
		if err == nil {
			continue
		}
		failed = errors.Join(failed, fmt.Errorf("task %s: %w", f.task, err))
		if f.tries++; f.tries < mostTries {
			again = append(again, f)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = append(again, s.finished...)
	return failed
}

func (s *Service) take(ctx context.Context, id string) error {
	t, err := s.Store.Task(ctx, "", id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.Type == wire.TaskGPUClean {
		return s.takeCleaning(ctx, t)
	}
	return s.TakeEvidence(ctx, t)
}
