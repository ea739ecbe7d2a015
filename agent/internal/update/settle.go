package update

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/wire"
)

const (
	// mostStarts is how often a version on trial is started without a word of why it ended.
	mostStarts = 3
	// mostFailures is how often a version that was committed is started in a row, and ends each time before the gateway has accepted a
	// heartbeat. It was good once, so it gets more starts than one on trial. After mostUnasked of them the gateway is not asked any more.
	mostFailures = 5
	mostUnasked  = 2 * mostFailures
	// hangTime is how long a version lives at least that did not crash at its start. If such a one ends without a word, something has
	// killed it because it hung, or it crashes after a while. It is not given the time to do that three times.
	hangTime = 20 * time.Second
	// callTime bounds the one call of the good version.
	callTime = 10 * time.Second
)

// Settling has what Settle works with.
type Settling struct {
	Base string // the agent's state directory
	// Call makes one authenticated call of this program to its gateway. nil: the gateway answered, and that is proven.
	Call func(ctx context.Context) error
	// Running says that nothing is started now, because the version on trial may be at work. Then no start is counted. A guard asks so.
	Running bool
	// Broken says why the current version could not be started; empty: nobody has found a reason. If it is set, a version on trial has
	// failed.
	Broken string
	// Words keeps the last words of the version on trial, if a journal has them, before the way back is recorded. nil: nothing has to be
	// kept.
	Words  func()
	Logger *slog.Logger

	steps disk.Steps // nil: nobody is told; for tests
	clock clock
}

// Decision is what Settle has done about the version that is started next.
type Decision string

// Decisions.
const (
	GoOn   Decision = "go on"   // current is started
	GoBack Decision = "go back" // current is the good version again
	Extend Decision = "extend"  // current is started, and has more time: the good version does not reach the gateway either
)

// Verdict is what Settle has decided, and why.
type Verdict struct {
	Decision Decision
	Code     string // where it went back: one of wire's codes, such as wire.UpdateCrashed
	Detail   string // for a person
}

// settling is one Settle.
type settling struct {
	Settling
	files
	record Record
}

// Settle decides what is started next, and changes the current link to it. The good version runs it before every start of the agent. It
// counts the starts of a version on trial. It never fails: if it cannot change anything, it says why, and the start goes on.
func Settle(ctx context.Context, s Settling) Verdict {
	s.Logger = cmp.Or(s.Logger, slog.New(slog.DiscardHandler))
	if s.clock == nil {
		s.clock = systemClock
	}
	j := &settling{Settling: s, files: newFiles(s.Base)}
	j.Steps = s.steps
	var err error
	if j.record, err = j.load(); err != nil {
		s.Logger.Error("the record of updates cannot be read: going by the links alone", "error", err)
		j.guess()
	}
	v := j.decide(ctx)
	if v.Decision != GoOn || v.Detail != "" {
		s.Logger.Warn("settled what is started", "decision", v.Decision, "code", v.Code, "detail", v.Detail)
	}
	return v
}

// guess makes a record where there was one that cannot be read. A current version that is not the good one may be on trial.
func (s *settling) guess() {
	current := s.Current()
	good := s.Good()
	if current != "" && good != "" && current != good {
		s.record.Last = Last{Phase: wire.UpdateTrial, From: good, To: current, Trial: &Trial{}}
	}
}

// decide looks at the links first, because they alone say what is started.
func (s *settling) decide(ctx context.Context) Verdict {
	l := &s.record.Last
	current := s.Current()
	if l.Phase == wire.UpdateTrial && l.To != "" && l.To == s.Good() { // it has proven itself, and the power failed before the record said so
		s.record.end(wire.UpdateCommitted, "", "")
	}
	trial := s.underWay() && current == l.To
	switch {
	case l.Phase == wire.UpdateRolledBack && current != "" && current == l.To && s.back(l.To) != "":
		return s.goBack(l.Code, cmp.Or(l.Detail, "the way back was interrupted")) // the record was written, and the link was not
	case current == "" || s.unfit(current) != nil:
		return s.mend(trial)
	case trial:
		return s.judge(ctx)
	case current == s.record.Kept.To && s.unfit(s.record.Kept.From) == nil && !s.Running:
		return s.judgeKept(ctx)
	}
	return Verdict{Decision: GoOn}
}

