package provider

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Finding is one thing that is wrong between the fleet and a company.
type Finding struct {
	Account  string    `sql:"account"`
	Instance string    `sql:"instance"` // "": it is about the account
	Kind     string    `sql:"kind"`
	Since    time.Time `sql:"since"`
}

// Findings returns all open findings, by account, instance and kind.
func (r Records) Findings(ctx context.Context) ([]Finding, error) {
	return openFindings.All(ctx, r.db, "ORDER BY account, instance, kind")
}

var openFindings = engine.NewTable[Finding]("provider_findings", "", "")

// SetFindings opens and closes findings, store.Piece together at most. A finding that is open already keeps its time. It opens no finding
// of an account that was removed meanwhile.
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
