// Package costs keeps what nodes have cost, and for how long their GPUs were idle: a row for each node and day.
//
// A row has the sums of its day, and only ever grows. So a repeated write changes nothing, and neither does an earlier state of the row: a
// write that is repeated, and a clock that was set back, count nothing twice.
package costs

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Day is the number of a day: whole days since 1970, UTC.
type Day int64

// DayOf returns the day of a moment.
func DayOf(at time.Time) Day {
	const seconds = 24 * 60 * 60
	at = at.UTC()
	return Day((at.Unix() - int64(at.Hour()*3600+at.Minute()*60+at.Second())) / seconds)
}

// Time returns when the day begins.
func (d Day) Time() time.Time { return time.Unix(int64(d)*24*60*60, 0).UTC() }

// Row is one node's day. Money is in millionths.
type Row struct {
	NodeID   string `sql:"node_id"`
	Watched  int64  `sql:"watched"` // seconds for which its GPUs were known
	Idle     int64  `sql:"idle"`    // seconds of idle GPUs
	IdleCost int64  `sql:"idle_cost"`
	Cost     int64  `sql:"cost"`
	Measured int64  `sql:"measured"` // of the cost, while it was known what its GPUs did
	Price    *int64 `sql:"price"`    // an hour, as it was last; nil: none
}

type stored struct {
	Day Day `sql:"day"`
	Row
}

var costs = engine.NewTable[stored]("costs", "", "")

// Records is the database, for costs.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

// Save stores sums of one day, in one batch. It never lowers a sum in the database.
func (r Records) Save(ctx context.Context, day Day, rows []Row) error {
	const most = `ON CONFLICT DO UPDATE SET watched = max(watched, excluded.watched), idle = max(idle, excluded.idle),
		idle_cost = max(idle_cost, excluded.idle_cost), cost = max(cost, excluded.cost), measured = max(measured, excluded.measured),
		price = excluded.price`
	statements := make([]engine.Statement, 0, len(rows))
	for _, row := range rows {
		statements = append(statements, costs.Insert(stored{day, row}, most))
	}
	return r.db.Change(ctx, statements)
}

// OfDay returns the rows of one day, by node.
func (r Records) OfDay(ctx context.Context, day Day) ([]Row, error) {
	found, err := costs.All(ctx, r.db, "WHERE day = ? ORDER BY node_id", int64(day))
	rows := make([]Row, 0, len(found))
	for _, one := range found {
		rows = append(rows, one.Row)
	}
	return rows, err
}

// Days returns the days between from and to that have rows; from is one of them.
func (r Records) Days(ctx context.Context, from, to Day) ([]Day, error) {
	const all = "SELECT DISTINCT day FROM costs WHERE day >= ? AND day <= ? ORDER BY day"
	return engine.All(ctx, r.db, func(r *engine.Row) Day { return Day(r.Number()) }, engine.Do(all, int64(from), int64(to)))
}

// Prune deletes the rows before a day, at most limit, and returns how many.
func (r Records) Prune(ctx context.Context, before Day, limit int) (int, error) {
	return r.db.Most(ctx, limit, engine.Do(`DELETE FROM costs WHERE (day, node_id) IN
		(SELECT day, node_id FROM costs WHERE day < ? ORDER BY day, node_id LIMIT ?)`, int64(before), int64(limit)))
}
