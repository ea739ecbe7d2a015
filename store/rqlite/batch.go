package rqlite

import (
	"context"
	"encoding/json"
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
	if db.fence.Load() == 0 {
		return nil, ErrDeposed
	}
	outcomes, err := db.wait(ctx, &db.writes, statements, false)
	if err != nil {
		return nil, err
	}
	return results(outcomes), nil
}

// writeGroup stores batches that share one transaction, and so one round of Raft. If one is refused, those before it are stored without it,
// and it goes first after that: so a refusal is of what is stored, and not of what might have been.
func (db *DB) writeGroup(group []call) {
	for len(group) > 0 {
		if db.closed() { // of these nothing is stored
			answerAll(group, nil, engine.ErrClosed)
			return
		}
		outcomes, err := db.write(lines(group))
		var wrong *refused
		if !errors.As(err, &wrong) {
			answerAll(group, outcomes, err)
			return
		}
		at := wrong.at
		i := slices.IndexFunc(group, func(c call) bool {
			at -= len(c.lines)
			return at < 0
		})
		if i <= 0 {
			answerAll(group[:1], nil, err)
			group = group[1:]
			continue
		}
		db.writeGroup(group[:i])
		group = group[i:]
	}
}

// write stores one transaction under a number of its own.
func (db *DB) write(lines [][]any) ([]outcome, error) {
	number := db.begin()
	defer db.end(number)
	first, err := encode(engine.Do("INSERT INTO batches(fence, number) VALUES (?, ?)", db.fence.Load(), number))
	if err != nil {
		return nil, err
	}
	outcomes, err := db.store(append(first, lines...))
	var outage *engine.Outage
	switch {
	case err == nil:
		db.outages.Note(nil)
	case errors.As(err, &outage):
		db.outages.Note(outage)
	}
	return outcomes, err
}

// begin gives the number of the next transaction.
func (db *DB) begin() int64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.number++
	db.flying[db.number] = true
	return db.number
}

func (db *DB) end(number int64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.flying, number)
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

// store sends a transaction until its outcome is known.
func (db *DB) store(all [][]any) ([]outcome, error) {
	body, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	ctx := context.Background() // whoever asked must learn the outcome
	unknown := false            // a try before may have been stored
	for begun := time.Now(); ; {
		r, err := db.once(ctx, execute, body, len(all))
		var failed *failure
		switch {
		case err == nil:
			err := refusal(r)
			if unknown && err != nil && !errors.Is(err, engine.ErrAnswerLost) && !errors.Is(err, ErrDeposed) {
				err = db.bar(ctx, all[0], err)
			}
			return r.Results[1:], err
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

// bar keeps a copy of a transaction that may be on its way still from being done, after a copy was refused because of why. It gives why, or
// engine.ErrAnswerLost if the copy on its way was faster. It may be sent more than once: the row says who wrote it.
func (db *DB) bar(ctx context.Context, number []any, why error) error {
	const text = `INSERT INTO batches(fence, number, barred) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET barred = barred RETURNING barred`
	r, err := db.settle(ctx, execute, [][]any{append([]any{text}, number[1:]...)}, 0)
	if err != nil {
		return fmt.Errorf("whether the write is stored is not known: %w", err)
	}
	switch err := refusal(r); {
	case errors.Is(err, ErrDeposed), errors.Is(err, engine.ErrAnswerLost):
		return err
	case err != nil:
		return fmt.Errorf("whether the write is stored is not known (it was refused: %v): %v", why, err)
	}
	rows, err := r.Results[0].rows()
	switch {
	case err != nil:
		return err
	case len(rows) == 1 && rows[0][0] == int64(0):
		return engine.ErrAnswerLost
	}
	return why
}

// refused is why a transaction was not stored: a condition of the statement at this place, counted without the number, did not hold, or
// the statement is wrong.
type refused struct {
	at  int
	err error
}

func (r *refused) Error() string { return r.err.Error() }
func (r *refused) Unwrap() error { return r.err }

// refusal reads whether a transaction was stored.
func refusal(r reply) error {
	for i := range r.Results {
		text := r.Results[i].Error
		switch {
		case text == "":
		case i == 0 && strings.Contains(text, fencedText):
			return ErrDeposed
		case i == 0 && (strings.Contains(text, againText) || strings.Contains(text, settledText)):
			return engine.ErrAnswerLost
		default:
			return conflict(i-1, text)
		}
	}
	return nil
}

// results are those of a batch that was stored.
func results(outcomes []outcome) []engine.Result {
	all := make([]engine.Result, 0, len(outcomes))
	for i := range outcomes {
		all = append(all, engine.Result{Affected: outcomes[i].Affected})
	}
	return all
}

// conflict turns the text of an error of SQLite into engine.ErrConflict, if a condition of a batch has caused it, and into an Outage, if a
// node's machine has.
func conflict(at int, text string) error {
	for _, machine := range []string{"database or disk is full", "disk I/O error", "readonly database"} {
		if strings.Contains(text, machine) {
			return &engine.Outage{Err: errors.New("rqlite: " + text), Next: "see the disk of the leader of rqlite; it goes on by itself"}
		}
	}
	if strings.Contains(text, "UNIQUE constraint failed") || strings.Contains(text, guardText) {
		return &refused{at, fmt.Errorf("%w (%s)", engine.ErrConflict, text)}
	}
	return &refused{at, errors.New("rqlite: " + text)}
}

// guardText is what the trigger of the view guards says.
const guardText = "a condition of the write did not hold"

// execute is for statements that are done all or none.
const execute = "/db/execute?transaction"
