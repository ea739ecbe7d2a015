package provider

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Lease is the time until which somebody has decided to pay for a machine.
type Lease struct {
	Account   string         `sql:"account"`
	Instance  string         `sql:"instance"`
	Tenant    string         `sql:"tenant"`
	Owner     string         `sql:"owner"`
	State     string         `sql:"state"` // live, draining, ending or ended; the records know ended alone
	Act       string         `sql:"act"`   // at its end
	Why       string         `sql:"why"`
	NodeID    string         `sql:"node_id"`
	Rental    string         `sql:"rental"` // "": none
	EndsAt    time.Time      `sql:"ends_at"`
	CreatedAt time.Time      `sql:"created_at"`
	Idle      *time.Duration `sql:"idle_ms"` // it ends too when the machine is idle for so long; nil: it does not
	Tries     int            `sql:"tries"`   // of the act
	TryAt     *time.Time     `sql:"try_at"`
	EndedAt   *time.Time     `sql:"ended_at"`
	DrainedAt *time.Time     `sql:"drained_at"`
	AskedAt   *time.Time     `sql:"asked_at"`
	Drained   bool           `sql:"drained"` // its node was drained for it
	Warned    bool           `sql:"warned"`  // its owner was told of EndsAt
	Version   int64          `sql:"version"` // of the record: each write adds one; 0: there is none yet
}

var leases = engine.NewTable[Lease]("machine_leases", "", "")

// Lease returns the lease of an instance. ErrNotFound if it has none.
func (r Records) Lease(ctx context.Context, account, instance string) (Lease, error) {
	return leases.First(ctx, r.db, "WHERE account = ? AND instance = ?", account, instance)
}

// LeaseQuery selects leases. A zero field does not restrict the result, except Ended.
type LeaseQuery struct {
	Account string
	Tenant  string
	Ended   bool // those that have ended too
}

// Leases returns the leases that match the query, by account and instance.
func (r Records) Leases(ctx context.Context, q LeaseQuery) ([]Lease, error) {
	var where engine.Where
	if !q.Ended {
		where.And("state <> 'ended'") // in the words of the index
	}
	where.Given("account = ?", q.Account)
	where.Given("tenant = ?", q.Tenant)
	return leases.All(ctx, r.db, where.SQL()+"ORDER BY account, instance", where.Args...)
}

// PutLease stores a new lease (Version 0), or changes the lease that was read, and raises its version by one. ErrConflict if somebody else
// was faster, or if a new one is for an account that is not there.
func (r Records) PutLease(ctx context.Context, l Lease, events ...store.Event) error {
	was := l.Version
	l.Version++
	if was == 0 {
		return r.db.Change(ctx, []engine.Statement{known(l.Account), leases.Insert(l, "")}, events...)
	}
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM machine_leases WHERE account = ? AND instance = ? AND version = ?)", l.Account, l.Instance, was),
		leases.Put(l),
	}, events...)
}

// DropLeases deletes leases that ended before a time, at most most, and tells how many. It keeps the lease of a machine that the company
// still has: the lease may say that the machine is kept.
func (r Records) DropLeases(ctx context.Context, before time.Time, most int) (int, error) {
	return r.db.Most(ctx, most, engine.Do(`DELETE FROM machine_leases WHERE (account, instance) IN (SELECT account, instance
		FROM machine_leases l WHERE state = 'ended' AND ended_at < ? AND NOT EXISTS(SELECT 1 FROM provider_instances i
			WHERE i.account = l.account AND i.id = l.instance AND i.gone_at IS NULL) ORDER BY ended_at LIMIT ?)`, engine.Millis(before),
		int64(most)))
}
