package provider

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Finding is one thing that is wrong between the fleet and a company.
type Finding struct {
	Account  string
	Instance string // "": it is about the account
	Kind     string
	Since    time.Time
}

// Findings are all that are open, by account, instance and kind.
func (r Records) Findings(ctx context.Context) ([]Finding, error) {
	return engine.All(ctx, r.db, func(r *engine.Row) Finding {
		return Finding{Account: r.Text(), Instance: r.Text(), Kind: r.Text(), Since: r.Time()}
	}, engine.Do("SELECT account, instance, kind, since FROM provider_findings ORDER BY account, instance, kind"))
}

// SetFindings opens and closes findings, store.Piece together at most. One that is open already keeps its time. One of an account that was
// removed meanwhile is not opened.
func (r Records) SetFindings(ctx context.Context, opened, closed []Finding, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do(`DELETE FROM provider_findings WHERE (account, instance, kind) IN
			(SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?))`, findings(closed)),
		engine.Do(`INSERT INTO provider_findings(account, instance, kind, since)
			SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?)
			WHERE EXISTS(SELECT 1 FROM providers p WHERE p.name = value ->> 0) ON CONFLICT DO NOTHING`, findings(opened)),
	}, events...)
}

func findings(list []Finding) string {
	rows := make([][]any, 0, len(list))
	for _, f := range list {
		rows = append(rows, []any{f.Account, f.Instance, f.Kind, engine.Millis(f.Since)})
	}
	return engine.JSON(rows)
}