// underWay reports whether the record is about a trial that nobody has ended. A phase that only a later version knows counts too.
func (s *settling) underWay() bool {
	l := s.record.Last
	if l.To == "" || l.Phase == "" || wire.UpdateEnded(l.Phase) || l.Phase == wire.UpdateHeld || l.Phase == wire.UpdateFetching {
		return false
	}
	return s.Good() != l.To
}

// unfit is why a build cannot be started; nil: it can, as far as one sees.
func (s *settling) unfit(build string) error {
	info, err := os.Stat(s.Version(build))
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is not a file")
	case info.Mode().Perm()&0o111 == 0:
		return errors.New("it is not executable")
	}
	return nil
}

// damaged is unfit, and reads the build too: what it holds may have changed on the disk.
func (s *settling) damaged(build string) error {
	if err := s.unfit(build); err != nil {
		return err
	}
	there, err := service.Digest(s.Version(build))
	if err == nil && there != build {
		err = errors.New("its content has changed on the disk")
	}
	return err
}

// back is the build to go back to from another one; empty: there is none.
func (s *settling) back(from string) string {
	for _, find := range []func() string{s.Good, func() string { return s.record.Last.From }, s.own} {
		if build := find(); build != "" && build != from && s.unfit(build) == nil {
			return build
		}
	}
	return ""
}

// own is the build of this program, empty if it does not run from the layout.
func (s *settling) own() string {
	digest, err := service.Digest(s.program)
	if err != nil {
		return ""
	}
	if info, err := os.Stat(s.Version(digest)); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return digest
}

// mend makes something current that can be started.
func (s *settling) mend(trial bool) Verdict {
	current := s.Current()
	why := errors.New("the link names no build")
	if current != "" {
		why = s.unfit(current)
	}
	detail := fmt.Sprintf("the current version cannot be started: %v", why)
	if trial || s.underWay() && current == "" {
		return s.goBack(wire.UpdateNoStart, detail)
	}
	to := s.back(current)
	if to == "" {
		return Verdict{Decision: GoOn, Detail: detail + ", and there is no other: join again, which copies one"}
	}
	if err := s.SetCurrent(to); err != nil {
		return Verdict{Decision: GoOn, Detail: fmt.Sprintf("%s, and the way back failed: %v", detail, err)}
	}
	return Verdict{Decision: GoBack, Code: wire.UpdateNoStart, Detail: detail}
}

// judge decides about a version on trial.
func (s *settling) judge(ctx context.Context) Verdict {
	l := &s.record.Last
	if l.Trial == nil {
		l.Trial = &Trial{}
	}
	t := l.Trial
	started := t.Starts > 0
	lived := t.tick(s.clock)
	if t.Stopped && s.Running && !identity.Running(s.Base) {
		return Verdict{Decision: GoOn} // a person has stopped it, and may start it again when they like
	}
	if t.Stopped && !s.Running {
		t.Window = max(t.Window-lived.Milliseconds(), 0) // nothing ran since
		t.Spent = max(t.Spent-lived.Milliseconds(), 0)
		t.Stopped = false
		t.Starts = max(t.Starts-1, 0)
		t.Up = 0
		started = false
	}
	broken := s.Broken
	if err := s.damaged(l.To); broken == "" && err != nil {
		broken = err.Error()
	}
	switch {
	case broken != "":
		return s.goBack(wire.UpdateNoStart, "it cannot be started: "+broken)
	case s.Running && s.showsProven():
		return Verdict{Decision: GoOn}
	case t.GaveUp != "":
		return s.ask(ctx, wire.UpdateUnreachable, t.GaveUp)
	case t.window() >= wire.TrialTime:
		return s.ask(ctx, wire.UpdateHung, fmt.Sprintf("it has not proven itself within %v, and did not say why", wire.TrialTime))
	case s.Running:
		return Verdict{Decision: GoOn}
	case started && lived >= hangTime:
		return s.ask(ctx, wire.UpdateHung, fmt.Sprintf("it ended without a word, or was killed, after %v", lived.Round(time.Second)))
	case t.Starts >= mostStarts && t.Up == 0:
		if err := s.refused(l.To); err != nil {
			return s.goBack(wire.UpdateNoStart, fmt.Sprintf("it was started %d times, and cannot be: %v", t.Starts, err))
		}
		return s.goBack(wire.UpdateCrashed, fmt.Sprintf("it was started %d times, and ended before it came up", t.Starts))
	case t.Starts >= mostStarts:
		return s.goBack(wire.UpdateCrashed, fmt.Sprintf("it was started %d times, and ended before it had proven itself", t.Starts))
	}
	t.Starts++
	return s.count()
}

