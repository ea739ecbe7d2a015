package store

import "time"

// Status of a node. It depends on the present time, so it is never stored.
const (
	StatusPending = "pending" // never heard from, or not to be heard: it has no agent
	StatusOnline  = "online"
	StatusStale   = "stale"
)

// StatusRef holds what a status is computed from, besides the node.
type StatusRef struct {
	Now      time.Time
	Start    time.Time // when this gateway started, or came back after a gap
	AliveAt  time.Time // when the gateway was last at work before Start
	Grace    bool      // Now is before GraceEnd: nothing turns stale
	GraceEnd time.Time
	There    bool // nodes could be heard all along, because the clock alone was set: AliveAt goes on with the time
}

// HasAgent reports whether a node in this state has an agent. Without one, nothing is installed yet or any more, and silence means nothing.
func HasAgent(state string) bool {
	return state != "commissioned" && state != "ready" && state != "deploying"
}

// Status computes the status of a node in a state. It is online until three intervals after it was last seen, and stale then, or pending if
// it has no agent. Within the grace after a start, AliveAt stands for the present time: the gateway could not hear the node since then. It
// computes in milliseconds, so that the result is the same as in SQL.
func (r StatusRef) Status(state string, lastSeen *time.Time, interval time.Duration) string {
	if lastSeen == nil {
		return StatusPending
	}
	seen := millis(*lastSeen)
	now := millis(r.Now)
	if !r.Heard(*lastSeen) {
		now = millis(r.AliveAt)
	}
	if seen+3*interval.Milliseconds() >= now {
		return StatusOnline
	}
	if !HasAgent(state) {
		return StatusPending
	}
	return StatusStale
}

// Heard reports whether a node that was last heard at this time was heard since Start. After the grace it is always true.
func (r StatusRef) Heard(at time.Time) bool { return !r.Grace || millis(at) >= millis(r.Start) }

// Left returns how much longer a node that was last seen at lastSeen stays online if nothing more is heard of it; 0: it is stale.
func (r StatusRef) Left(lastSeen time.Time, interval time.Duration) time.Duration {
	if r.Status("", &lastSeen, interval) == StatusStale {
		return 0
	}
	end := lastSeen.Add(3*interval + time.Millisecond)
	if !r.Heard(lastSeen) && end.Before(r.GraceEnd) {
		if end = end.Add(r.Now.Sub(r.AliveAt)); !r.There || end.After(r.GraceEnd) {
			end = r.GraceEnd
		}
	}
	return max(end.Sub(r.Now), time.Millisecond)
}
