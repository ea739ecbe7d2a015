package rqlite

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"muster/store/engine"
)

const (
	// renewEvery is between two renewals. Other gateways see each one as a change of Lease.Beat.
	renewEvery = time.Second
	// holdsFor is how long a lease counts as held after the sending of the last renewal that succeeded. It is shorter than the time after
	// which another gateway takes over, because the two clocks are not the same and a request takes its time.
	holdsFor = 4 * time.Second
	// renewTime is for one try of a renewal. A node that does not answer leaves time for another one to be asked.
	renewTime = 1500 * time.Millisecond
	// TakeAfter is how long the beat must stand still before another gateway takes the lease.
	TakeAfter = 6 * time.Second
)

// Moved stands in Lease.Next of a store whose database works in a directory now. It is no gateway's id.
const Moved = "a directory"

// ErrSilent says that the lease could not be renewed in time. Whether another gateway has it by now is not known.
var ErrSilent = errors.New("the lease was not renewed in time")

// Lease is the right to write. One gateway has it at a time.
type Lease struct {
	Holder string // see Claim.Gateway; "": nobody holds it
	Next   string // whom the last holder has given it back for; "": for anybody
	Fence  int64  // goes up with each new holder
	Beat   int64  // goes up with each renewal
	URL    string // where the holder is reached by other gateways
	Wall   time.Time
	Schema int // of the database, as the holder knows it

	token string // of the holder's process
}

// Claim is what a gateway says of itself in the lease.
type Claim struct {
	Gateway string // its id among the gateways
	URL     string // where other gateways reach it
	Schema  int    // the newest that it knows
}

// Lease reads who holds the lease. With each call it asks the leader, which answers from what it has applied.
func (db *DB) Lease(ctx context.Context) (Lease, error) {
	l, err := engine.First(ctx, db, func(r *engine.Row) Lease {
		return Lease{Holder: r.Text(), Next: r.Text(), token: r.Text(), Fence: r.Number(), Beat: r.Number(), URL: r.Text(), Wall: r.Time(),
			Schema: int(r.Number())}
	}, engine.Do("SELECT holder, next, token, fence, beat, url, wall_ms, schema FROM lease"))
	if errors.Is(err, engine.ErrNotFound) { // nobody ever held it
		err = nil
	}
	return l, err
}

