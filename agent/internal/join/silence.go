package join

import (
	"errors"
	"fmt"
	"time"

	"muster/agent/internal/transport"
)

const (
	// longestSilence is how long join waits at most for the node that this machine was before it lost its disk.
	longestSilence = 10 * time.Minute
	// silenceSpare is for the last question, and for a heartbeat that was on its way when the disk was lost.
	silenceSpare = 45 * time.Second
)

// silence is a recycled machine's wait: the gateway replaces no node that still reports, not even by the instance that it was.
type silence struct {
	began time.Time
	over  bool // not worth waiting for
}

// wanted is after how long the gateway may grant what it refuses now; 0: time alone changes nothing.
func wanted(err error) time.Duration {
	var refusal *transport.Refusal
	if !errors.As(err, &refusal) {
		return 0
	}
	return time.Duration(refusal.RetrySeconds) * time.Second
}

// wait says how it goes and, the first time, gives timer the time that it takes.
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

// gaveUp says how to go on.
func (s *silence) gaveUp(err error) error {
	if s.over {
		return fmt.Errorf("not enrolled: %w: that is too long to wait here; run the same command again then, the token is not lost", err)
	}
	return fmt.Errorf("not enrolled: %w: it still reports after %s of waiting; if another machine works with its identity, stop that one, "+
		"then run the same command again; the token is not lost", err, time.Since(s.began).Round(time.Second))
}
