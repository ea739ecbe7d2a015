package httpserver

import "context"

// Least is what must be taken of what is on the way.
func (d *Limiter) Least(queued int) int { return d.least(queued) }

// Tell is what Run does once a minute.
func (d *Limiter) Tell(ctx context.Context) { d.tell(ctx) }
