package placement

import (
	"context"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/sku"
)

// largestMachine is how many GPUs one machine has that can be rented.
const largestMachine = 8

// supplyEvery is the pause between two looks at what waits.
const supplyEvery = 10 * time.Second

// Wanted is what a waiting allocation needs.
type Wanted struct {
	ID, Owner, Tenant string
	TTL               time.Duration
	GPU               string // model
	GPUs              int    // of one machine, at least
	Machines          int
	Rent              bool    // it may cost money
	MaxPrice          float64 // an hour, of one machine, where it may
	DryRun            bool    // nothing is done: it is only said what would be got
}

// SupplyBy sets the functions that get machines for allocations that wait. supply gets them and says how far that is; "": it gets none.
// could reports whether supply could get what no node has, and refuses what it never could.
func (s *Service) SupplyBy(could func(ctx context.Context, w Wanted) (bool, error), supply func(ctx context.Context, w Wanted) string) {
	s.supplies, s.supply = could, supply
}

// couldGet tells whether something could get what no node has.
func (s *Service) couldGet(ctx context.Context, a *ask) (bool, error) {
	if s.supplies == nil || a.wish.Selector != "" {
		return a.wish.Rent, nil
	}
	return s.supplies(ctx, wantedBy(a))
}

// askSupply has Supply look now.
func (s *Service) askSupply() {
	select {
	case s.supplySoon <- struct{}{}:
	default:
	}
}

// Supply gets machines for the allocations that wait, again and again, until ctx ends. It waits for companies, so it is not a part of Run.
func (s *Service) Supply(ctx context.Context) error {
	ticker := time.NewTicker(supplyEvery)
	defer ticker.Stop()
	for {
		s.supplyAll(ctx)
		select {
		case <-s.supplySoon:
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// supplyAll gets machines for those that wait. All that their tenants' quotas allow together is got, and no more.
func (s *Service) supplyAll(ctx context.Context) {
	ahead := map[string]int{} // GPUs, by tenant
	for _, w := range s.wanted() {
		says := s.get(ctx, w, ahead[w.Tenant])
		if !strings.HasPrefix(says, overQuota) {
			ahead[w.Tenant] += w.GPUs * w.Machines
		}
		s.mu.Lock()
		if _, waits := s.waits[w.ID]; waits && ctx.Err() == nil {
			s.rents[w.ID] = says
		}
		s.mu.Unlock()
	}
}

// get gets machines, or says what would be got, unless their GPUs would be more than the tenant may have beside those ahead of them.
func (s *Service) get(ctx context.Context, w Wanted, ahead int) string {
	why, err := s.overQuota(ctx, w.Tenant, ahead+w.GPUs*w.Machines)
	switch {
	case err != nil:
		return err.Error()
	case why != "":
		return why
	}
	return s.supply(ctx, w)
}

// isSupplied tells whether something is got for an allocation, by why it waits. What its quota stops is not got either.
func isSupplied(a *ask, why string) bool {
	return !strings.HasPrefix(why, overQuota) && a.wish.Selector == ""
}

// wouldGet says what would be got for an allocation that waits; "": nothing.
func (s *Service) wouldGet(ctx context.Context, a *ask, why string) string {
	if s.supply == nil || !isSupplied(a, why) {
		return ""
	}
	w := wantedBy(a)
	w.DryRun = true
	return s.get(ctx, w, 0)
}

// wanted is what the allocations that wait need, in the order in which they are served.
func (s *Service) wanted() (all []Wanted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.queued {
		if isSupplied(a, s.waits[a.ID]) {
			all = append(all, wantedBy(a))
		}
	}
	return all
}

func wantedBy(a *ask) Wanted {
	w := Wanted{ID: a.ID, Owner: a.Owner, Tenant: a.Tenant, TTL: a.TTL, Rent: a.wish.Rent && a.wish.MaxPrice != nil}
	w.GPU, w.GPUs, w.Machines = machines(a.wish)
	if w.Rent {
		w.MaxPrice = *a.wish.MaxPrice / float64(w.Machines)
	}
	return w
}

// machines splits a wish into machines. Without spread, all GPUs that are asked for by model are in one.
func machines(w api.Wish) (model string, gpus, count int) {
	model = w.GPU
	if kind, known := sku.Parse(w.SKU); known {
		if model = kind.Model; kind.Shape == api.ShapeNode {
			return model, kind.GPUs, w.Count
		}
	}
	if !w.Spread || w.Count <= largestMachine {
		return model, w.Count, 1
	}
	return model, largestMachine, (w.Count + largestMachine - 1) / largestMachine
}

// checkRent refuses to rent what cannot be rented.
func checkRent(w api.Wish) error {
	if w.MaxPrice == nil {
		return wire.Refuse(wire.CodeBadRequest, "what is rented costs money, and no highest price is said",
			"--max-price 2.50: per hour of all of it")
	}
	kind, known := sku.Parse(w.SKU)
	if w.SKU != "" && (!known || kind.Part != "" || kind.Shape == api.ShapeVM) {
		return wire.Refuse(wire.CodeBadRequest, w.SKU+" cannot be rented", "whole GPUs and whole machines can: --gpu h100 --count 2")
	}
	if w.Selector != "" {
		return wire.Refuse(wire.CodeBadRequest, "a machine that is rented has no labels of yours", "leave the selector out, or do not rent")
	}
	return nil
}
