package livestream

import (
	"context"
	"slices"
	"sync"
	"time"

	"muster/gateway/api"
)

// That a task was given out or began is no event of the log: there would be two more for each task. Streams hear of it from this process.

// gather is how long moves of tasks are collected for one reader.
const gather = 500 * time.Millisecond

// moves are the tasks that have moved and that one reader is not told of yet.
type moves struct {
	bell chan struct{} // holds one token when there are some

	mu   sync.Mutex
	ids  []string
	lost bool // there were too many
}

func (m *moves) add(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.lost || slices.Contains(m.ids, id):
		return
	case len(m.ids) == 0:
		time.AfterFunc(gather, func() { m.bell <- struct{}{} }) // there is room: the reader has taken the last token with the last tasks
	case len(m.ids) == mostTasksTold:
		m.lost = true
		return
	}
	m.ids = append(m.ids, id)
}

func (m *moves) take() (ids []string, lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids = m.ids
	lost = m.lost
	m.ids = nil
	m.lost = false
	return ids, lost
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
	ids, lost := s.moves.take()
	if lost {
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
