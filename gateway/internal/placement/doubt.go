package placement

import (
	"context"

	"muster/gateway/internal/placement/inventory/pick"
)

// doubtful is a claim of which nobody knows whether it was written.
type doubtful struct {
	allocation string
	choice     pick.Choice
	nodes      []string
}

// doubt reads whether a claim was written. Until that is known nobody else gets its slots.
func (s *Service) doubt(ctx context.Context, d doubtful) {
	if err := s.Reread(ctx, d.nodes...); err == nil {
		s.LetGo(d.choice, d.allocation)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubtful = append(s.doubtful, d)
}

// readDoubtful reads again what could not be read.
func (s *Service) readDoubtful(ctx context.Context) error {
	s.mu.Lock()
	all := s.doubtful
	s.doubtful = nil
	s.mu.Unlock()
	for _, d := range all {
		s.doubt(ctx, d)
	}
	return nil
}
