package heartbeat

import (
	"context"
	"slices"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

const (
	// earlyBeat is by how much a report is brought forward where a wait for work comes back so short before it: a wait has whole seconds,
	// and in a gap between the two, work would wait. It is never more than a tenth of the interval.
	earlyBeat = 1500 * time.Millisecond

	leastWork = 10 * time.Millisecond // from one Work to the next
)

// mayWork reports whether the gateway would give this node work. Otherwise the loop does not ask.
func (l *Loop) mayWork() bool {
	s := l.report.status
	return s.Phase == identity.PhaseOnline && !l.expired() && !slices.Contains(s.Reasons, wire.ReasonConflict)
}

// work lets Work wait until the next thing is due. Then it is cut, so that it never delays a report nor runs beside a renewal. News cuts
// it too.
func (l *Loop) work(ctx context.Context, wait time.Duration) {
	bounded, cut := context.WithTimeout(ctx, wait)
	defer cut()
	ended := make(chan struct{})
	news := make(chan bool)
	go func() {
		select {
		case <-l.Wake:
			cut()
			news <- true
		case <-ended:
			news <- false
		}
	}()
	began := time.Now()
	err := l.Work(bounded, l.State, began.Add(wait))
	if time.Since(began) < leastWork { // so that nothing makes the loop spin
		transport.Sleep(ctx, leastWork)
	}
	close(ended)
	if <-news {
		l.heed(ctx)
		return
	}
	if err != nil {
		l.trusted(ctx, err, 0)
		return
	}
	if left := time.Until(l.nextBeat); left > 0 && left <= min(earlyBeat, l.interval/10) && bounded.Err() == nil {
		l.nextBeat = time.Now()
	}
}
