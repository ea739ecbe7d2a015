package rqlite

import (
	"context"
	"errors"
	"fmt"

	"muster/store/engine"
)

// weak is for a read at the leader, as far as that has applied what is stored. fresh is for one that waits until all of it is applied, see
// engine.Fresh. The first such read after an election goes through the log as a write does, and all writes wait for it: so it has little
// time, and is for single rows.
const (
	weak  = "/db/query?level=weak"
	fresh = "/db/query?level=linearizable&linearizable_timeout=2s&db_timeout=2s"
)

// Query runs one SELECT at the leader. The values in the rows are int64, string or nil. Weak reads share requests.
func (db *DB) Query(ctx context.Context, st engine.Statement) ([][]any, error) {
	if db.closed() {
		return nil, engine.ErrClosed
	}
	lines, err := encode(st)
	if err != nil {
		return nil, err
	}
	var outcomes []outcome
	if engine.IsFresh(ctx) {
		outcomes, err = db.read(ctx, fresh, lines)
	} else {
		outcomes, err = db.wait(ctx, &db.reads, lines, true)
	}
	if err != nil {
		return nil, err
	}
	if text := outcomes[0].Error; text != "" {
		return nil, errors.New("rqlite: " + text)
	}
	return outcomes[0].rows()
}

// readGroup sends reads that share a request. One of them may be wrong: the others have their rows all the same.
func (db *DB) readGroup(group []call) {
	outcomes, err := db.read(db.open, weak, lines(group))
	answerAll(group, outcomes, err)
}

func (db *DB) read(ctx context.Context, path string, lines [][]any) ([]outcome, error) {
	r, err := db.settle(ctx, path, lines, readTime)
	switch {
	case err != nil && db.closed():
		return nil, engine.ErrClosed
	case err != nil:
		return nil, err
	case len(r.Results) != len(lines):
		return nil, fmt.Errorf("rqlite has answered %d of %d reads", len(r.Results), len(lines))
	}
	return r.Results, nil
}
