package provider

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"muster/store"
	"muster/store/engine"
)

// What a limit is of.
const (
	OfAccount = "account"
	OfTenant  = "tenant"
)

// ErrLimit says that a rental would pass a spending limit. Its text says which one, and what counts against it.
var ErrLimit = errors.New("a spending limit does not allow this")

// Limit is what the machines of an account or a tenant may cost per hour.
type Limit struct {
	Of      string    `sql:"of"` // OfAccount or OfTenant
	Name    string    `sql:"name"`
	PerHour *int64    `sql:"per_hour"` // nil: there is no limit
	SetAt   time.Time `sql:"set_at"`
	SetBy   string    `sql:"set_by"`
}

// limit sets or removes a limit.
func limit(l Limit) engine.Statement {
	if l.PerHour == nil {
		return engine.Do("DELETE FROM spending_limits WHERE of = ? AND name = ?", l.Of, l.Name)
	}
	return limits.Put(l)
}

var limits = engine.NewTable[Limit]("spending_limits", "", "")

// SetLimit sets the limit of an account; nil removes it. Machines that run already go on. ErrNotFound if there is no such account.
func (r Records) SetLimit(ctx context.Context, account string, perHour *int64, at time.Time, by string, events ...store.Event) error {
	return r.noAccount(ctx, account, r.db.Change(ctx, []engine.Statement{
		known(account),
		limit(Limit{Of: OfAccount, Name: account, PerHour: perHour, SetAt: at, SetBy: by}),
	}, events...))
}

// SetTenantLimit sets the limit of a tenant over all accounts; nil removes it. Machines that run already go on.
func (r Records) SetTenantLimit(ctx context.Context, tenant string, perHour *int64, at time.Time, by string, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{limit(Limit{Of: OfTenant, Name: tenant, PerHour: perHour, SetAt: at, SetBy: by})}, events...)
}

// Limits returns all limits, those of accounts first, by name.
func (r Records) Limits(ctx context.Context) ([]Limit, error) {
	return limits.All(ctx, r.db, "ORDER BY of, name")
}

// mark begins the names of the instances that are made for rentals. The rental's id follows.
const mark = "'" + NamePrefix + "'"

// made is true of the rental r for which an instance with a name was made. Its second part finds the rental by its id.
func made(name string) string {
	return name + " = " + mark + " || r.id AND r.id = substr(" + name + ", length(" + mark + ") + 1)"
}

// runs is the condition that an instance runs, or may run, or was asked to. A word that nobody has foreseen counts. charged is that of one
// that counts: it runs so, or its disk is kept, or it is being destroyed and the company charges for it until that is done.
const (
	runs    = "gone_at IS NULL AND (start_at IS NOT NULL OR state NOT IN ('stopped', 'ending', 'gone'))"
	charged = "gone_at IS NULL AND (start_at IS NOT NULL OR state <> 'gone')"
)

// unseen is true of a rental x whose instance does not count by itself yet. An instance is a rental's by its id. While nobody knows the
// id, it is by its name; then only one that counts stands for the rental, since another may be on its way.
const unseen = `NOT EXISTS(SELECT 1 FROM provider_instances i WHERE i.account = x.account AND i.id = x.instance)
	AND NOT (x.instance = '' AND EXISTS(SELECT 1 FROM provider_instances i WHERE +i.account = x.account AND i.name = ` + mark +
	" || x.id AND " + runs + "))" // + has it search by name

// counted are the machines that count against limits, each once, with what they cost an hour; NULL: nobody knows. These are the instances
// that run or may run, those that are stopped, for their disks, those that are being destroyed, the rentals that are live and whose
// instance no view shows yet, and those that have failed or ended and whose lease says that their instance, which no view has shown, is
// not destroyed yet. What is charged now is the price of one that runs, is stopped or ends; of others it is only if nothing else is known,
// since one that starts may be charged for its disk alone. The condition is one on x.account or x.tenant.
func counted(condition string) string {
	const byID = "(SELECT r.price FROM rentals r WHERE r.account = x.account AND r.instance = x.id AND r.instance <> '')"
	byName := "(SELECT r.price FROM rentals r WHERE r.account = x.account AND " + made("x.name") + ")"
	const columns = "SELECT x.account, x.tenant, "
	const seen = `CASE WHEN x.state = 'stopped' AND x.start_at IS NULL THEN coalesce(x.price, x.storage)
		WHEN x.state = 'ending' AND x.start_at IS NULL THEN coalesce(x.price, x.running)
		ELSE coalesce(x.running, CASE x.state WHEN 'running' THEN x.price END) END, `
	return columns + "coalesce(" + seen + byID + ", " + byName + `, x.price) AS price FROM provider_instances x
			WHERE ` + charged + " AND " + condition +
		" UNION ALL " + columns + "x.price FROM rentals x WHERE " + live + " AND " + unseen + " AND " + condition +
		" UNION ALL " + columns + `x.price FROM machine_leases l INDEXED BY machine_leases_live
			CROSS JOIN rentals x ON x.id = l.rental AND x.account = l.account AND x.instance = l.instance AND NOT (` + live + `)
			WHERE l.state <> 'ended' AND ` + unseen + " AND " + condition
}

