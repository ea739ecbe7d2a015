package httpserver

import (
	"context"
	"log/slog"
)

// reason is why a connection was closed, or not let in.
type reason int

const (
	fine reason = iota
	slowRequest
	notRead
	idleUnproven
	crowdedAddress
	crowded
	crowdedOwner
	crowdedSocket
	full
	reasons // their number
)

// String returns the reason's name in the log.
func (r reason) String() string {
	return [...]string{"", "slow_request", "answer_not_read", "idle_without_proof", "too_many_of_one_address", "too_many_without_proof",
		"too_many_of_one_owner", "too_many_on_the_socket", "no_descriptor_left"}[r]
}

// tell says in one line what was closed since the last time. It is a warning, unless all were merely idle.
func (d *Limiter) tell(ctx context.Context) {
	level := slog.LevelInfo
	var numbers []any
	for r := range reasons {
		all := d.cuts[r].Load()
		n := all - d.told[r]
		if n == 0 {
			continue
		}
		d.told[r] = all
		numbers = append(numbers, r.String(), n)
		if r != idleUnproven {
			level = slog.LevelWarn
		}
	}
	if len(numbers) == 0 {
		return
	}
	open, unproven := d.Open()
	d.log.Log(ctx, level, "connections were closed in the last minute", append(numbers, "open", open, "without_proof", unproven)...)
}

// Open says how many connections from the network there are, and how many count as connections without a proof.
func (d *Limiter) Open() (all, unproven int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open, d.strangers.total + d.known.total
}

// Closed says how many connections were closed, or not let in, since the start, by reason.
func (d *Limiter) Closed() map[string]int64 {
	by := map[string]int64{}
	for r := fine + 1; r < reasons; r++ {
		by[r.String()] = d.cuts[r].Load()
	}
	return by
}

// Limits says how many connections there may be.
func (d *Limiter) Limits() Limits { return d.limits }
