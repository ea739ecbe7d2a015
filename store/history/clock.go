package history

import (
	"context"
	"time"

	"muster/store/engine"
)

// Clock says for how long the gateway's clock had not been set when it was last looked at.
type Clock struct {
	At     time.Time // of that look; zero: there was none
	Steady time.Duration
}

// Clock returns what KeepClock kept last.
func (f *File) Clock(ctx context.Context) (Clock, error) {
	var c Clock
	_, err := engine.All(ctx, f.db, func(r *engine.Row) int {
		c = Clock{At: time.UnixMilli(r.Number()), Steady: time.Duration(r.Number()) * time.Millisecond}
		return 0
	}, engine.Do("SELECT at, steady FROM clock"))
	return c, err
}

// KeepClock keeps a look at the clock in place of the last one.
func (f *File) KeepClock(ctx context.Context, c Clock) error {
	_, err := f.db.Batch(ctx, []engine.Statement{engine.Do(
		"INSERT INTO clock(one, at, steady) VALUES (1, ?, ?) ON CONFLICT(one) DO UPDATE SET at = excluded.at, steady = excluded.steady",
		c.At.UnixMilli(), c.Steady.Milliseconds())})
	return err
}
