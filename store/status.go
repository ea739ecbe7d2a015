package store

import "time"

// Status of a node, never stored.
const (
	StatusPending = "pending" // never heard from
	StatusOnline  = "online"
	StatusStale   = "stale"
)

// StatusRef is what computing a status takes besides the node.
type StatusRef struct {
	Now     time.Time
	Start   time.Time // of this gateway
	AliveAt time.Time // when the gateway before this start last lived
	Grace   bool      // within the time after a start in which nothing turns stale

	GraceEnd time.Time // when that time ends
}

// Status computes the status of a node: online while it was last seen at most three intervals ago. Right after a start it is judged
// by when the gateway before was last alive, for it could not be heard meanwhile. To the millisecond, as stored.
func (r StatusRef) Status(lastSeen *time.Time, interval time.Duration) string {
	if lastSeen == nil {
		return StatusPending
	}
	seen := millis(*lastSeen)
	now := millis(r.Now)
	if r.Grace && seen < millis(r.Start) {
		now = millis(r.AliveAt)
	}
	if seen+3*interval.Milliseconds() >= now {
		return StatusOnline
	}
	return StatusStale
}

// Left is for how long a node that was last seen then stays online yet if nothing more is heard of it; 0: it is stale.
func (r StatusRef) Left(lastSeen time.Time, interval time.Duration) time.Duration {
	if r.Status(&lastSeen, interval) == StatusStale {
		return 0
	}
	end := lastSeen.Add(3*interval + time.Millisecond)
	if r.Grace && millis(lastSeen) < millis(r.Start) && end.Before(r.GraceEnd) {
		end = r.GraceEnd
	}
	return max(end.Sub(r.Now), time.Millisecond)
}

// statusOf is the same in SQL, for the liveness row v; expression's parameters come from args.
const statusOf = `CASE WHEN v.last_seen IS NULL THEN 'pending'
	WHEN v.last_seen + 3 * v.interval_ms >= CASE WHEN ? AND v.last_seen < ? THEN ? ELSE ? END THEN 'online' ELSE 'stale' END`

func (r StatusRef) args() []any {
	return []any{flag(r.Grace), millis(r.Start), millis(r.AliveAt), millis(r.Now)}
}