// Take takes the lease from a holder whose beat has not changed since seen was read, or from nobody. The error is ErrDeposed if the lease
// has changed meanwhile, and engine.ErrNewerDatabase if a gateway of a newer schema has held it. On success the lease is held, and Hold
// must be called at once.
func (db *DB) Take(ctx context.Context, seen Lease, claim Claim) error {
	if seen.Schema > claim.Schema {
		return fmt.Errorf("schema %d, this muster knows %d: %w", seen.Schema, claim.Schema, engine.ErrNewerDatabase)
	}
	sent := db.now()
	token := rand.Text() // so that a lost answer can be told from another one's success
	wall := engine.Millis(db.o.Now())
	st := engine.Do(`UPDATE lease SET holder = ?, next = '', token = ?, settled = 0, fence = fence + 1, beat = beat + 1, url = ?, wall_ms = ?,
		schema = max(schema, ?) WHERE fence = ? AND beat = ?`, claim.Gateway, token, claim.URL, wall, int64(claim.Schema), seen.Fence, seen.Beat)
	if seen.Fence == 0 {
		st = engine.Do(`INSERT INTO lease(one, holder, next, token, settled, fence, beat, url, wall_ms, schema)
			VALUES (1, ?, '', ?, 0, 1, 1, ?, ?, ?)
			ON CONFLICT DO NOTHING`, claim.Gateway, token, claim.URL, wall, int64(claim.Schema))
	}
	if _, err := db.change(ctx, st, TakeAfter); err != nil {
		return fmt.Errorf("take the lease: %w", err)
	}
	now, err := db.Lease(engine.Fresh(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("take the lease: %w", err)
	case now.token != token:
		return ErrDeposed
	}
	db.fence.Store(now.Fence)
	db.beat.Store(now.Beat)
	db.hold(sent)
	return nil
}

// change runs a statement outside of a batch. It may be done twice.
func (db *DB) change(ctx context.Context, st engine.Statement, within time.Duration) (affected int64, err error) {
	r, err := db.one(ctx, st, within)
	if err != nil {
		return 0, err
	}
	if text := r.Results[0].Error; text != "" {
		return 0, errors.New("rqlite: " + text)
	}
	return r.Results[0].Affected, nil
}

// Hold renews the lease until ctx ends. It returns ErrDeposed or ErrSilent when the lease is lost: then the process must end, since what it
// knows may be wrong by now. Nothing that it writes afterwards is stored.
func (db *DB) Hold(ctx context.Context) error {
	for {
		sent := db.now()
		err := db.renew(ctx)
		switch {
		case err == nil:
			db.beat.Add(1)
			db.hold(sent)
		case errors.Is(err, ErrDeposed):
			db.until.Store(&instant{})
			return err
		case ctx.Err() != nil:
			return nil
		}
		if !db.Holds() {
			return fmt.Errorf("%w: %w", ErrSilent, err)
		}
		wait := renewEvery - time.Since(sent.steady)
		if err != nil {
			wait = retryPause
		}
		if err := db.pause(ctx, max(wait, 0)); err != nil {
			return nil // ctx or the database has ended, and not the lease
		}
	}
}

// renew sends one renewal, which ends before the lease does. A beat that is lower than one that was there is of nodes that somebody has put
// back to what they were: what this process knows is not what they have.
func (db *DB) renew(ctx context.Context) error {
	ctx, ended := context.WithDeadline(ctx, db.until.Load().steady)
	defer ended()
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	fence, settled := db.fence.Load(), db.settled()
	lines, err := encode(
		engine.Do("UPDATE lease SET beat = beat + 1, wall_ms = ?, settled = max(settled, ?) WHERE fence = ? AND beat >= ?",
			engine.Millis(db.o.Now()), settled, fence, db.beat.Load()),
		engine.Do("DELETE FROM batches WHERE fence < ? OR fence = ? AND number < ?", fence, fence, settled))
	if err != nil {
		return err
	}
	body, err := json.Marshal(lines)
	if err != nil {
		return err
	}
	r, err := db.once(ctx, execute, body, 2)
	if err != nil {
		return err
	}
	for i := range r.Results {
		if text := r.Results[i].Error; text != "" {
			return errors.New("rqlite: " + text)
		}
	}
	if r.Results[0].Affected == 0 {
		return ErrDeposed
	}
	return nil
}

// Holds reports whether this process may act: it holds the lease, and no other gateway can have taken it yet. What a process answers is
// true only while that is so.
func (db *DB) Holds() bool {
	until := db.until.Load()
	now := db.now()
	return until != nil && now.steady.Before(until.steady) && now.wall.Before(until.wall)
}

// instant is a moment on both clocks. The steady one may stand still while a virtual machine is suspended, and the wall clock may be set:
// so either ends the lease, and neither makes it longer.
type instant struct{ steady, wall time.Time }

func (db *DB) now() instant { return instant{time.Now(), db.o.Now().Round(0)} }

// hold notes that a change of the lease that was sent then has succeeded.
func (db *DB) hold(sent instant) {
	db.until.Store(&instant{sent.steady.Add(holdsFor), sent.wall.Add(holdsFor)})
}

// Fence returns the fence of the lease that this process took; 0: it took none.
func (db *DB) Fence() int64 { return db.fence.Load() }

// Beat returns a beat that the lease of this process has had, and which is not one of the last few.
func (db *DB) Beat() int64 { return db.beat.Load() }

// Release gives the lease back, for one gateway or for anybody (""): it has no holder then. ErrDeposed if another process has it.
func (db *DB) Release(ctx context.Context, next string) error {
	db.until.Store(&instant{})
	affected, err := db.change(ctx, engine.Do("UPDATE lease SET holder = '', next = ?, beat = beat + 1, fence = fence + 1 WHERE fence = ?",
		next, db.fence.Load()), TakeAfter)
	if err == nil && affected == 0 {
		return ErrDeposed
	}
	return err
}
