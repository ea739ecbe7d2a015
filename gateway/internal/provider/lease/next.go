package lease

import (
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/reconcile"
	rentals "muster/store/provider"
)

const (
	grace      = 10 * time.Minute // for what works on a machine whose lease has ended
	lagging    = 10 * time.Minute // a list may leave out a machine that is so new
	firstTry   = 15 * time.Second
	longestTry = 10 * time.Minute // between two tries of the act
)

// sight is what is known when a lease is looked at.
type sight struct {
	now    time.Time
	passed bool                                   // this process has seen its end pass for long enough
	absent bool                                   // complete lists leave the machine out
	listed bool                                   // and some before had it
	news   bool                                   // they do so for the first time
	state  string                                 // of the machine in the last complete list; empty: it is not there
	quiet  time.Duration                          // for which this process has seen that it is idle
	away   func(from, to time.Time) time.Duration // for which the gateway was away, or its clock has skipped
	node   *api.NodeRow                           // nil: no node says that it is this machine
	busy   []string                               // what works there
}

// step is what is to be done next.
type step int

const (
	rest     step = iota
	warn          // tell its owner of its end
	end           // it is over: its node gets no new work
	endIdle       // the same, since the machine is idle
	resume        // it goes on, and its node was drained
	drain         // its node still takes work
	hurry         // what works there has had its time, or nothing does
	try           // ask the company, or look what has come of that
	lookGone      // it may be gone by itself
)

// next is what a lease needs now.
func next(l rentals.Lease, v sight) step {
	switch l.State {
	case providers.LeaseLive:
		return nextLive(l, v)
	case providers.LeaseDraining:
		return nextDraining(l, v)
	case providers.LeaseEnding:
		if isDue(l.TryAt, v.now) || v.news {
			return try
		}
	}
	return rest
}

func nextLive(l rentals.Lease, v sight) step {
	switch over := !v.now.Before(l.EndsAt); {
	case v.absent && (v.listed || v.now.Sub(l.CreatedAt) > lagging) && isDue(l.TryAt, v.now):
		return lookGone
	case over && l.Act != providers.ActKeep:
		if v.passed {
			return end
		}
	case l.Drained && v.node != nil:
		return resume
	case over: // that its time is over is told of until a person decides
	case l.Idle != nil && v.quiet >= *l.Idle:
		return endIdle
	case !l.Warned && l.EndsAt.Sub(v.now) <= reconcile.WarnBefore:
		return warn
	}
	return rest
}

func nextDraining(l rentals.Lease, v sight) step {
	waits := l.DrainedAt != nil && v.now.Sub(*l.DrainedAt)-v.away(*l.DrainedAt, v.now) < grace
	switch {
	case v.node == nil || v.node.State == wire.StateRetired:
		return hurry
	case waits && v.node.State == wire.StateActive:
		return drain
	case waits && len(v.busy) > 0:
		return rest
	}
	return hurry
}

// isDue is true as soon as a time has come. A time that is further away than any that is set belongs to a clock that was set back.
func isDue(at *time.Time, now time.Time) bool {
	return at == nil || !now.Before(*at) || at.Sub(now) > 2*longestTry
}

// pause is how long to wait after so many tries.
func pause(tries int) time.Duration {
	if tries > 6 {
		return longestTry
	}
	return min(firstTry<<max(tries-1, 0), longestTry)
}
