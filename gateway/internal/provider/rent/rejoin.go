package rent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
)

const (
	settles     = 5 * time.Minute // so long a machine that starts again may look broken
	rejoinTries = 4               // where the company is asked too often
)

// silent is a machine that runs and is not heard.
type silent struct {
	*market.Seen
	lease  rentals.Lease // zero: none
	rental *rentals.Rental
	nodes  []*api.NodeRow // that say that they are this, or are so on record

	isForeign bool // another gateway has rented it
}

// rejoin has a machine start again with a script that joins it to the fleet. What that costs cloud.RejoinCosts says. That it is asked for
// is on record before, and the gateway looks at it until it is heard. The same again while it does changes nothing.
func (s *Service) rejoin(ctx context.Context, account, instance string, by store.Actor) error {
	if !s.Ready() {
		return wire.Refuse(wire.CodeUnavailable, "the gateway still reads the fleet", "try again in a few seconds")
	}
	if isAsked, err := s.isAsked(ctx, account, instance); err != nil || isAsked {
		return err
	}
	c, err := s.Market.Cloud(account)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime) // a caller who goes away does not leave it half done
	defer cancel()
	now, err := c.Get(ctx, instance)
	if err != nil {
		return cloud.Refusal(err, "the company does not show "+instance, "nothing was done; muster provider instances "+account)
	}
	m, err := s.silent(ctx, account, instance)
	if err == nil {
		err = m.mayRejoin(now.State, s.Leases.Busy)
	}
	if err != nil {
		return err
	}
	x, command, err := s.beginRejoin(ctx, m, by)
	if err != nil || command == "" {
		return err
	}
	answer := c.Rejoin(ctx, instance, script(m.Kind, command))
	for range rejoinTries - 1 {
		if !passes(ctx, answer) {
			break
		}
		answer = c.Rejoin(ctx, instance, script(m.Kind, command)) // the account's pace has it wait
	}
	return s.rejoined(ctx, x, answer)
}

// passes is true for an answer that says only: not so soon, where there is time to ask again.
func passes(ctx context.Context, answer error) bool {
	var failed *cloud.Error
	until, limited := ctx.Deadline()
	return errors.As(answer, &failed) && failed.Kind == cloud.Limited && (!limited || failed.Again < time.Until(until)/2)
}

// isAsked is true if a machine is asked to start again, and that has not ended.
func (s *Service) isAsked(ctx context.Context, account, instance string) (bool, error) {
	all, err := s.Records.Rejoins(store.Fresh(ctx), account, instance)
	return len(all) == 1 && all[0].State == providers.RejoinAsked, err
}

// silent collects what is known of a machine.
func (s *Service) silent(ctx context.Context, account, instance string) (m silent, err error) {
	ctx = store.Fresh(ctx)
	if m.Seen = s.seen(account, instance); m.Seen == nil {
		return m, noInstance(account, instance)
	}
	if m.lease, err = s.Records.Lease(ctx, account, instance); err != nil && !errors.Is(err, store.ErrNotFound) {
		return m, err
	}
	ids := []string{m.lease.NodeID}
	found, err := s.Records.Rentals(ctx, rentals.RentalQuery{Account: account, Instance: instance})
	for _, r := range found {
		m.rental = &r
		ids = append(ids, r.NodeID)
	}
	if n, known := s.NodeOf(m.Kind, instance); known {
		m.nodes = append(m.nodes, n)
	}
	for _, id := range ids {
		if n, known := s.Node(id); known && !slices.Contains(m.nodes, n) {
			m.nodes = append(m.nodes, n)
		}
	}
	foreign, asked := s.Records.Foreign(ctx, account, []string{m.Name})
	m.isForeign = foreign[m.Name] && len(m.nodes) == 0
	return m, errors.Join(err, asked)
}

