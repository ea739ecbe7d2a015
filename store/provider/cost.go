package provider

import (
	"context"

	"muster/store/engine"
)

// CostRow is what was charged for an instance on one day. A row has the sums of its day, and only ever grows: so storing it twice, or
// storing an earlier state of it, counts nothing twice.
type CostRow struct {
	Account  string `sql:"account"`
	Instance string `sql:"instance"`
	Tenant   string `sql:"tenant"`
	NodeID   string `sql:"node_id"` // "": none
	Seconds  int64  `sql:"seconds"` // for which it was charged
	Billed   int64  `sql:"billed"`  // all of the money, in millionths
	Used     int64  `sql:"used"`    // of that, the share of GPUs that were seen at work
	Idle     int64  `sql:"idle"`    // of that, the share of GPUs that were seen idle
	Silent   int64  `sql:"silent"`  // of that, while its node was not heard
	Storage  int64  `sql:"storage"` // of that, while it was stopped
}

// CostDay is a CostRow and its day.
type CostDay struct {
	Day int64 `sql:"day"` // whole days since 1970, UTC
	CostRow
}

var costs = engine.NewTable[CostDay]("provider_costs", "", "")

// SaveCosts stores sums of one day, store.Piece at most, in one batch. It never lowers a sum in the database. The node and the tenant
// become the new ones; an empty node does not replace one.
func (r Records) SaveCosts(ctx context.Context, day int64, rows []CostRow) error {
	const most = `ON CONFLICT DO UPDATE SET tenant = excluded.tenant,
		node_id = CASE excluded.node_id WHEN '' THEN node_id ELSE excluded.node_id END, seconds = max(seconds, excluded.seconds),
		billed = max(billed, excluded.billed), used = max(used, excluded.used), idle = max(idle, excluded.idle),
		silent = max(silent, excluded.silent), storage = max(storage, excluded.storage)`
	statements := make([]engine.Statement, 0, len(rows))
	for _, c := range rows {
		statements = append(statements, costs.Insert(CostDay{day, c}, most))
	}
	return r.db.Change(ctx, statements)
}

// Costs returns the rows of the days from one to another, both included, by day, account and instance.
func (r Records) Costs(ctx context.Context, from, to int64) ([]CostDay, error) {
	return costs.All(ctx, r.db, "WHERE day >= ? AND day <= ? ORDER BY day, account, instance", from, to)
}

// Charged returns the money, in millionths, that was charged for an instance on the days from one to another, both included; nil: nobody
// has seen that yet, or its price is not known.
func (r Records) Charged(ctx context.Context, account, instance string, from, to int64) (*int64, error) {
	days := []int64{}
	for day := from; day <= to; day++ {
		days = append(days, day)
	}
	sums, err := engine.All(ctx, r.db, (*engine.Row).Integer, engine.Do(`SELECT sum(billed) FROM provider_costs
		WHERE day IN (SELECT value FROM json_each(?)) AND account = ? AND instance = ? AND seconds > 0`, engine.JSON(days), account, instance))
	if err != nil {
		return nil, err
	}
	return sums[0], nil
}

// DropCosts deletes the rows before a day, at most most, and returns how many.
func (r Records) DropCosts(ctx context.Context, before int64, most int) (int, error) {
	return r.db.Most(ctx, most, engine.Do(`DELETE FROM provider_costs WHERE (day, account, instance) IN (SELECT day, account, instance
		FROM provider_costs WHERE day < ? ORDER BY day, account, instance LIMIT ?)`, before, int64(most)))
}
