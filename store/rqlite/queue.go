package rqlite

import (
	"context"
	"slices"

	"muster/store/engine"
)

const (
	// mostReading is how many requests with weak reads are on their way at once. A node keeps two connections to its database (the default
	// of database/sql): each further read at the same time opens one and reads the whole schema, which takes longer than the read.
	mostReading = 3
	// mostWriting is how many batches are on their way at once. More would share less of what a write costs on each node.
	mostWriting = 1
	// mostLines is how many statements one request has, unless one call alone has more.
	mostLines = 256
)

// call is one caller's read or batch, which waits for a request that takes it along.
type call struct {
	lines  [][]any
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
	sending int // requests on their way
}

// wait has a call sent with others that wait, and gives its answer. If ctx ends before the call is sent, the call is withdrawn. After that
// the caller waits for the answer, unless it may leave.
func (db *DB) wait(ctx context.Context, q *queue, lines [][]any, mayLeave bool) ([]outcome, error) {
	answers := make(chan answer, 1)
	if err := db.join(q, call{lines, answers}); err != nil {
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

func (db *DB) join(q *queue, c call) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed() {
		return engine.ErrClosed
	}
	q.waiting = append(q.waiting, c)
	if q.sending < q.most {
		q.sending++
		db.calls.Go(func() {
			for group := db.take(q); group != nil; group = db.take(q) {
				if db.closed() {
					answerAll(group, nil, engine.ErrClosed)
				} else {
					q.send(group)
				}
			}
		})
	}
	return nil
}

// take gives the calls of the next request, in the order in which they came. nil: none waits, and who asked is no sender any more.
func (db *DB) take(q *queue) []call {
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(q.waiting) == 0 {
		q.sending--
		return nil
	}
	n, lines := 1, len(q.waiting[0].lines)
	for n < len(q.waiting) && lines+len(q.waiting[n].lines) <= mostLines {
		lines += len(q.waiting[n].lines)
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
