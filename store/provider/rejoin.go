package provider

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Rejoin says that a machine starts again with a script that has it join the fleet. Its token is its name: each has one of its own.
type Rejoin struct {
	Account  string
	Instance string
	Tenant   string
	State    string // asked, joined, failed; the records know asked alone
	Token    string // id of the one in the script
	NodeID   string // "": none yet
	Why      string
	AskedBy  string
	AskedAt  time.Time
	EndedAt  *time.Time
}

const asked = "state = 'asked'"

// Rejoins are the newest of each instance of an account, by instance. instance: that one's alone; empty: all.
func (r Records) Rejoins(ctx context.Context, account, instance string) ([]Rejoin, error) {
	var f filter
	f.and("account = ?", account)
	f.and("instance = ?", instance)
	return engine.All(ctx, r.db, func(r *engine.Row) Rejoin {
		return Rejoin{Account: r.Text(), Instance: r.Text(), Tenant: r.Text(), State: r.Text(), Token: r.Text(), NodeID: r.Text(),
			Why: r.Text(), AskedBy: r.Text(), AskedAt: r.Time(), EndedAt: r.Maybe()}
	}, engine.Do(`SELECT account, instance, tenant, state, token, node_id, why, asked_by, asked_at, ended_at FROM rejoins WHERE 1`+f.text+
		" ORDER BY account, instance", f.args...))
}

// BeginRejoin stores that a machine is about to start again. The company is asked only after it. ErrConflict if it was asked before and
// that has not ended, if the machine's lease is over, or if there is no such machine.
func (r Records) BeginRejoin(ctx context.Context, x Rejoin, events ...store.Event) error {
	const which = "account = ? AND instance = ? AND "
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM provider_instances WHERE account = ? AND id = ? AND gone_at IS NULL)", x.Account, x.Instance),
		engine.Guard("NOT EXISTS(SELECT 1 FROM machine_leases WHERE "+which+"state IN ('draining', 'ending'))", x.Account, x.Instance),
		engine.Guard("NOT EXISTS(SELECT 1 FROM rejoins WHERE "+which+asked+")", x.Account, x.Instance),
		engine.Do("DELETE FROM rejoins WHERE account = ? AND instance = ?", x.Account, x.Instance),
		engine.Do(`INSERT INTO rejoins(account, instance, tenant, state, token, node_id, why, asked_by, asked_at)
			VALUES (?, ?, ?, 'asked', ?, ?, '', ?, ?)`, x.Account, x.Instance, x.Tenant, x.Token, x.NodeID, x.AskedBy,
			engine.Millis(x.AskedAt)),
	}, events...)
}

// PutRejoin says how far one is that was asked. ErrConflict if it has ended.
func (r Records) PutRejoin(ctx context.Context, x Rejoin, events ...store.Event) error {
	const which = "account = ? AND instance = ? AND token = ? AND " + asked
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM rejoins WHERE "+which+")", x.Account, x.Instance, x.Token),
		engine.Do("UPDATE rejoins SET state = ?, node_id = ?, why = ?, ended_at = ? WHERE "+which, x.State, x.NodeID, x.Why,
			engine.MaybeMillis(x.EndedAt), x.Account, x.Instance, x.Token),
	}, events...)
}
