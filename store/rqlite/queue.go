package rqlite

import (
	"context"
	"slices"
	"time"

	"muster/store/engine"
)

const (
	// mostReading is how many requests with weak reads are on their way at once. A node keeps two connections to its database (the default
	// of database/sql): each further read at the same time opens one and reads the whole schema, which takes longer than the read.
	mostReading = 3
	// mostWriting is how many transactions are on their way at once. More would share less of what a write costs on each node.
	mostWriting = 1
	// countTime is how long a request counts as on its way. Nothing waits for one that takes longer: for a large answer, or for a node that
	// has fallen silent.
	countTime = 500 * time.Millisecond
	// mostCalls and mostBytes bound what one request takes along.
	mostCalls = 64
	mostBytes = 1 << 20
)

// call is one caller's read or batch, which waits for a request that takes it along.
type call struct {
	ctx    context.Context
	lines  [][]any
	bytes  int           // of the lines
	answer chan<- answer // has room for the one answer
}

type answer struct {
	outcomes []outcome // of its lines
	err      error
}

// queue has the calls that wait, since as many requests are on their way as may be. DB.mu guards it.
type queue struct {
	most    int // requests at once
	send    func(group []call)
	waiting []call
	sending int // requests on their way that count
}

// wait has statements sent with those of others that wait, and gives their outcomes. If ctx ends before they are sent, they are withdrawn.
// After that the caller waits for the answer, unless it may leave.
func (db *DB) wait(ctx context.Context, q *queue, statements []engine.Statement, mayLeave bool) ([]outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	lines, err := encode(statements...)
	if err != nil {
		return nil, err
	}
	answers := make(chan answer, 1)
	if err := db.join(q, call{ctx, lines, size(lines), answers}); err != nil {
		return nil, err
	}
	select {
	case a := <-answers:
		return a.outcomes, a.err
	case <-ctx.Done():
	}
	if db.withdraw(q, answers) || mayLeave {
		return nil, ctx.Err()
	}
	a := <-answers
	return a.outcomes, a.err
}

// size is about how many bytes lines have in a request.
func size(lines [][]any) (n int) {
	for _, line := range lines {
		for _, value := range line {
			if text, ok := value.(string); ok {
				n += len(text)
			}
		}
	}
	return n
}

func (db *DB) join(q *queue, c call) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed() {
		return engine.ErrClosed
	}
	q.waiting = append(q.waiting, c)
	db.start(q)
	return nil
}

// start begins one request more, if calls wait and it may be. The caller holds the lock.
func (db *DB) start(q *queue) {
	if len(q.waiting) == 0 || q.sending >= q.most {
		return
	}
	q.sending++
	db.calls.Go(func() {
		for db.sendNext(q) {
		}
	})
}

// sendNext sends the next request, and tells whether its sender goes on: one whose request took long has been replaced.
func (db *DB) sendNext(q *queue) bool {
	group := db.take(q)
	if group == nil {
		return false
	}
	slow := time.AfterFunc(countTime, func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		q.sending--
		db.start(q)
	})
	if db.closed() {
		answerAll(group, nil, engine.ErrClosed)
	} else {
		q.send(group)
	}
	return slow.Stop()
}

// take gives the calls of the next request, in the order in which they came. nil: none waits, and who asked is no sender any more.
func (db *DB) take(q *queue) []call {
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(q.waiting) == 0 {
		q.sending--
		return nil
	}
	n, bytes := 1, q.waiting[0].bytes
	for n < min(len(q.waiting), mostCalls) && bytes+q.waiting[n].bytes <= mostBytes {
		bytes += q.waiting[n].bytes
		n++
	}
	group := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return group
}

// withdraw takes a call out of the queue, and tells whether it was there still.
func (db *DB) withdraw(q *queue, answers chan<- answer) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	at := slices.IndexFunc(q.waiting, func(c call) bool { return c.answer == answers })
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	return at >= 0
}

// lines are those of all calls of a group, in order.
func lines(group []call) (all [][]any) {
	for _, c := range group {
		all = append(all, c.lines...)
	}
	return all
}

// answerAll gives each call of a group its part of the outcomes, or the error.
func answerAll(group []call, outcomes []outcome, err error) {
	for _, c := range group {
		a := answer{err: err}
		if err == nil {
			a.outcomes, outcomes = outcomes[:len(c.lines)], outcomes[len(c.lines):]
		}
		c.answer <- a
	}
}
