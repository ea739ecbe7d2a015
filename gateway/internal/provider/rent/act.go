package rent

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/lease"
	"muster/store"
	rentals "muster/store/provider"
)

// Act does what a person wants with one machine. It ends the lease if that stops or destroys the machine, and keeps the spending limits if
// it starts the machine.
func (s *Service) Act(ctx context.Context, account, instance, act string, by store.Actor) error {
	switch act {
	case providers.ActStart:
		return s.start(ctx, account, instance, by)
	case providers.ActRejoin:
		return s.rejoin(ctx, account, instance, by)
	}
	_, err := s.Leases.End(ctx, lease.Ending{Account: account, Instance: instance, Act: act, Why: act + " asked for by " + by.Name, By: by})
	return err
}

// start starts a machine. That it is asked for is on record before, under the spending limits. From then on it counts as one that runs,
// also while the company's lists do not show it yet.
func (s *Service) start(ctx context.Context, account, instance string, by store.Actor) error {
	i := s.seen(account, instance)
	if i == nil {
		return noInstance(account, instance)
	}
	l, err := s.Records.Lease(store.Fresh(ctx), account, instance)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case err == nil && (l.State == providers.LeaseDraining || l.State == providers.LeaseEnding):
		return wire.Refuse(wire.CodeIllegalMove, "the lease of "+instance+" is over, and it is to "+l.Act,
			"muster lease ls shows how far that is")
	case i.State == cloud.Running || i.State == cloud.Starting:
		return nil
	}
	if err := s.hasEnd(ctx, l, account, instance); err != nil {
		return err
	}
	c, err := s.Market.Cloud(account)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime) // a caller who goes away does not leave it half done
	defer cancel()
	e := store.Event{At: s.Now(), Kind: "instance.starting", Actor: by.Name, Address: by.Address, Tenant: i.Tenant, Outcome: store.OutcomeOK,
		Detail: map[string]string{"provider": account, "instance": instance}}
	switch err := s.Records.Start(ctx, account, instance, s.Now(), e); {
	case errors.Is(err, rentals.ErrLimit):
		return wire.Refuse(wire.CodeOverQuota, instance+" is not started: "+err.Error(), "muster provider limit shows and sets limits")
	case errors.Is(err, store.ErrNotFound):
		return noInstance(account, instance)
	case errors.Is(err, store.ErrConflict):
		return wire.Refuse(wire.CodeUnavailable, instance+" has changed meanwhile", "try again")
	case err != nil:
		return err
	}
	if err := c.Start(ctx, instance); err != nil {
		return s.notStarted(ctx, e, err)
	}
	if err := s.Market.Sync(ctx, account); err != nil {
		s.Complain(ctx, "rentals: a machine was started, and is not seen yet", err, "provider", account, "instance", instance)
	}
	return nil
}

// hasEnd refuses to start what muster has rented and what nobody ends: without a lease it would be charged for ever.
func (s *Service) hasEnd(ctx context.Context, l rentals.Lease, account, instance string) error {
	if l.State == providers.LeaseLive {
		return nil
	}
	rented, err := s.Records.Rentals(store.Fresh(ctx), rentals.RentalQuery{Account: account, Instance: instance})
	if err != nil || len(rented) == 0 && l.Rental == "" {
		return err
	}
	return wire.Refuse(wire.CodeIllegalMove, "muster has rented "+instance+", and it has no lease",
		"muster lease set "+account+"/"+instance+" 8h, then start it")
}

// notStarted says why a machine was not started. Where that is not certain, it counts on until lists show what has come of it.
func (s *Service) notStarted(ctx context.Context, e store.Event, why error) error {
	account, instance := e.Detail["provider"], e.Detail["instance"]
	refused := cloud.Refusal(why, "the company does not start "+instance,
		"a stopped machine waits for the same GPUs: muster rent finds others")
	var failed *cloud.Error
	if !errors.As(why, &failed) || failed.Kind == cloud.Unclear {
		return refused
	}
	e.Kind, e.At, e.Outcome, e.Detail["why"] = "instance.not_started", s.Now(), "failed", wire.Plain(failed.Error(), wire.MaxText)
	return cmp.Or(s.Records.NotStarted(ctx, account, instance, e), refused)
}

func noInstance(account, instance string) error {
	return wire.Refuse(wire.CodeNotFound, fmt.Sprintf("%s has no instance %.60q", account, instance), "muster provider instances "+account)
}
