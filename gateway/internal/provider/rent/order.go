package rent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/label"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	"muster/gateway/internal/view/hardware"
	"muster/store"
	rentals "muster/store/provider"
)

const (
	tokenTTL   = 2 * time.Hour
	searchTime = 10 * time.Minute // for which lists may leave out what was made
	searchEach = 20 * time.Second
	leastPause = 15 * time.Second // after a company that was asked too often

	// memoryKept is what of a GPU's memory its driver must show at least: error correction and the driver keep some.
	memoryKept = 0.95
)

// order asks the company for a machine. That it is asked is on record before.
func (s *Service) order(ctx context.Context, a rentals.Account, q rentals.Request, want providers.Renting, r rentals.Rental) error {
	n := s.note(r.ID)
	if s.Elapsed() < n.again {
		return nil
	}
	all, at, _ := s.Market.Instances(a.Name)
	if at == nil || at.Before(s.opened) {
		return s.waitsFor(ctx, r, "its company was not looked at yet since the gateway has started")
	}
	var offer cloud.Offer
	if err := json.Unmarshal([]byte(r.OfferJSON), &offer); err != nil {
		return err
	}
	id, why := namesake(all, nameOf(r), want, offer)
	switch {
	case why != "":
		return s.end(ctx, r, providers.RentalFailed, why) // the next order for its place has another name
	case id != "" && n.limited:
		return s.created(ctx, q, want, r, id, "an order that the company said it had not taken has made it")
	case id != "":
		return s.created(ctx, q, want, r, id, "")
	}
	c, err := s.Market.Cloud(a.Name)
	if err != nil {
		return err
	}
	token, err := s.Mint(ctx, api.TokenRequest{Tenant: r.Tenant, Uses: 1, TTL: api.Duration(tokenTTL), Labels: promised(want, offer),
		GPUs: offer.GPUs, BindInstance: a.Kind != cloud.Lambda, Name: nameOf(r)}, store.Actor{Name: byGateway})
	if err == nil && token.Command == "" {
		err = errors.New("no machine can join this gateway: it has no public URL")
	}
	if err != nil {
		return s.refused(ctx, q, r, "no token for it can be made: "+err.Error())
	}
	r.Token, r.AskedAt = token.ID, new(s.Now())
	if err := s.Records.PutRental(ctx, r); err != nil {
		return errors.Join(err, s.Revoke(ctx, token.ID))
	}
	r.Version++
	n.limited = false
	id, err = c.Create(ctx, cloud.Order{Offer: offer, Name: nameOf(r), Image: want.Image, Script: script(a.Kind, token.Command),
		DiskGB: want.DiskGB, SSHKey: a.SSHKey})
	return s.answered(context.WithoutCancel(ctx), q, want, r, id, err)
}

// namesake is the machine that was made for an order before its record was lost in a restore; why says that there is one which is not that.
//
// The name alone nearly says it. It is a hash of the request's id and the machine's place, 80 bits; the id is made by chance, so nobody can
// give the name to a machine before the gateway has ordered one by it, and the same request asked again makes it again. But afterwards
// anybody who sees the account's list can copy it to another machine, and the end of its lease would destroy that. So the name must be one
// machine's alone, and that machine must be what is asked for. Its host and its age say nothing: this record is newer than the machine, and
// chose its offer anew.
func namesake(all []*market.Seen, name string, want providers.Renting, offer cloud.Offer) (id, why string) {
	for _, i := range all {
		switch {
		case i.Name != name || i.State == cloud.Gone:
			continue
		case id != "":
			return "", "two machines have the name that it would get: neither is touched"
		case i.GPUs < max(want.GPUs, 1), i.GPU != offer.GPU && !cloud.Want{GPU: want.GPU}.Takes(cloud.Offer{GPU: i.GPU}, ""):
			return "", "the machine " + i.ID + " has the name that it would get, and is not what is asked for: it is not touched"
		}
		id = i.ID
	}
	return id, ""
}

// promised are the labels of a machine, with those that say what is paid for: its acceptance judges it by them. The model is the one that
// was asked for, if the company's name for the card says the same. A part of a name, such as RTX 40, is no model.
func promised(want providers.Renting, o cloud.Offer) map[string]string {
	labels := map[string]string{}
	if want.GPU != "" && hardware.Is(o.GPU, want.GPU) {
		labels[label.GPUModel] = want.GPU
	}
	if o.GPUMiB != nil {
		labels[label.GPUMemory] = fmt.Sprintf("%.1f", float64(*o.GPUMiB)*memoryKept/1024)
	}
	maps.Copy(labels, want.Labels)
	return labels
}

