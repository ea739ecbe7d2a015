package history

import (
	"context"
	"time"

	"muster/store/engine"
)

// Tier is a table of samples.
type Tier int

// The tiers, the finest first. A row of Raw has the samples of a minute, one of Minutes those of an hour, one of Hours those of a day.
const (
	Raw Tier = iota
	Minutes
	Hours
)

// Row returns how much time one row of the tier has.
func (t Tier) Row() time.Duration {
	return [...]time.Duration{Raw: time.Minute, Minutes: time.Hour, Hours: 24 * time.Hour}[t]
}

// Number returns the number of the row to which this moment belongs.
func (t Tier) Number(at time.Time) int64 { return floor(at.Unix(), int64(t.Row()/time.Second)) }

// Time returns when the row of a number begins.
func (t Tier) Time(number int64) time.Time {
	return time.Unix(number*int64(t.Row()/time.Second), 0).UTC()
}

// floor divides, and rounds down: a clock may be before 1970.
func floor(n, by int64) int64 {
	q := n / by
	if n%by < 0 {
		q--
	}
	return q
}

func (t Tier) table() string {
	return [...]string{Raw: "raw", Minutes: "minutes", Hours: "hours"}[t]
}

// Row is one row of a tier.
type Row struct {
	Start int64 // its number: see Tier.Number
	Data  []byte
}

// numbered are the numbers from one to another. Rows of one node are looked up one by one, because other nodes' rows lie between.
const numbered = "WITH RECURSIVE at(t) AS (SELECT ? UNION ALL SELECT t + 1 FROM at WHERE t < ?) "

// Rows returns the rows of a node from one number to another, both included, in their order.
func (f *File) Rows(ctx context.Context, t Tier, node, from, to int64) ([]Row, error) {
	if from > to {
		return nil, nil
	}
	return engine.All(ctx, f.db, func(r *engine.Row) Row { return Row{Start: r.Number(), Data: r.Blob()} },
		engine.Do(numbered+"SELECT r.start, r.data FROM at CROSS JOIN "+t.table()+" r WHERE r.start = at.t AND r.node = ?", from, to, node))
}

// Oldest returns when the oldest row of a tier begins, of any node; zero: there is none.
func (f *File) Oldest(ctx context.Context, t Tier) (time.Time, error) {
	start, err := engine.First(ctx, f.db, (*engine.Row).Integer, engine.Do("SELECT min(start) FROM "+t.table()))
	if err != nil || start == nil {
		return time.Time{}, err
	}
	return t.Time(*start), nil
}

// Drop deletes the oldest rows of a tier that begin before a moment, at most limit, and tells how many. Samples that are not rolled up
// yet stay, unless unrolled is true.
func (f *File) Drop(ctx context.Context, t Tier, before time.Time, limit int, unrolled bool) (int64, error) {
	stays := ""
	if t == Raw && !unrolled {
		stays = " AND NOT EXISTS(SELECT 1 FROM due d WHERE d.start = v.start / 60 AND d.node = v.node)"
	}
	table := t.table()
	oldest := "SELECT v.start, v.node FROM " + table + " v WHERE v.start < ?" + stays + " ORDER BY v.start, v.node LIMIT ?"
	done, err := f.db.Batch(ctx, []engine.Statement{
		engine.Do("DELETE FROM "+table+" WHERE (start, node) IN ("+oldest+")", t.Number(before), int64(limit)),
	})
	if err != nil {
		return 0, err
	}
	return done[0].Affected, nil
}
