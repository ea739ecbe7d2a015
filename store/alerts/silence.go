package alerts

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Silence keeps alerts from being told for a while. An empty condition is true of every alert.
type Silence struct {
	ID        string    `sql:"id"`
	NodeID    string    `sql:"node_id"`
	NodeName  string    `sql:"node_name"`
	Selector  string    `sql:"selector"`
	Cause     string    `sql:"cause"`
	Tenant    string    `sql:"tenant"`
	Reason    string    `sql:"reason"`
	CreatedAt time.Time `sql:"created_at"`
	CreatedBy string    `sql:"created_by"`
	EndsAt    time.Time `sql:"ends_at"`
}

// MostSilences bounds the silences of one time: each alert is compared with each of them.
const MostSilences = 1000

// MostOfTenant bounds the silences of one tenant, so that it leaves room for others.
const MostOfTenant = 200

// Silences returns the silences that have not ended.
func (r Records) Silences(ctx context.Context, now time.Time) ([]Silence, error) {
	return silences.All(ctx, r.db, "WHERE ends_at > ? ORDER BY ends_at, id", engine.Millis(now))
}

// AddSilence stores a silence. ErrConflict if there are MostSilences already, or MostOfTenant of its tenant.
func (r Records) AddSilence(ctx context.Context, s Silence, events ...store.Event) error {
	now := engine.Millis(s.CreatedAt)
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("(SELECT count(*) FROM alert_silences WHERE ends_at > ?) < ?", now, int64(MostSilences)),
		engine.Guard("? = '' OR (SELECT count(*) FROM alert_silences WHERE ends_at > ? AND tenant = ?) < ?", s.Tenant, now, s.Tenant,
			int64(MostOfTenant)),
		silences.Insert(s, ""),
	}, events...)
}

// DropSilence ends a silence now. With a tenant it must be that tenant's. ErrNotFound if there is no such one.
func (r Records) DropSilence(ctx context.Context, id, tenant string, now time.Time, events ...store.Event) error {
	const which = "id = ? AND (? = '' OR tenant = ?)"
	return engine.NotFound(r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM alert_silences WHERE ends_at > ? AND "+which+")", engine.Millis(now), id, tenant, tenant),
		engine.Do("DELETE FROM alert_silences WHERE "+which, id, tenant, tenant),
	}, events...))
}
