package history

import (
	"context"
	"time"

	"muster/store/engine"
)

// mostRow is how many bytes of samples a minute of a node may have. A clock that is set back again and again must not fill the file.
const mostRow = 1 << 18

// Minute is what a node said in one minute.
type Minute struct {
	Node    int64 // its number
	Start   int64 // see Tier.Number
	Samples []Sample
}

// Keep appends samples, and notes that their hours have to be rolled up.
func (f *File) Keep(ctx context.Context, minutes []Minute) error {
	batch := make([]engine.Statement, 0, 2*len(minutes))
	for _, m := range minutes {
		batch = append(batch,
			engine.Do(`INSERT INTO raw(start, node, data) VALUES (?, ?, ?) ON CONFLICT DO UPDATE
				SET data = CAST(data || excluded.data AS BLOB) WHERE length(data) < ?`, m.Start, m.Node, EncodeSamples(m.Samples), int64(mostRow)),
			engine.Do("INSERT INTO due(start, node, writes) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET writes = writes + 1",
				floor(m.Start, 60), m.Node))
	}
	_, err := f.db.Batch(ctx, batch)
	return err
}

// Due is an hour of a node that has to be rolled up.
type Due struct {
	Hour   int64 // its number, see Minutes
	Node   int64
	Writes int64 // that a roll-up must see
}

// Due returns hours that ended before a moment and have to be rolled up, the oldest first, at most limit.
func (f *File) Due(ctx context.Context, before time.Time, limit int) ([]Due, error) {
	return engine.All(ctx, f.db, func(r *engine.Row) Due { return Due{Hour: r.Number(), Node: r.Number(), Writes: r.Number()} },
		engine.Do("SELECT start, node, writes FROM due WHERE start < ? ORDER BY start, node LIMIT ?", Minutes.Number(before), int64(limit)))
}

// DueOf returns the hours of a node, from one to another, that have to be rolled up.
func (f *File) DueOf(ctx context.Context, node, from, to int64) ([]int64, error) {
	if from > to {
		return nil, nil
	}
	return engine.All(ctx, f.db, (*engine.Row).Number,
		engine.Do(numbered+"SELECT d.start FROM at CROSS JOIN due d WHERE d.start = at.t AND d.node = ?", from, to, node))
}

// RollUp rolls an hour of a node up: the samples into minutes, the minutes into one hour. It replaces earlier points of that time, and adds
// nothing to them. So the work can be done twice, and is whole or not done at all.
func (f *File) RollUp(ctx context.Context, d Due) error {
	minutes, err := f.minutes(ctx, d)
	if err != nil {
		return err
	}
	batch := []engine.Statement{
		engine.Do("DELETE FROM due WHERE start = ? AND node = ? AND writes = ?", d.Hour, d.Node, d.Writes),
		engine.Do("UPDATE nodes SET seen = max(seen, ?) WHERE number = ?", Hours.Number(Minutes.Time(d.Hour)), d.Node),
	}
	if len(minutes) == 0 {
		_, err := f.db.Batch(ctx, batch)
		return err
	}
	hours, err := f.hours(ctx, d, minutes)
	if err != nil {
		return err
	}
	const put = "(start, node, data) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET data = excluded.data"
	_, err = f.db.Batch(ctx, append(batch,
		engine.Do("INSERT INTO minutes"+put, d.Hour, d.Node, EncodePoints(minutes)),
		engine.Do("INSERT INTO hours"+put, floor(d.Hour, 24), d.Node, EncodePoints(hours))))
	return err
}

// minutes are the points of an hour: those of its samples, and if there are no samples any more, those from before.
func (f *File) minutes(ctx context.Context, d Due) ([]Point, error) {
	kept, err := f.Points(ctx, Minutes, d.Node, d.Hour, d.Hour)
	if err != nil {
		return nil, err
	}
	samples, err := f.Samples(ctx, d.Node, d.Hour*60, d.Hour*60+59)
	if err != nil {
		return nil, err
	}
	return Merge(kept, Group(samples, time.Minute)), nil
}

// hours are the points of a day, with this hour in it.
func (f *File) hours(ctx context.Context, d Due, minutes []Point) ([]Point, error) {
	day := floor(d.Hour, 24)
	kept, err := f.Points(ctx, Hours, d.Node, day, day)
	if err != nil {
		return nil, err
	}
	return Merge(kept, Fold(minutes, time.Hour)), nil
}
