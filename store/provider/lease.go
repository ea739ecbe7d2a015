package provider

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Lease is the time until which somebody has decided to pay for a machine.
type Lease struct {
	Account   string
	Instance  string
	Tenant    string
	Owner     string
	State     string // live, draining, ending or ended; the records know ended alone
	Act       string // at its end
	Why       string
	NodeID    string
	Rental    string // "": none
	EndsAt    time.Time
	CreatedAt time.Time
	Idle      *time.Duration // it ends too when the machine is idle for so long; nil: it does not
	Tries     int            // of the act
	TryAt     *time.Time
	EndedAt   *time.Time
	DrainedAt *time.Time
	AskedAt   *time.Time
	Drained   bool  // its node was drained for it
	Warned    bool  // its owner was told of EndsAt
	Version   int64 // of the record: each write adds one; 0: there is none yet
}

const leaseColumns = `account, instance, tenant, owner, state, act, why, node_id, rental, ends_at, created_at, idle_ms, tries, try_at,
	ended_at, drained_at, asked_at, drained, warned`

func readLease(r *engine.Row) Lease {
	l := Lease{Account: r.Text(), Instance: r.Text(), Tenant: r.Text(), Owner: r.Text(), State: r.Text(), Act: r.Text(), Why: r.Text(),
		NodeID: r.Text(), Rental: r.Text(), EndsAt: r.Time(), CreatedAt: r.Time()}
	if ms := r.Integer(); ms != nil {
		idle := time.Duration(*ms) * time.Millisecond
		l.Idle = &idle
	}
	l.Tries, l.TryAt, l.EndedAt, l.DrainedAt, l.AskedAt = int(r.Number()), r.Maybe(), r.Maybe(), r.Maybe(), r.Maybe()
	l.Drained, l.Warned, l.Version = r.Flag(), r.Flag(), r.Number()
	return l
}

// args are the parameters for leaseColumns.
func (l *Lease) args() []any {
	var idle any
	if l.Idle != nil {
		idle = l.Idle.Milliseconds()
	}
	return []any{l.Account, l.Instance, l.Tenant, l.Owner, l.State, l.Act, l.Why, l.NodeID, l.Rental, engine.Millis(l.EndsAt),
		engine.Millis(l.CreatedAt), idle, int64(l.Tries), engine.MaybeMillis(l.TryAt), engine.MaybeMillis(l.EndedAt),
		engine.MaybeMillis(l.DrainedAt), engine.MaybeMillis(l.AskedAt), engine.Flag(l.Drained), engine.Flag(l.Warned)}
}

func (l *Lease) insert(rest string) engine.Statement {
	return engine.Do("INSERT INTO machine_leases("+leaseColumns+", version) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)"+rest, l.args()...)
}

func (r Records) leases(ctx context.Context, f filter) ([]Lease, error) {
	return engine.All(ctx, r.db, readLease, engine.Do("SELECT "+leaseColumns+", version FROM machine_leases WHERE 1"+f.text+
		" ORDER BY account, instance", f.args...))
}

// Lease is that of an instance. ErrNotFound if it has none.
func (r Records) Lease(ctx context.Context, account, instance string) (Lease, error) {
	return engine.First(ctx, r.db, store.ErrNotFound, readLease,
		engine.Do("SELECT "+leaseColumns+", version FROM machine_leases WHERE account = ? AND instance = ?", account, instance))
}

// LeaseQuery selects leases. A zero field does not restrict the result, but Ended.
type LeaseQuery struct {
	Account string
	Tenant  string
	Ended   bool // those that have ended too
}

// Leases are those that a query selects, by account and instance.
func (r Records) Leases(ctx context.Context, q LeaseQuery) ([]Lease, error) {
	var f filter
	if !q.Ended {
		f.text = " AND state <> 'ended'" // in the words of the index
	}
	f.and("account = ?", q.Account)
	f.and("tenant = ?", q.Tenant)
	return r.leases(ctx, f)
}

// PutLease stores a new lease (Version 0), or changes the one that was read: its version is one higher from then on. ErrConflict if
// somebody else was faster, or if a new one is for an account that is not there.
func (r Records) PutLease(ctx context.Context, l Lease, events ...store.Event) error {
	if l.Version == 0 {
		return r.db.Change(ctx, []engine.Statement{known(l.Account), l.insert("")}, events...)
	}
	const which = "account = ? AND instance = ? AND version = ?"
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM machine_leases WHERE "+which+")", l.Account, l.Instance, l.Version),
		engine.Do("UPDATE machine_leases SET ("+leaseColumns+") = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?), "+
			"version = version + 1 WHERE "+which, append(l.args(), l.Account, l.Instance, l.Version)...),
	}, events...)
}

// DropLeases deletes leases that ended before a time, at most most, and tells how many. That of a machine which the company still has
// stays: it may say that the machine is kept.
func (r Records) DropLeases(ctx context.Context, before time.Time, most int) (int, error) {
	return r.db.Most(ctx, most, engine.Do(`DELETE FROM machine_leases WHERE (account, instance) IN (SELECT account, instance
		FROM machine_leases l WHERE state = 'ended' AND ended_at < ? AND NOT EXISTS(SELECT 1 FROM provider_instances i
			WHERE i.account = l.account AND i.id = l.instance AND i.gone_at IS NULL) ORDER BY ended_at LIMIT ?)`, engine.Millis(before),
		int64(most)))
}
