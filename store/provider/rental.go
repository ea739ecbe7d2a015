package provider

import (
	"context"
	"errors"
	"strings"
	"time"

	"muster/store"
	"muster/store/engine"
)

// live is true of a rental x that has not failed or ended, in the words of the indexes.
const live = "x.state <> 'failed' AND x.state <> 'ended'"

// Rental is one machine of a request.
type Rental struct {
	ID        string     `sql:"id"`
	Request   string     `sql:"request"`
	Number    int        `sql:"number"` // its place in the request; no two that are live have the same
	Account   string     `sql:"account"`
	Tenant    string     `sql:"tenant"`
	State     string     `sql:"state"` // intended, booting, checking, ready; the records know failed and ended, and take all else for live
	OfferJSON string     `sql:"offer"`
	Host      string     `sql:"host"`
	Instance  string     `sql:"instance"` // "": there is none yet
	Token     string     `sql:"token"`    // id of the one that it joins with
	NodeID    string     `sql:"node_id"`
	Why       string     `sql:"why"`
	Price     int64      `sql:"price"`
	CreatedAt time.Time  `sql:"created_at"`
	AskedAt   *time.Time `sql:"asked_at"`
	BootedAt  *time.Time `sql:"booted_at"`
	ReadyAt   *time.Time `sql:"ready_at"`
	EndedAt   *time.Time `sql:"ended_at"`
	Version   int64      `sql:"version"` // of the record: each write adds one
}

var rentals = engine.NewTable[Rental]("rentals", "x", "")

// Foreign returns which of these names of machines belong to rentals of an account that are not on record here. Another gateway may have
// the same account. Rentals stay on record for as long as their machines are there.
func (r Records) Foreign(ctx context.Context, account string, names []string) (map[string]bool, error) {
	foreign := map[string]bool{}
	var ids []string
	for _, name := range names {
		if id, made := strings.CutPrefix(name, NamePrefix); made {
			ids = append(ids, id)
			foreign[name] = true
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	const some = "SELECT id FROM rentals WHERE account = ? AND id IN (SELECT value FROM json_each(?))"
	found, err := engine.All(ctx, r.db, (*engine.Row).Text, engine.Do(some, account, engine.JSON(ids)))
	for _, id := range found {
		delete(foreign, NamePrefix+id)
	}
	return foreign, err
}

// wanted is true if a rental may be made for a request: of its account and tenant, while it is renting, and while it has fewer live ones
// than it wants. Its parameters are the request's id, account and tenant.
const wanted = `EXISTS(SELECT 1 FROM rental_requests q WHERE q.id = ? AND q.account = ? AND q.tenant = ? AND q.state = 'renting'
	AND q.count > (SELECT count(*) FROM rentals x WHERE x.request = q.id AND ` + live + "))"

// Intend stores that a machine is about to be rented. The company is asked only after it. ErrLimit if the limit of the account or of the
// tenant would be passed by it, or if nobody knows whether it would: then a limited account was never seen, or the price of a machine that
// runs is not known. ErrConflict if there is a rental with its id, if the request is over or has all that it wants, or its place is taken.
func (r Records) Intend(ctx context.Context, x Rental, events ...store.Event) error {
	for { // as long as others are faster and give back again what was in the way
		err := r.intend(ctx, x, events)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		again := store.Fresh(ctx)
		free, read := engine.First(again, r.db, (*engine.Row).Flag, engine.Do("SELECT "+wanted+` AND NOT EXISTS(
			SELECT 1 FROM rentals x WHERE x.id = ? OR x.request = ? AND x.number = ? AND `+live+")", x.Request, x.Account, x.Tenant, x.ID,
			x.Request, int64(x.Number)))
		if read != nil || !free {
			return errors.Join(err, read)
		}
		if limit := r.Passed(again, x); limit != nil {
			return limit
		}
	}
}

func (r Records) intend(ctx context.Context, x Rental, events []store.Event) error {
	x.State, x.Version = "intended", 1
	return r.db.Change(ctx, []engine.Statement{
		known(x.Account),
		engine.Guard(wanted, x.Request, x.Account, x.Tenant),
		rentals.Insert(x, ""),
		engine.Guard("NOT "+blind, x.Account, x.Account, x.Tenant),
		engine.Guard("NOT "+over(OfAccount), x.Account, x.Account, x.Account, x.Account),
		engine.Guard("NOT "+over(OfTenant), x.Tenant, x.Tenant, x.Tenant, x.Tenant),
	}, events...)
}

// put changes a rental that was read. What it is of, and its price, stay. One that has failed or ended does not come back to life, since
// that would pass the limits.
func (x *Rental) put() []engine.Statement {
	const which = "x.id = ? AND x.version = ?"
	return []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM rentals x WHERE "+which+" AND ("+live+" OR ? IN ('failed', 'ended')))", x.ID, x.Version, x.State),
		engine.Do(`UPDATE rentals AS x SET state = ?, offer = ?, host = ?, instance = ?, token = ?, node_id = ?, why = ?, asked_at = ?,
			booted_at = ?, ready_at = ?, ended_at = ?, version = version + 1 WHERE `+which, x.State, x.OfferJSON, x.Host, x.Instance, x.Token,
			x.NodeID, x.Why, engine.MaybeMillis(x.AskedAt), engine.MaybeMillis(x.BootedAt), engine.MaybeMillis(x.ReadyAt),
			engine.MaybeMillis(x.EndedAt), x.ID, x.Version),
		engine.Do("UPDATE provider_instances SET tenant = ? WHERE account = ? AND id = ? AND tenant <> ?", x.Tenant, x.Account, x.Instance,
			x.Tenant),
	}
}

// PutRental changes the rental that was read, and raises its version by one. It does not change what is rented, nor the price. ErrConflict
// if somebody else was faster, if one that has failed or ended would be live again, or if another has its instance.
func (r Records) PutRental(ctx context.Context, x Rental, events ...store.Event) error {
	return r.db.Change(ctx, x.put(), events...)
}

// Created does what PutRental does, for a rental that has its instance now, and stores the instance's lease. If somebody has put the
// instance under a lease meanwhile, that lease stays as it is, and becomes the rental's. ErrConflict too if the instance's lease is another
// rental's, or has ended.
func (r Records) Created(ctx context.Context, x Rental, l Lease, events ...store.Event) error {
	l.Version = 1
	return r.db.Change(ctx, append(x.put(),
		leases.Insert(l, "ON CONFLICT DO UPDATE SET rental = excluded.rental, version = version + 1 WHERE rental = '' AND state <> 'ended'"),
		engine.Guard("EXISTS(SELECT 1 FROM machine_leases WHERE account = ? AND instance = ? AND rental = ?)", x.Account, x.Instance, x.ID),
	), events...)
}

// RentalQuery selects rentals. A zero field does not restrict the result.
type RentalQuery struct {
	Request  string
	ID       string
	Account  string
	Instance string
	Live     bool // only those that have not failed or ended
}

// Rentals returns the rentals that match a query, by request, place and time.
func (r Records) Rentals(ctx context.Context, q RentalQuery) ([]Rental, error) {
	var where engine.Where
	if q.Live {
		where.And(live)
	}
	where.Given("x.request = ?", q.Request)
	where.Given("x.id = ?", q.ID)
	where.Given("x.account = ?", q.Account)
	where.Given("x.instance = ? AND x.instance <> ''", q.Instance) // in the words of the index
	return rentals.All(ctx, r.db, where.SQL()+"ORDER BY request, number, created_at, id", where.Args...)
}
