package rqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/store/engine"
)

// ErrDeposed says that another process holds the lease by now. Nothing was stored, and nothing will be.
var ErrDeposed = errors.New("another gateway holds the lease")

const (
	// fencedText is what the trigger of the table batches says.
	fencedText = "another gateway holds the lease"
	// againText is what SQLite says of a batch that comes a second time and was stored the first time: this process has sent it again, or a
	// node that passes it to the leader has. settledText is what a trigger says of one that comes when its outcome is long known.
	againText   = "UNIQUE constraint failed: batches.fence, batches.number"
	settledText = "the outcome of this batch is known already"
	// writeTime is how long a batch is tried that was certainly not stored.
	writeTime = 15 * time.Second
)

// Batch runs statements atomically: all of them, in order, or none. When it returns nil, a majority of the nodes has them on disk. Errors:
// engine.ErrConflict, engine.ErrAnswerLost, ErrDeposed, *engine.Outage, engine.ErrClosed.
//
// Before the batch is sent ctx may withdraw it. After that the caller waits, because it must learn whether the batch was stored.
func (db *DB) Batch(ctx context.Context, statements []engine.Statement) ([]engine.Result, error) {
	fence := db.fence.Load()
	if fence == 0 {
		return nil, ErrDeposed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	number, err := db.begin()
	if err != nil {
		return nil, err
	}
	defer db.end(number)
	all := append([]engine.Statement{engine.Do("INSERT INTO batches(fence, number) VALUES (?, ?)", fence, number)}, statements...)
	results, err := db.batch(context.WithoutCancel(ctx), all)
	var outage *engine.Outage
	switch {
	case err == nil:
		db.outages.Note(nil)
	case errors.As(err, &outage):
		db.outages.Note(outage)
	}
	return results, err
}

// begin gives the number of the next batch.
func (db *DB) begin() (int64, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed() {
		return 0, engine.ErrClosed
	}
	db.batches.Add(1)
	db.number++
	db.flying[db.number] = true
	return db.number, nil
}

func (db *DB) end(number int64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.flying, number)
	db.batches.Done()
}

// settled is the number below which no batch is sent again.
func (db *DB) settled() int64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(db.flying) == 0 {
		return db.number + 1
	}
	return slices.Min(slices.Collect(maps.Keys(db.flying)))
}

// batch sends a batch until its outcome is known.
func (db *DB) batch(ctx context.Context, all []engine.Statement) ([]engine.Result, error) {
	body, err := encode(all)
	if err != nil {
		return nil, err
	}
	unknown := false // a try before may have been stored
	for begun := time.Now(); ; {
		r, err := db.once(ctx, "/db/execute?transaction", body, len(all))
		var failed *failure
		switch {
		case err == nil:
			return done(r)
		case errors.As(err, &failed):
			unknown = unknown || failed.unknown
		}
		if over := time.Since(begun) > writeTime; !unknown && (over || failed.final) {
			return nil, &engine.Outage{Err: err, Next: "see whether the nodes of rqlite run and reach each other; it goes on by itself"}
		}
		if closed := db.pause(ctx, retryPause); closed != nil {
			return nil, fmt.Errorf("whether the write is stored is not known (%w): %w", err, closed)
		}
	}
}

// done reads the answer to a batch.
func done(r reply) ([]engine.Result, error) {
	for i := range r.Results {
		text := r.Results[i].Error
		switch {
		case text == "":
		case i == 0 && strings.Contains(text, fencedText):
			return nil, ErrDeposed
		case i == 0 && (strings.Contains(text, againText) || strings.Contains(text, settledText)):
			return nil, engine.ErrAnswerLost
		default:
			return nil, conflict(text)
		}
	}
	results := make([]engine.Result, 0, len(r.Results))
	for i := range r.Results[1:] {
		o := &r.Results[1+i]
		rows, err := o.rows()
		if err != nil {
			return nil, err
		}
		affected := o.Affected
		if o.Columns != nil {
			affected = int64(len(rows))
		}
		results = append(results, engine.Result{Affected: affected, Rows: rows})
	}
	return results, nil
}

// conflict turns the text of an error of SQLite into engine.ErrConflict, if a condition of a batch has caused it, and into an Outage, if a
// node's machine has.
func conflict(text string) error {
	if strings.Contains(text, "UNIQUE constraint failed") || strings.Contains(text, guardText) {
		return fmt.Errorf("%w (%s)", engine.ErrConflict, text)
	}
	for _, machine := range []string{"database or disk is full", "disk I/O error", "readonly database"} {
		if strings.Contains(text, machine) {
			return &engine.Outage{Err: errors.New("rqlite: " + text), Next: "see the disk of the leader of rqlite; it goes on by itself"}
		}
	}
	return errors.New("rqlite: " + text)
}

// guardText is what the trigger of the view guards says.
const guardText = "a condition of the write did not hold"

// Query runs one SELECT at the leader. The values in the rows are int64, string or nil.
func (db *DB) Query(ctx context.Context, st engine.Statement) ([][]any, error) {
	if db.closed() {
		return nil, engine.ErrClosed
	}
	r, err := db.settle(ctx, weak, []engine.Statement{st}, readTime)
	if err != nil {
		return nil, err
	}
	if text := r.Results[0].Error; text != "" {
		return nil, errors.New("rqlite: " + text)
	}
	return r.Results[0].rows()
}
