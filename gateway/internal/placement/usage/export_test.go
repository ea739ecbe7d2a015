package usage

import "context"

// Write writes what is due, as once a minute; all: as at the end of Run.
func (s *Service) Write(ctx context.Context, all bool) error { return s.write(ctx, all) }

// Uses is how many uses of a node are in memory.
func (s *Service) Uses(nodeID string) int { return len(s.nodes[nodeID].uses) }

// Kept is of how many nodes something is kept.
func (s *Service) Kept() int { return len(s.nodes) }
