package provider

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Account is an account with a company that rents machines.
type Account struct {
	Name      string     `sql:"name"`
	Kind      string     `sql:"kind"` // of company
	Tenant    string     `sql:"tenant"`
	URL       string     `sql:"url"`
	SSHKey    string     `sql:"ssh_key"`
	CreatedBy string     `sql:"created_by"`
	CreatedAt time.Time  `sql:"created_at"`
	SyncedAt  *time.Time `sql:"p.synced_at"` // of the last complete view; nil: there was none
	FailedAt  *time.Time `sql:"p.failed_at"` // since when there is none; nil: it works
	Error     string     `sql:"p.error"`
	Limit     *int64     `sql:"s.per_hour"` // nil: none
}

// SecretName returns the name of the secret that is an account's key.
func SecretName(account string) string { return "provider/" + account }

var accounts = engine.NewTable[Account]("providers", "p", "LEFT JOIN spending_limits s ON s.of = 'account' AND s.name = p.name")

// Accounts returns all accounts, by name.
func (r Records) Accounts(ctx context.Context) ([]Account, error) {
	return accounts.All(ctx, r.db, "ORDER BY p.name")
}

func (r Records) account(ctx context.Context, name string) (Account, error) {
	return accounts.First(ctx, r.db, "WHERE p.name = ?", name)
}

// AddAccount stores a new account, with its limit. Its key is a secret: see SecretName. ErrConflict if there is one with its name.
func (r Records) AddAccount(ctx context.Context, a Account, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		accounts.Insert(a, ""),
		limit(Limit{Of: OfAccount, Name: a.Name, PerHour: a.Limit, SetAt: a.CreatedAt, SetBy: a.CreatedBy}),
	}, events...)
}

// RemoveAccount deletes an account with its key, its limit, and all that it has shown. Its rentals stay on record. ErrNotFound if there is
// none with this name. ErrConflict while it has leases that have not ended, rentals that are live, requests, or machines that were rented
// and are not gone: see Kept.
func (r Records) RemoveAccount(ctx context.Context, name string, events ...store.Event) error {
	return r.noAccount(ctx, name, r.db.Change(ctx, append([]engine.Statement{
		known(name),
		engine.Guard("NOT EXISTS(SELECT 1 FROM machine_leases WHERE account = ? AND state <> 'ended')", name),
		engine.Guard("NOT EXISTS(SELECT 1 FROM rentals x WHERE x.account = ? AND "+live+")", name),
		engine.Guard("NOT EXISTS(SELECT 1 FROM rental_requests WHERE account = ? AND state = 'renting')", name),
		engine.Guard("NOT EXISTS(SELECT 1 "+kept()+")", name),
	}, removed(name)...), events...))
}

// removed deletes all of an account but what was rented of it.
func removed(name string) []engine.Statement {
	return []engine.Statement{
		engine.Do("DELETE FROM providers WHERE name = ?", name),
		engine.Do("DELETE FROM secrets WHERE name = ?", SecretName(name)),
		engine.Do("DELETE FROM spending_limits WHERE of = 'account' AND name = ?", name),
		engine.Do("DELETE FROM provider_instances WHERE account = ?", name),
		engine.Do("DELETE FROM provider_findings WHERE account = ?", name),
		engine.Do("DELETE FROM rejoins WHERE account = ?", name),
	}
}

// ForgetAccount does what RemoveAccount does, for an account whose company cannot be asked any more: its key is lost (noKey), or its
// instances cannot be seen now; else it returns ErrConflict. Leases, rentals and requests of the account that have not ended end, each with
// an event that says why. The company may go on charging for the machines.
//
// Should the account come back, none of these machines is destroyed for what is on record: their leases end as those that only tell, and an
// order that was not answered counts as one that nobody has made.
func (r Records) ForgetAccount(ctx context.Context, name, why string, at time.Time, noKey bool, events ...store.Event) error {
	now := engine.Millis(at)
	const ofLeases, ofRentals = "account = ? AND state <> 'ended'", "x.account = ? AND " + live
	const ended = "CASE x.state WHEN 'ready' THEN 'ended' ELSE 'failed' END"
	tell := func(kind, detail, from string) engine.Statement {
		return engine.Do(`INSERT INTO events(at, kind, actor, node_id, node_name, tenant, address, outcome, detail, security) SELECT ?, `+kind+
			`, 'gateway', node_id, '', tenant, '', 'failed', json_object('provider', account, 'instance', instance, 'why', ?, `+detail+
			"), 0 FROM "+from, now, why, name)
	}
	return r.noAccount(ctx, name, r.db.Change(ctx, append([]engine.Statement{
		known(name),
		engine.Guard("? = 1 OR EXISTS(SELECT 1 FROM providers WHERE name = ? AND failed_at IS NOT NULL)", engine.Flag(noKey), name),
		tell("'lease.ended'", "'act', act", "machine_leases WHERE "+ofLeases),
		tell("'rental.' || "+ended, "'rental', id, 'request', request", "rentals x WHERE "+ofRentals),
		engine.Do("UPDATE machine_leases SET state = 'ended', act = 'keep', why = ?, ended_at = ?, try_at = NULL, version = version + 1 "+
			"WHERE "+ofLeases, why, now, name),
		engine.Do("UPDATE rentals AS x SET state = "+ended+", why = ?, ended_at = ?, version = version + 1, "+
			"asked_at = CASE instance WHEN '' THEN NULL ELSE asked_at END WHERE "+ofRentals, why, now, name),
		engine.Do("UPDATE rental_requests SET state = 'failed', why = ?, done_at = ? WHERE account = ? AND state = 'renting'", why, now, name),
	}, removed(name)...), events...))
}

// kept is FROM the instances i of an account that were made for rentals and that are not gone, whether they run or not.
func kept() string {
	const rented = "EXISTS(SELECT 1 FROM rentals r WHERE r.account = i.account AND "
	return "FROM provider_instances i WHERE i.account = ? AND i.gone_at IS NULL AND (" +
		rented + "r.instance = i.id AND r.instance <> '') OR " + rented + made("i.name") + "))"
}

// Kept returns the ids of the account's instances that were made for rentals and that the company still has: they are charged, stopped or
// not.
func (r Records) Kept(ctx context.Context, account string) ([]string, error) {
	return engine.All(ctx, r.db, (*engine.Row).Text, engine.Do("SELECT i.id "+kept()+" ORDER BY i.id", account))
}

// Failed says that an account's instances could not be seen, and why. The first failure after a view sets since when. ErrNotFound if there
// is no such account.
func (r Records) Failed(ctx context.Context, name string, at time.Time, text string, events ...store.Event) error {
	return r.noAccount(ctx, name, r.db.Change(ctx, []engine.Statement{
		known(name),
		engine.Do("UPDATE providers SET failed_at = coalesce(failed_at, ?), error = ? WHERE name = ?", engine.Millis(at), text, name),
	}, events...))
}