// mayRejoin refuses a machine that works, is being given back, or whose company cannot do it. now is its state there.
func (m *silent) mayRejoin(now string, busy func(nodeID string) []string) error {
	no := func(what, next string) error { return wire.Refuse(wire.CodeIllegalMove, what, next) }
	name := m.Account + "/" + m.ID
	switch {
	case m.isForeign:
		return no("another gateway has rented "+name+", and may use it: its disk would be lost", "that gateway joins or ends it; where it is no "+
			"more, muster push joins the machine over ssh, and muster provider destroy "+name+" ends it")
	case cloud.RejoinCosts(m.Kind) == "":
		return no("the company of "+name+" runs a start script only once", "muster provider onboard "+name+" joins it over ssh")
	case now != cloud.Running:
		return no(fmt.Sprintf("%s is %s at its company", name, now), "muster provider start "+name+" starts one that is stopped; wait for one "+
			"that starts; muster provider destroy "+name+" ends one that is broken")
	case m.lease.State == providers.LeaseDraining || m.lease.State == providers.LeaseEnding:
		return no("the lease of "+name+" is over, and it is to "+m.lease.Act, "muster lease ls shows how far that is")
	case m.rental != nil && (m.rental.State == providers.RentalBooting || m.rental.State == providers.RentalChecking):
		return no(name+" is being rented, and is replaced if it does not come up", "muster rent show "+m.rental.Request)
	}
	for _, n := range m.nodes {
		switch {
		case n.State == wire.StateRetired:
			continue // nothing works on what was given back
		case n.Status == wire.StatusOnline:
			return no("the node "+n.Name+" says that it is "+name+", and it reports", "there is nothing to settle: muster provider instances "+
				m.Account)
		}
		if work := busy(n.ID); len(work) > 0 {
			return no(fmt.Sprintf("the node %s is in use: %s", n.Name, work[0]), "its disk may hold what somebody needs: end that first "+
				"(muster alloc release, muster task cancel), or give the node up: muster node retire "+n.Name)
		}
	}
	return nil
}

// beginRejoin puts on record that a machine is to start again, with the command that joins it; "": somebody else has asked for it
// meanwhile.
func (s *Service) beginRejoin(ctx context.Context, m silent, by store.Actor) (x rentals.Rejoin, command string, err error) {
	x = rentals.Rejoin{Account: m.Account, Instance: m.ID, Tenant: m.Tenant, State: providers.RejoinAsked, AskedBy: by.Name, AskedAt: s.Now()}
	q := api.TokenRequest{Tenant: m.Tenant, Uses: 1, TTL: api.Duration(tokenTTL), GPUs: m.GPUs, BindInstance: true}
	if m.rental != nil {
		q.Name = nameOf(*m.rental)
		if q.Labels, err = s.promisedOf(ctx, *m.rental); err != nil {
			return x, "", err
		}
	}
	for _, n := range m.nodes {
		if n.State != wire.StateRetired && n.Tenant == m.Tenant {
			x.NodeID, q.Node, q.Name = n.ID, n.ID, n.Name
		}
	}
	token, err := s.Mint(ctx, q, store.Actor{Name: byGateway})
	switch {
	case err != nil:
		return x, "", err
	case token.Command == "":
		return x, "", errors.Join(wire.Refuse(wire.CodeUnavailable, "no machine can join this gateway: it has no public URL",
			"muster serve --public-url URL"), s.Revoke(ctx, token.ID))
	}
	x.Token = token.ID
	err = s.Records.BeginRejoin(ctx, x, s.aboutRejoin("instance.rejoining", x, by))
	if err == nil {
		return x, token.Command, nil
	}
	revoked := s.Revoke(ctx, token.ID)
	if errors.Is(err, store.ErrConflict) {
		isAsked, look := s.isAsked(ctx, m.Account, m.ID)
		if isAsked || look != nil {
			return x, "", errors.Join(look, revoked)
		}
		err = wire.Refuse(wire.CodeUnavailable, m.ID+" has changed meanwhile", "try again")
	}
	return x, "", errors.Join(err, revoked)
}

// promisedOf are the labels that a rental's machine had when it was ordered.
func (s *Service) promisedOf(ctx context.Context, r rentals.Rental) (map[string]string, error) {
	found, err := s.Records.Requests(ctx, rentals.RequestQuery{ID: r.Request})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	want, err := readWant(found[0])
	var offer cloud.Offer
	err = errors.Join(err, json.Unmarshal([]byte(r.OfferJSON), &offer))
	return promised(want, offer), err
}

