package session

import "context"

// Kept is how many bytes of all sessions wait.
func (d *Service) Kept() int64 { return d.kept.Load() }

// Keep makes as if so many bytes more waited.
func (d *Service) Keep(bytes int64) { d.kept.Add(bytes) }

// MostKept is the bound of them.
const MostKept = mostKept

// Live is how many sessions are in memory.
func (d *Service) Live() int { return len(d.all()) }

// Look does what events have asked for.
func (d *Service) Look(ctx context.Context) { d.look(ctx) }
