package rqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"muster/store/engine"
)

// weak is for a read at the leader, as far as that has applied what is stored. fresh is for one that waits until all of it is applied, see
// engine.Fresh. The first such read after an election goes through the log as a write does, and all writes wait for it: so it has little
// time, and is for single rows.
const (
	weak  = "/db/query?level=weak"
	fresh = "/db/query?level=linearizable&linearizable_timeout=2s&db_timeout=2s"
)

// shareTime is how long reads wait for an answer that they share. After that each goes by itself.
const shareTime = 3 * time.Second

// Query runs one SELECT at the leader. The values in the rows are int64, string or nil. Weak reads share requests.
func (db *DB) Query(ctx context.Context, st engine.Statement) (rows [][]any, err error) {
	if db.closed() {
		return nil, engine.ErrClosed
	}
	var outcomes []outcome
	if engine.IsFresh(ctx) {
		outcomes, err = db.readFresh(ctx, st)
	} else {
		outcomes, err = db.wait(ctx, &db.reads, []engine.Statement{st}, true)
	}
	if err != nil {
		return nil, err
	}
	if text := outcomes[0].Error; text != "" {
		return nil, errors.New("rqlite: " + text)
	}
	return outcomes[0].rows()
}

func (db *DB) readFresh(ctx context.Context, st engine.Statement) ([]outcome, error) {
	lines, err := encode(st)
	if err != nil {
		return nil, err
	}
	return db.read(ctx, fresh, lines, readTime)
}

// readGroup sends reads that share a request. One of them may be wrong: the others have their rows all the same. If there is no answer
// soon, each read goes by itself, so that none waits for one that takes long, or has a large answer.
func (db *DB) readGroup(group []call) {
	if len(group) > 1 {
		ctx, cancel := context.WithTimeout(db.open, shareTime)
		outcomes, err := db.read(ctx, weak, lines(group), shareTime)
		cancel()
		if err == nil {
			answerAll(group, outcomes, nil)
			return
		}
	}
	var all sync.WaitGroup
	for _, c := range group {
		all.Go(func() {
			outcomes, err := db.read(c.ctx, weak, c.lines, readTime)
			answerAll([]call{c}, outcomes, err)
		})
	}
	all.Wait()
}

// read runs SELECTs in one request. An error of one of them stands in its outcome.
func (db *DB) read(ctx context.Context, path string, lines [][]any, within time.Duration) ([]outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(db.open, cancel)()
	r, err := db.settle(ctx, path, lines, within)
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
