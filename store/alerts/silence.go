package alerts

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Silence keeps alerts from being told for a while. An empty condition is true of every alert.
type Silence struct {
	ID        string
	NodeID    string
	NodeName  string
	Selector  string
	Cause     string
	Tenant    string
	Reason    string
	CreatedAt time.Time
	CreatedBy string
	EndsAt    time.Time
}

// MostSilences bounds those of one time: each alert is compared with each.
const MostSilences = 1000

// MostOfTenant bounds those of one tenant, so that it leaves room for others.
const MostOfTenant = 200

// Silences are those that have not ended.
func (r Records) Silences(ctx context.Context, now time.Time) ([]Silence, error) {
	const all = "SELECT id, node_id, node_name, selector, cause, tenant, reason, created_at, created_by, ends_at FROM alert_silences " +
		"WHERE ends_at > ? ORDER BY ends_at, id"
	return engine.All(ctx, r.db, func(r *engine.Row) Silence {
		return Silence{ID: r.Text(), NodeID: r.Text(), NodeName: r.Text(), Selector: r.Text(), Cause: r.Text(), Tenant: r.Text(),
			Reason: r.Text(), CreatedAt: r.Time(), CreatedBy: r.Text(), EndsAt: r.Time()}
	}, engine.Do(all, engine.Millis(now)))
}

// AddSilence stores one. ErrConflict if there are MostSilences already, or MostOfTenant of its tenant.
func (r Records) AddSilence(ctx context.Context, s Silence, events ...store.Event) error {
	now := engine.Millis(s.CreatedAt)
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("(SELECT count(*) FROM alert_silences WHERE ends_at > ?) < ?", now, int64(MostSilences)),
		engine.Guard("? = '' OR (SELECT count(*) FROM alert_silences WHERE ends_at > ? AND tenant = ?) < ?", s.Tenant, now, s.Tenant,
			int64(MostOfTenant)),
		engine.Do("INSERT INTO alert_silences VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", s.ID, s.NodeID, s.NodeName, s.Selector, s.Cause,
			s.Tenant, s.Reason, engine.Millis(s.CreatedAt), s.CreatedBy, engine.Millis(s.EndsAt)),
	}, events...)
}

// DropSilence ends a silence now. With a tenant it must be that tenant's. ErrNotFound if there is no such one.
func (r Records) DropSilence(ctx context.Context, id, tenant string, now time.Time, events ...store.Event) error {
	const which = "id = ? AND (? = '' OR tenant = ?)"
	return notFound(r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM alert_silences WHERE ends_at > ? AND "+which+")", engine.Millis(now), id, tenant, tenant),
		engine.Do("DELETE FROM alert_silences WHERE "+which, id, tenant, tenant),
	}, events...))
}