// over is true if a limit is passed, or if it is not known whether it is. Its parameters are the name of the account or tenant, twice.
func over(of string) string {
	return "EXISTS(SELECT 1 FROM spending_limits s WHERE s.of = '" + of + `' AND s.name = ? AND s.per_hour <
		(SELECT CASE WHEN count(*) > count(price) THEN 9223372036854775807 ELSE coalesce(sum(price), 0) END
		FROM (` + counted("x."+of+" = ?") + ")))"
}

// blind is true if a limit matters for rentals of an account, and nobody has ever seen what runs there. Its parameters are the account,
// again, and the tenant.
const blind = `EXISTS(SELECT 1 FROM providers p CROSS JOIN spending_limits s WHERE p.name = ? AND p.synced_at IS NULL
	AND (s.of = 'account' AND s.name = ? OR s.of = 'tenant' AND s.name = ?))`

// Spending is what counts against a limit now.
type Spending struct {
	Of       string // OfAccount or OfTenant
	Name     string
	PerHour  int64  // of the machines whose price is known
	Unpriced int64  // machines whose price is not; while there are any, the limit allows nothing
	Limit    *int64 // nil: none
}

// Spent returns what each account costs now, and each tenant that has a limit or machines. Accounts come first; both are by name.
func (r Records) Spent(ctx context.Context) ([]Spending, error) {
	all := counted("1")
	return engine.All(ctx, r.db, readSpending, engine.Do("WITH c AS MATERIALIZED ("+all+`), o(of, name, price) AS (
		SELECT 'account', account, price FROM c UNION ALL SELECT 'tenant', tenant, price FROM c),
		n(of, name) AS (SELECT 'account', name FROM providers UNION SELECT of, name FROM spending_limits UNION SELECT of, name FROM o)
		SELECT n.of, n.name, coalesce(sum(o.price), 0), count(o.of) - count(o.price), s.per_hour FROM n
		LEFT JOIN o ON o.of = n.of AND o.name = n.name LEFT JOIN spending_limits s ON s.of = n.of AND s.name = n.name
		GROUP BY n.of, n.name ORDER BY n.of, n.name`))
}

func readSpending(r *engine.Row) Spending {
	return Spending{Of: r.Text(), Name: r.Text(), PerHour: r.Number(), Unpriced: r.Number(), Limit: r.Integer()}
}

// Passed returns the ErrLimit that says which limit does not allow a rental; nil: no limit forbids it now.
func (r Records) Passed(ctx context.Context, x Rental) error {
	for _, scope := range [...][2]string{{OfAccount, x.Account}, {OfTenant, x.Tenant}} {
		s, err := engine.First(ctx, r.db, readSpending, engine.Do(`SELECT ?, ?, coalesce(sum(price), 0),
			count(*) - count(price), (SELECT per_hour FROM spending_limits WHERE of = ? AND name = ?) FROM (`+counted("x."+scope[0]+" = ?")+")",
			scope[0], scope[1], scope[0], scope[1], scope[1], scope[1], scope[1]))
		switch {
		case err != nil:
			return err
		case s.Limit == nil:
		case s.Unpriced > 0:
			return fmt.Errorf("%w: %s %s has a limit, and the price of %d of its machines is not known", ErrLimit, s.Of, s.Name, s.Unpriced)
		case s.PerHour+x.Price > *s.Limit:
			return fmt.Errorf("%w: %s %s may cost %s an hour, costs %s, and %s would come to that", ErrLimit, s.Of, s.Name, dollars(*s.Limit),
				dollars(s.PerHour), dollars(x.Price))
		}
	}
	unknown, err := engine.First(ctx, r.db, (*engine.Row).Flag,
		engine.Do("SELECT "+blind, x.Account, x.Account, x.Tenant))
	if err == nil && unknown {
		return fmt.Errorf("%w: what runs on account %s is not known yet", ErrLimit, x.Account)
	}
	return err
}

func dollars(millionths int64) string {
	text := "$" + strconv.FormatFloat(float64(millionths)/1e6, 'f', -1, 64)
	if at := strings.IndexByte(text, '.'); at == len(text)-2 {
		text += "0"
	}
	return text
}
