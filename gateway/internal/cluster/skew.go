package cluster

import (
	"time"

	"muster/store/rqlite"
)

const (
	// warnSkew is how far the clocks of two gateways may be apart before a standby warns, and mostSkew before it does not take over.
	warnSkew = 500 * time.Millisecond
	mostSkew = time.Second
	// skewLooks is how many changes of the lease the estimate goes by.
	skewLooks = 8
)

// skew is how far this machine's clock is surely ahead of the holder's (negative: behind it). Each change of the lease bounds it: the
// holder wrote its time between two looks, or a little before them, while the write was under way.
type skew struct{ last []time.Duration }

// note takes a change of the lease that came between the beginning of the look before and now.
func (s *skew) note(l rqlite.Lease, before, now time.Time) {
	if now.Sub(before) > warnSkew { // this look, or the one before, was slow: it says nothing
		return
	}
	var off time.Duration
	switch {
	case l.Wall.Before(before):
		off = before.Sub(l.Wall)
	case l.Wall.After(now):
		off = now.Sub(l.Wall)
	}
	if s.last = append(s.last, off); len(s.last) > skewLooks {
		s.last = s.last[1:]
	}
}

// off is the smallest of the last few: what a slow write or a slow look adds is not the clock's.
func (s *skew) off() time.Duration {
	if len(s.last) == 0 {
		return 0
	}
	least := s.last[0]
	for _, off := range s.last {
		if off.Abs() < least.Abs() {
			least = off
		}
	}
	return least
}