// answered takes the company's answer to an order. What it does not settle is searched for.
func (s *Service) answered(ctx context.Context, q rentals.Request, want providers.Renting, r rentals.Rental, id string, err error) error {
	if err == nil && id != "" {
		return s.created(ctx, q, want, r, id, "")
	}
	var failed *cloud.Error
	if !errors.As(err, &failed) {
		return s.waitsFor(ctx, r, "the company's answer was lost: it is looked for")
	}
	text := wire.Plain(failed.Error(), wire.MaxText)
	switch {
	case failed.Instance != "":
		return s.created(ctx, q, want, r, failed.Instance, "the company failed to make it: "+text)
	case failed.Kind == cloud.Limited:
		n := s.note(r.ID)
		n.again, n.limited = s.Elapsed()+max(failed.Again, leastPause), true
		return s.waitsFor(ctx, r, "the company was asked too often")
	case failed.Kind == cloud.NoOffer, failed.Kind == cloud.NoSuch:
		return s.end(ctx, r, providers.RentalFailed, "the offer is gone: "+text)
	case failed.Kind == cloud.KeyRefused, failed.Kind == cloud.Refused:
		return s.refused(ctx, q, r, "the company refuses the order: "+text)
	}
	return s.waitsFor(ctx, r, "the company's answer is not clear, so it is looked for: "+text)
}

// refused ends a rental and its request, where asking again does not help.
func (s *Service) refused(ctx context.Context, q rentals.Request, r rentals.Rental, why string) error {
	if err := s.end(ctx, r, providers.RentalFailed, why); err != nil {
		return err
	}
	return s.endRequest(ctx, q, providers.RentedFailed, why)
}

// created puts a machine that is there on record, with its lease. One that failed, or that nobody wants any more, is given back.
func (s *Service) created(ctx context.Context, q rentals.Request, want providers.Renting, r rentals.Rental, id, failed string) error {
	now := s.Now()
	r.Instance, r.State, r.Why = id, providers.RentalBooting, ""
	l := rentals.Lease{Account: r.Account, Instance: id, Tenant: r.Tenant, Owner: q.Owner, State: providers.LeaseLive,
		Act: cmp.Or(want.Act, providers.ActDestroy), Rental: r.ID, EndsAt: now.Add(time.Duration(want.TTLSeconds) * time.Second), CreatedAt: now}
	if want.IdleEnd > 0 {
		l.Idle = new(time.Duration(want.IdleEnd) * time.Second)
	}
	kind := "rental.created"
	switch {
	case failed == "" && r.AskedAt == nil: // nobody has ordered it now, so it may be in use
		r.State, r.ReadyAt = providers.RentalReady, &now
	case failed != "":
		kind = "rental.failed"
		r.State, r.EndedAt, r.Why = providers.RentalFailed, &now, failed
		l.State, l.Act, l.EndsAt, l.Why = providers.LeaseEnding, providers.ActDestroy, now, failed
	}
	if err := s.Records.Created(ctx, r, l, s.event(kind, r, map[string]string{"why": failed})); err != nil {
		return err
	}
	s.forget(r.ID)
	s.Soon(r.Account)
	if failed != "" {
		return s.revoke(ctx, r)
	}
	return nil
}

// search looks for a machine whose order was not answered. While it may still turn up, no other one is ordered in its place.
func (s *Service) search(
	ctx context.Context, a rentals.Account, q rentals.Request, want providers.Renting, open bool, r rentals.Rental,
) error {
	n := s.note(r.ID)
	if s.Elapsed() < n.again {
		return nil
	}
	n.again = s.Elapsed() + searchEach
	c, err := s.Market.Cloud(a.Name)
	if err != nil {
		return err
	}
	begun := s.Elapsed()
	found, err := list(ctx, c, nameOf(r))
	if err != nil {
		return s.waitsFor(ctx, r, "it is looked for, and the company does not show its machines")
	}
	found = slices.DeleteFunc(found, func(i cloud.Instance) bool { return !fits(r, s.first(r.Account, i)) })
	if len(found) > 0 {
		failed := ""
		if !open {
			failed = "its request is over"
		}
		return s.created(context.WithoutCancel(ctx), q, want, r, found[0].ID, failed) // any other one is a stray
	}
	if n.limited { // by its own word the company has made nothing: one list is enough to order again
		token := r
		r.AskedAt, r.Token = nil, ""
		return errors.Join(s.Records.PutRental(ctx, r), s.revoke(ctx, token))
	}
	if n.lists == 0 {
		n.first = begun
	}
	n.lists++
	if n.lists < 2 || begun-n.first < searchTime {
		return s.waitsFor(ctx, r, "the company's answer was lost: it is looked for")
	}
	return s.end(ctx, r, providers.RentalFailed, "the company gave no clear answer, and nothing with its name turned up")
}

// list gives all instances with a name.
func list(ctx context.Context, c market.Cloud, name string) (all []cloud.Instance, err error) {
	err = c.List(ctx, func(page []cloud.Instance) {
		for _, i := range page {
			if i.Name == name && i.State != cloud.Gone {
				all = append(all, i)
			}
		}
	})
	return all, err
}

// note is what is known of a rental's order. Only its account's goroutine changes it.
func (s *Service) note(id string) *note {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.notes[id]
	if n == nil {
		n = &note{}
		s.notes[id] = n
	}
	return n
}

func (s *Service) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.notes, id)
}
