package ship

import (
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Reasons why lines did not get to a sink. They are part of the API and of the metrics.
const (
	ReasonBuffer  = "buffer"  // the rule's buffer was full
	ReasonDamaged = "damaged" // the buffer was damaged
	ReasonRefused = "refused" // the sink did not want them
	ReasonNode    = "node"    // they were lost on the node, which said so
)

// state is how a rule does, since the gateway started.
type state struct {
	mu     sync.Mutex
	is     api.LogShipping // what changes of it; its dropped lines but for those of the buffer
	oldest *time.Time      // when the oldest line that waits was received, as far as it is known
}

func newState() *state { return &state{is: api.LogShipping{Dropped: map[string]int64{}}} }

func (s *state) drop(reason string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 {
		s.is.Dropped[reason] = min(s.is.Dropped[reason]+n, wire.MaxNumber) // a node says some of them, and may say too many
	}
}

// waits notes when the line was received that is pushed next; nil: nothing waits.
func (s *state) waits(since *time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = since
}

func (s *state) took(lines int, bytes int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.is.Sent += int64(lines)
	s.is.SentBytes += int64(bytes)
	s.is.SentAt = &now
	s.is.FailingSince = nil
	s.is.Error = ""
}

// refused notes lines that the sink does not want: they are gone.
func (s *state) refused(lines int, why string, now time.Time) {
	s.failed(why, now)
	s.drop(ReasonRefused, int64(lines))
}

// failed notes that the sink took nothing. It reports whether it is the first time in a row.
func (s *state) failed(why string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.is.FailingSince == nil
	if first {
		s.is.FailingSince = &now
	}
	s.is.Error = why
	return first
}