// refused is why the system does not take a build for a program; nil: it does, whatever the program does then.
func (s *settling) refused(build string) error {
	c := exec.Command(s.Version(build), "version")
	c.Dir = "/"
	c.Env = []string{}
	err := c.Start()
	if err == nil {
		err = c.Process.Kill()
		_ = c.Wait()
	}
	for _, refusal := range []error{syscall.ENOEXEC, syscall.EACCES, syscall.EPERM, syscall.ENOENT, syscall.ELIBBAD} {
		if errors.Is(err, refusal) {
			return refusal
		}
	}
	return nil
}

// count puts the number of starts on the disk. If that cannot be counted, nothing would end a version that crashes at each start.
func (s *settling) count() Verdict {
	if err := s.save(s.record); err != nil {
		return s.goBack(wire.UpdateNoRoom, fmt.Sprintf("its starts cannot be counted: %v", err))
	}
	return Verdict{Decision: GoOn}
}

// ask has a version on trial go back, where the gateway can be reached. Else it gets more time.
func (s *settling) ask(ctx context.Context, code, detail string) Verdict {
	t := s.record.Last.Trial
	if t.spent() < wire.TrialCap {
		if err := s.reaches(ctx); err != nil {
			t.Window = 0
			t.GaveUp = ""
			t.Extended++
			t.Starts = 1
			t.Up = 0
			if s.Running {
				t.Up = 1
			}
			v := s.count()
			if v.Decision == GoOn {
				v = Verdict{Decision: Extend, Detail: fmt.Sprintf("%s; the version before does not reach the gateway either: %v", detail, err)}
			}
			return v
		}
	}
	return s.goBack(code, detail)
}

// reaches makes the one call of this program. If it does not reach the gateway either, another version is not to blame. A whole fleet
// would go back otherwise when its gateway is away.
func (s *settling) reaches(ctx context.Context) error {
	if s.Call == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return s.Call(bounded)
}

// goBack makes the good version current. The record says so first: if the power fails in between, the next Settle changes the link. If
// the record cannot be written, the link counts.
func (s *settling) goBack(code, detail string) Verdict {
	l := &s.record.Last
	to := s.back(l.To)
	if to == "" {
		return Verdict{Decision: GoOn, Detail: detail + "; there is no version to go back to"}
	}
	if l.Phase != wire.UpdateRolledBack {
		if s.Words != nil {
			s.Words()
		}
		l.Log = s.failedLog(l.Trial)
		if l.Release != "" && code != wire.UpdateNoRoom { // a full disk is no fault of the release
			s.record.fail(l.Channel, l.Release, l.About)
		}
		s.record.end(wire.UpdateRolledBack, code, detail)
		if err := s.save(s.record); err != nil {
			s.Logger.Error("the way back cannot be recorded", "error", err)
		}
	}
	if err := s.GoBack(to); err != nil && s.Current() != to {
		return Verdict{Decision: GoOn, Code: code, Detail: fmt.Sprintf("%s; the way back failed: %v", detail, err)}
	}
	if s.Good() == l.To { // it was committed
		if err := s.SetGood(to); err != nil {
			s.Logger.Error("the version before is not the good one yet: it will say so itself", "error", err)
		}
	}
	return Verdict{Decision: GoBack, Code: code, Detail: detail}
}

// OnTrial returns the build that is on trial in a state directory, as a service.Layout names it. It is empty if none is.
func OnTrial(base string) string {
	r, err := newFiles(base).load()
	if err != nil || r.Last.Phase != wire.UpdateTrial {
		return ""
	}
	return r.Last.To
}

// Read returns the record of a state directory to callers that only look. It is empty if there is none.
func Read(base string) (Record, error) { return newFiles(base).load() }
