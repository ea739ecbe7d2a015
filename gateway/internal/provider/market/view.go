package market

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"muster/gateway/internal/provider/cloud"
	"muster/store"
	rentals "muster/store/provider"
)

// mostAsked is how many instances that are missing are asked for after one view.
const mostAsked = 50

// took makes a complete list the view of an account.
func (d *Service) took(ctx context.Context, a *account, c Cloud, at time.Time, all []rentals.Instance) error {
	// some companies list what is destroyed for a while: it counts as missing
	all = slices.DeleteFunc(all, func(i rentals.Instance) bool { return i.State == cloud.Gone })
	missing, err := d.Records.SaveView(ctx, a.Name, at, all, d.worksAgain(a)...)
	if err != nil {
		return err
	}
	for _, id := range missing[:min(len(missing), mostAsked)] {
		if err := d.ask(ctx, a, c, at, id); err != nil {
			return err
		}
	}
	seen, err := d.stored(ctx, a)
	if err != nil {
		return err
	}
	wall := at.UTC()
	d.mu.Lock()
	defer d.mu.Unlock()
	a.seen, a.at, a.SyncedAt = seen, &at, &wall
	a.FailedAt, a.Error, a.fails, a.again = nil, "", 0, 0
	return nil
}

// worksAgain is the event of the end of a failure.
func (d *Service) worksAgain(a *account) []store.Event {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if a.FailedAt == nil {
		return nil
	}
	e := d.event("provider.works", a, store.Actor{Name: "gateway"}, nil)
	e.Security = false
	return []store.Event{e}
}

// ask asks for one instance that two views lack. Only if the company says that there is none, or that it is destroyed, it is gone. Else it
// stays as it was, and is asked for again after the next view.
func (d *Service) ask(ctx context.Context, a *account, c Cloud, at time.Time, id string) error {
	i, err := get(ctx, c, id)
	said := new(cloud.Error)
	isGone := err == nil && i.State == cloud.Gone || errors.As(err, &said) && said.Kind == cloud.NoSuch
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !isGone:
		return nil
	}
	return d.Records.Gone(ctx, a.Name, id, at)
}

// rowOf is what the database keeps.
func rowOf(i *cloud.Instance) (rentals.Instance, error) {
	body, err := json.Marshal(i)
	return rentals.Instance{ID: i.ID, Name: i.Name, State: i.State, Price: (*int64)(i.Price), Running: (*int64)(i.Running),
		Storage: (*int64)(i.Storage), Body: string(body)}, err
}

// stored is the view that the database has. A row that cannot be read has what its columns say.
func (d *Service) stored(ctx context.Context, a *account) (all []*Seen, err error) {
	for r, err := range d.Records.Instances(ctx, a.Name) {
		if err != nil {
			return nil, err
		}
		s := &Seen{Account: a.Name, Kind: a.Kind, Tenant: r.Tenant, FirstAt: r.FirstAt, SeenAt: r.SeenAt}
		if json.Unmarshal([]byte(r.Body), &s.Instance) != nil {
			s.Instance = cloud.Instance{Name: r.Name, State: cloud.Unknown}
		}
		s.ID = r.ID
		all = append(all, s)
	}
	return all, nil
}
