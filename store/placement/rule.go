package placement

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// MostRules bounds the rules: each is looked at for each new evidence.
const MostRules = 200

// Rule approves the slots of the nodes that a selector names, as soon as they are proposed.
type Rule struct {
	Name      string    `sql:"name"`
	Selector  string    `sql:"selector"`
	Shape     string    `sql:"shape"` // only these; "": any
	CreatedAt time.Time `sql:"created_at"`
	CreatedBy string    `sql:"created_by"`
}

// Rules returns all rules, by name.
func (r Records) Rules(ctx context.Context) ([]Rule, error) {
	return rules.All(ctx, r.db, "ORDER BY name")
}

var rules = engine.NewTable[Rule]("slot_rules", "", "")

// PutRule stores a rule in the place of an earlier one of its name. ErrConflict if there are MostRules already.
func (r Records) PutRule(ctx context.Context, rule Rule, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("(SELECT count(*) FROM slot_rules WHERE name <> ?) < ?", rule.Name, int64(MostRules)),
		rules.Put(rule),
	}, events...)
}

// RemoveRule deletes a rule. The slots that it has approved stay approved. ErrNotFound if there is none of this name.
func (r Records) RemoveRule(ctx context.Context, name string, events ...store.Event) error {
	return engine.NotFound(r.db.Change(ctx, engine.In("slot_rules", "name = ?", name).Delete(), events...))
}

// Quota is how many units a tenant may have at once.
type Quota struct {
	Tenant string
	GPUs   *int64 // nil: there is no limit
	Used   int64  // units that it has, and those that are not clean yet
}

// Quotas returns the quotas of the tenants that have a quota or units.
func (r Records) Quotas(ctx context.Context) ([]Quota, error) {
	return r.quotas(ctx, "SELECT tenant FROM quotas UNION SELECT tenant FROM holds WHERE freed_at IS NULL")
}

// Quota returns the quota of one tenant.
func (r Records) Quota(ctx context.Context, tenant string) (Quota, error) {
	all, err := r.quotas(ctx, "SELECT ? AS tenant", tenant)
	if err != nil {
		return Quota{}, err
	}
	return all[0], nil
}

func (r Records) quotas(ctx context.Context, tenants string, args ...any) ([]Quota, error) {
	const used = "(SELECT count(*) FROM holds h WHERE h.tenant = t.tenant AND h.freed_at IS NULL)"
	return engine.All(ctx, r.db, func(r *engine.Row) Quota {
		return Quota{Tenant: r.Text(), GPUs: r.Integer(), Used: r.Number()}
	}, engine.Do("SELECT t.tenant, q.gpus, "+used+" FROM ("+tenants+") t LEFT JOIN quotas q ON q.tenant = t.tenant "+
		"ORDER BY t.tenant", args...))
}

// SetQuota sets the quota of a tenant; nil removes it. The tenant keeps units that it has already.
func (r Records) SetQuota(ctx context.Context, tenant string, gpus *int64, at time.Time, by string, events ...store.Event) error {
	change := engine.Do("DELETE FROM quotas WHERE tenant = ?", tenant)
	if gpus != nil {
		change = engine.Do(`INSERT INTO quotas(tenant, gpus, set_at, set_by) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
			SET gpus = excluded.gpus, set_at = excluded.set_at, set_by = excluded.set_by`, tenant, *gpus, engine.Millis(at), by)
	}
	return r.db.Change(ctx, []engine.Statement{change}, events...)
}
