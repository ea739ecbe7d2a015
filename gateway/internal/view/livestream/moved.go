package livestream

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"muster/gateway/api"
)

// That a task was given out or began is no event of the log: there would be two more for each task. Streams hear of it from this process.

const (
	gather   = 500 * time.Millisecond // moves of tasks are collected for one reader
	mostMove = 256                    // moves that wait for one reader, which a slow client holds up
)

// moves are the tasks that have moved and that one reader is not told of yet.
type moves struct {
	heard chan string      // ids
	lost  atomic.Bool      // there were too many
	ids   []string         // that are collected; this and what follows is for the stream's own goroutine
	due   <-chan time.Time // when the reader is to be told of them; nil: there are none
}

// add hears of a move, whichever goroutine it comes from.
func (m *moves) add(id string) {
	select {
	case m.heard <- id:
	default:
		m.lost.Store(true)
	}
}

// collect takes a move that was heard.
func (m *moves) collect(id string) {
	if m.due == nil {
		m.due = time.After(gather)
	}
	if !slices.Contains(m.ids, id) && len(m.ids) <= mostTasksTold {
		m.ids = append(m.ids, id)
	}
}

// TaskMoved tells the readers of tasks that a task of a node was given out, or has begun. It does not wait for them.
func (s *Streams) TaskMoved(nodeID, taskID string) {
	s.mu.Lock()
	readers := slices.Clone(s.readers)
	s.mu.Unlock()
	for _, r := range readers {
		if r.mayHear(nodeID) {
			r.moves.add(taskID)
		}
	}
}

// mayHear is true for a node of the reader's tenant.
func (s *stream) mayHear(nodeID string) bool {
	if s.Nodes.Tenant == "" {
		return true
	}
	row, known := s.Overview.Row(nodeID)
	return known && row.Tenant == s.Nodes.Tenant
}

// sendMoves sends the tasks that have moved, as they are now.
func (s *stream) sendMoves(ctx context.Context) {
	ids := s.moves.ids
	s.moves.ids, s.moves.due = nil, nil
	if s.moves.lost.Swap(false) {
		s.send(api.StreamLost, struct{}{})
		return
	}
	s.sendTasks(ctx, ids)
}

// listens begins and ends that a reader hears of tasks.
func (s *Streams) listens(r *stream) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers = append(s.readers, r)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.readers = slices.DeleteFunc(s.readers, func(other *stream) bool { return other == r })
	}
}
