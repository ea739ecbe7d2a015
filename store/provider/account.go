package provider

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Account is one with a company that rents machines.
type Account struct {
	Name      string
	Kind      string // of company
	Tenant    string
	URL       string
	SSHKey    string
	CreatedBy string
	CreatedAt time.Time
	SyncedAt  *time.Time // of the last complete view; nil: there was none
	FailedAt  *time.Time // since when there is none; nil: it works
	Error     string
	Limit     *int64 // nil: none
}

// SecretName is the name of the secret that is an account's key.
func SecretName(account string) string { return "provider/" + account }

const accountColumns = `p.name, p.kind, p.tenant, p.url, p.ssh_key, p.created_by, p.created_at, p.synced_at, p.failed_at, p.error,
	s.per_hour FROM providers p LEFT JOIN spending_limits s ON s.of = 'account' AND s.name = p.name`

func readAccount(r *engine.Row) Account {
	return Account{Name: r.Text(), Kind: r.Text(), Tenant: r.Text(), URL: r.Text(), SSHKey: r.Text(), CreatedBy: r.Text(), CreatedAt: r.Time(),
		SyncedAt: r.Maybe(), FailedAt: r.Maybe(), Error: r.Text(), Limit: r.Integer()}
}

// Accounts are all accounts, by name.
func (r Records) Accounts(ctx context.Context) ([]Account, error) {
	return engine.All(ctx, r.db, readAccount, engine.Do("SELECT "+accountColumns+" ORDER BY p.name"))
}

func (r Records) account(ctx context.Context, name string) (Account, error) {
	return engine.First(ctx, r.db, store.ErrNotFound, readAccount, engine.Do("SELECT "+accountColumns+" WHERE p.name = ?", name))
}

// AddAccount stores a new account, with its limit. Its key is a secret: see SecretName. ErrConflict if there is one with its name.
func (r Records) AddAccount(ctx context.Context, a Account, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do("INSERT INTO providers(name, kind, tenant, url, ssh_key, created_at, created_by) VALUES (?, ?, ?, ?, ?, ?, ?)",
			a.Name, a.Kind, a.Tenant, a.URL, a.SSHKey, engine.Millis(a.CreatedAt), a.CreatedBy),
		limit(Limit{Of: OfAccount, Name: a.Name, PerHour: a.Limit, SetAt: a.CreatedAt, SetBy: a.CreatedBy}),
	}, events...)
}

// RemoveAccount deletes an account with its key, its limit, and all that it has shown. What was rented of it stays on record. ErrNotFound
// if there is none with this name. ErrConflict while it has leases that have not ended, rentals that are live, requests, or machines that
// were rented and are not gone: see Kept.
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

// ForgetAccount is RemoveAccount for an account whose company cannot be asked any more: noKey says that its key is not there, else its
// instances must not be seen now, or it is ErrConflict. What has not ended of it ends, each with an event that says why. The company may
// charge for the machines on and on.
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

// Kept are the ids of instances of an account that were made for rentals and that the company still has: they are charged, stopped or not.
func (r Records) Kept(ctx context.Context, account string) ([]string, error) {
	return engine.All(ctx, r.db, (*engine.Row).Text, engine.Do("SELECT i.id "+kept()+" ORDER BY i.id", account))
}

// Failed says that an account's instances could not be seen, and why. Since when, the first failure after a view says. ErrNotFound if there
// is no such account.
func (r Records) Failed(ctx context.Context, name string, at time.Time, text string, events ...store.Event) error {
	return r.noAccount(ctx, name, r.db.Change(ctx, []engine.Statement{
		known(name),
		engine.Do("UPDATE providers SET failed_at = coalesce(failed_at, ?), error = ? WHERE name = ?", engine.Millis(at), text, name),
	}, events...))
}
