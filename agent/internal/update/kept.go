package update

import (
	"context"
	"fmt"

	"muster/agent/wire"
)

// judgeKept decides about a version that was committed. It was good, and yet it may not stay up long enough to report: on what it finds on
// the disk, say. Then the node would be lost, so it goes back to the previous version, which is there until the next commit. It does so
// once.
func (s *settling) judgeKept(ctx context.Context) Verdict {
	k := s.record.Kept
	t := &Trial{}
	if k.Trial != nil {
		t = k.Trial
	}
	boot := t.Boot
	lived := t.tick(s.clock)
	if t.Boot != boot || lived >= wire.TrialTime { // the machine was started anew, or the last run was long enough to report
		t.Starts = 0
	}
	t.Starts++
	s.record.Kept.Trial = t
	if s.Broken != "" {
		return s.leave(wire.UpdateNoStart, "it cannot be started any more: "+s.Broken)
	}
	s.note()
	if t.Starts <= mostFailures {
		return Verdict{Decision: GoOn}
	}
	detail := fmt.Sprintf("it was committed, and ended %d times in a row before the gateway had heard of it", t.Starts-1)
	if t.Starts <= mostUnasked { // else asking is what this version does not survive
		if err := s.reaches(ctx); err != nil {
			t.Starts = 1
			s.note()
			return Verdict{Decision: Extend, Detail: fmt.Sprintf("%s; the gateway is not reached: %v", detail, err)}
		}
	}
	return s.leave(wire.UpdateCrashed, detail)
}

// note puts the number of starts on the disk. If that fails, the version goes on: it was good.
func (s *settling) note() {
	if err := s.save(s.record); err != nil {
		s.Logger.Warn("the starts of this version cannot be counted", "error", err)
	}
}

// leave goes back from the version that was committed last. From the previous version there is no way further back.
func (s *settling) leave(code, detail string) Verdict {
	s.record.Last = s.record.Kept
	s.record.Kept = Last{}
	return s.goBack(code, detail)
}
