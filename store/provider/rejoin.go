package provider

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Rejoin says that a machine starts again with a script that has it join the fleet. It is named by its token: each has a token of its own.
type Rejoin struct {
	Account  string     `sql:"account"`
	Instance string     `sql:"instance"`
	Tenant   string     `sql:"tenant"`
	State    string     `sql:"state"`   // asked, joined, failed; the records know asked alone
	Token    string     `sql:"token"`   // id of the one in the script
	NodeID   string     `sql:"node_id"` // "": none yet
	Why      string     `sql:"why"`
	AskedBy  string     `sql:"asked_by"`
	AskedAt  time.Time  `sql:"asked_at"`
	EndedAt  *time.Time `sql:"ended_at"`
}

const asked = "state = 'asked'"

// Rejoins returns the newest rejoin of each instance of an account, by instance; of one instance only, if instance is set.
func (r Records) Rejoins(ctx context.Context, account, instance string) ([]Rejoin, error) {
	var where engine.Where
	where.Given("account = ?", account)
	where.Given("instance = ?", instance)
	return rejoins.All(ctx, r.db, where.SQL()+"ORDER BY account, instance", where.Args...)
}

var rejoins = engine.NewTable[Rejoin]("rejoins", "", "")

// BeginRejoin stores that a machine is about to start again. The company is asked only after it. ErrConflict if it was asked before and
// that has not ended, if the machine's lease is over, or if there is no such machine.
func (r Records) BeginRejoin(ctx context.Context, x Rejoin, events ...store.Event) error {
	const which = "account = ? AND instance = ? AND "
	x.State = "asked"
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM provider_instances WHERE account = ? AND id = ? AND gone_at IS NULL)", x.Account, x.Instance),
		engine.Guard("NOT EXISTS(SELECT 1 FROM machine_leases WHERE "+which+"state IN ('draining', 'ending'))", x.Account, x.Instance),
		engine.Guard("NOT EXISTS(SELECT 1 FROM rejoins WHERE "+which+asked+")", x.Account, x.Instance),
		engine.Do("DELETE FROM rejoins WHERE account = ? AND instance = ?", x.Account, x.Instance),
		rejoins.Insert(x, ""),
	}, events...)
}

// PutRejoin says how far a rejoin is. ErrConflict if it has ended.
func (r Records) PutRejoin(ctx context.Context, x Rejoin, events ...store.Event) error {
	open := engine.In("rejoins", "account = ? AND instance = ? AND token = ? AND "+asked, x.Account, x.Instance, x.Token)
	return r.db.Change(ctx, open.Update("state = ?, node_id = ?, why = ?, ended_at = ?", x.State, x.NodeID, x.Why,
		engine.MaybeMillis(x.EndedAt)), events...)
}