// rejoined takes the company's answer. Where it is not clear whether it was done, the machine is looked at all the same.
func (s *Service) rejoined(ctx context.Context, x rentals.Rejoin, answer error) error {
	s.Soon(x.Account)
	var failed *cloud.Error
	switch isKnown := errors.As(answer, &failed); {
	case answer == nil:
		return nil
	case !isKnown || failed.Kind == cloud.Unclear:
		x.Why = wire.Plain("the company's answer is not clear: "+answer.Error(), wire.MaxText)
		return unlessEnded(s.Records.PutRejoin(context.WithoutCancel(ctx), x))
	}
	refused := cloud.Refusal(answer, "the company does not start "+x.Instance+" with another script", "muster provider onboard "+x.Account+"/"+
		x.Instance+" --plan has the command for doing it by hand")
	if err := unlessEnded(s.endRejoin(context.WithoutCancel(ctx), x, "the company refuses it: "+failed.Error())); err != nil {
		return err
	}
	return refused
}

// unlessEnded leaves out that a round has ended it before the company answered: then the record says how.
func unlessEnded(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// watchRejoins looks at the machines that were asked to start again.
func (s *Service) watchRejoins(ctx context.Context, t *tables) (failed error) {
	all, err := s.Records.Rejoins(store.Fresh(ctx), t.Name, "")
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.State == providers.RejoinAsked {
			if err := s.watchRejoin(ctx, t, x); err != nil && !errors.Is(err, store.ErrConflict) {
				failed = errors.Join(failed, fmt.Errorf("instance %s: %w", x.Instance, err))
			}
		}
	}
	return failed
}

func (s *Service) watchRejoin(ctx context.Context, t *tables, x rentals.Rejoin) error {
	now := s.Now()
	waited := now.Sub(x.AskedAt) - s.Away(x.AskedAt, now)
	i := s.seen(x.Account, x.Instance)
	l := t.leases[x.Instance]
	n, known := s.NodeOf(t.Kind, x.Instance)
	switch {
	case known && n.Tenant == x.Tenant && n.Status == wire.StatusOnline && n.LastSeen != nil && n.LastSeen.After(x.AskedAt):
		return s.isBack(ctx, t, x, n)
	case i == nil:
		return s.endRejoin(ctx, x, "it is gone")
	case l.State == providers.LeaseDraining || l.State == providers.LeaseEnding:
		return s.endRejoin(ctx, x, "its lease is over")
	case i.State == cloud.Broken && i.SeenAt.After(x.AskedAt) && waited >= settles:
		return s.endRejoin(ctx, x, "it did not come up: "+cmp.Or(i.Why, i.Raw))
	case waited >= bootLimit:
		return s.endRejoin(ctx, x, cmp.Or(x.Why, fmt.Sprintf("the company took the new start script, and the agent was not heard within %s",
			bootLimit)))
	}
	return nil
}

// isBack notes that a machine is heard again. Its lease and its rental learn which node it is.
func (s *Service) isBack(ctx context.Context, t *tables, x rentals.Rejoin, n *api.NodeRow) error {
	if l, known := t.leases[x.Instance]; known && l.NodeID != n.ID {
		l.NodeID = n.ID
		if err := s.Records.PutLease(ctx, l); err != nil {
			return err
		}
	}
	for _, r := range t.live {
		if r.Instance == x.Instance && r.NodeID != n.ID {
			r.NodeID = n.ID
			if err := s.Records.PutRental(ctx, r); err != nil {
				return err
			}
		}
	}
	x.State, x.NodeID, x.Why, x.EndedAt = providers.RejoinJoined, n.ID, "", new(s.Now())
	return s.Records.PutRejoin(ctx, x, s.aboutRejoin("instance.rejoined", x, store.Actor{Name: byGateway}))
}

// endRejoin gives it up. Its token is void before that is on record: what has ended nobody looks at again.
func (s *Service) endRejoin(ctx context.Context, x rentals.Rejoin, why string) error {
	if err := s.Revoke(ctx, x.Token); err != nil {
		return err
	}
	x.State, x.Why, x.EndedAt = providers.RejoinFailed, wire.Plain(why, wire.MaxText), new(s.Now())
	return s.Records.PutRejoin(ctx, x, s.aboutRejoin("instance.not_rejoined", x, store.Actor{Name: byGateway}))
}

func (s *Service) aboutRejoin(kind string, x rentals.Rejoin, by store.Actor) store.Event {
	e := store.Event{At: s.Now(), Kind: kind, Actor: by.Name, Address: by.Address, NodeID: x.NodeID, Tenant: x.Tenant,
		Outcome: store.OutcomeOK, Detail: map[string]string{"provider": x.Account, "instance": x.Instance, "token": x.Token}}
	if x.Why != "" {
		e.Outcome, e.Detail["why"] = "failed", x.Why
	}
	return e
}
