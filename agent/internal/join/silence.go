package join

import (
	"errors"
	"fmt"
	"time"

	"muster/agent/internal/transport"
)

const (
	// longestSilence is the longest time that join waits until the former node of this machine counts as silent.
	longestSilence = 10 * time.Minute
	// silenceSpare is added for the last request, and for a heartbeat that was on its way when the disk was lost.
	silenceSpare = 45 * time.Second
)

// silence is the wait of a machine that lost its disk. The gateway does not replace a node that has reported lately, even if the new
// one is the same instance: the old one may still run.
type silence struct {
	began time.Time
	over  bool // the wait would be too long
}

// wanted is how long to wait until the gateway may accept the request that it refuses now. It is 0 where waiting does not help.
func wanted(err error) time.Duration {
	var refusal *transport.Refusal
	if !errors.As(err, &refusal) {
		return 0
	}
	return time.Duration(refusal.RetrySeconds) * time.Second
}

// wait prints how long the wait still is. The first call sets the timer of the enrolment to the end of this wait, because the usual
// time would not be enough.
func (s *silence) wait(j *joining, timer *time.Timer, err error) {
	left := wanted(err)
	switch {
	case left > longestSilence:
		s.over = true
	case s.began.IsZero():
		s.began = time.Now()
		timer.Reset(j.Limit(left + silenceSpare))
		j.note("%v", err)
		j.note("waiting until that node counts as silent: about %s", left)
	default:
		j.note("still waiting for that node to be silent: about %s", left)
	}
}

// gaveUp is the error at the end of the wait. It says how to go on.
func (s *silence) gaveUp(err error) error {
	if s.over {
		return fmt.Errorf("not enrolled: %w: that is too long to wait here; run the same command again then, the token is not lost", err)
	}
	return fmt.Errorf("not enrolled: %w: it still reports after %s of waiting; if another machine works with its identity, stop that one, "+
		"then run the same command again; the token is not lost", err, time.Since(s.began).Round(time.Second))
}
