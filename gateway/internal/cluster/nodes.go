package cluster

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// askEvery is between two looks at the nodes of the store.
const askEvery = 15 * time.Second

// SilentNode is a node of the store that does not answer.
type SilentNode struct {
	At    string // HOST:PORT
	Since time.Time
	Why   string
}

// silence is which nodes of the store do not answer.
type silence struct {
	mu    sync.Mutex
	nodes map[string]SilentNode // guarded by mu
}

// note takes what a look has found.
func (s *silence) note(found map[string]string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]SilentNode{}
	for at, why := range found {
		since := now
		if before, ok := s.nodes[at]; ok {
			since = before.Since
		}
		all[at] = SilentNode{At: at, Since: since, Why: why}
	}
	s.nodes = all
}

// WatchNodes looks again and again which nodes of the store answer, until ctx ends.
func (m *Member) WatchNodes(ctx context.Context) error {
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		if found := m.DB.Silent(ctx); ctx.Err() == nil {
			m.silence.note(found, time.Now())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// SilentNodes returns the nodes of the store that did not answer when they were last asked.
func (m *Member) SilentNodes() []SilentNode {
	m.silence.mu.Lock()
	defer m.silence.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.silence.nodes), func(a, b SilentNode) int { return cmp.Compare(a.At, b.At) })
}
