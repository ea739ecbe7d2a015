package fleet

import (
	"context"
	"time"

	"muster/gateway/internal/timeline"
	"muster/store"
)

// stepTold is from which step of the clock on an operator is told by an event.
const stepTold = time.Minute

// metaAbsences is where the store keeps what timeline.Clock.Absences gives.
const metaAbsences = "absences"

// watch notices that the clock was set, and mends what that makes wrong before anything rests on it: whatever depends on times
// calls it first. The caller holds no lock.
func (f *Fleet) watch(ctx context.Context) {
	if f.clock.Read(); f.clock.Settled() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	f.flushing.Lock()
	defer f.flushing.Unlock()
	if err := f.mend(ctx, f.clock.Take()); err != nil {
		f.log.Error("times that are ahead of the clock wait to be mended: the database takes no writes", "error", err)
	}
}

// mend puts steps of the clock on record, and sets back what is ahead of it in memory and in the database; what an earlier step had
// made shorter it gives back when the clock comes forward again. The caller holds the lock of the flushes, so that none brings back what
// was ahead.
func (f *Fleet) mend(ctx context.Context, steps []timeline.Step) error {
	now := f.clock.Now()
	var back, forward time.Duration
	var events []store.Event
	for i, s := range steps {
		if forward += s.By; s.By < 0 {
			back = back - s.By
			forward = 0
		}
		if !s.Logged {
			f.log.Warn(stepWords(s.By), "by", s.By.Round(time.Millisecond).String(), "now", s.At.UTC().Format(time.RFC3339))
			steps[i].Logged = true
		}
		if s.By.Abs() > stepTold {
			events = append(events, f.stepEvent(s))
		}
	}
	var err error
	if back > 0 {
		f.setBeatsBack(now.Round(0), back)
		err = f.store.SetBack(ctx, store.SetBack{Now: now, By: back, RecoveryKind: recoveryAllowed})
	}
	if err == nil {
		err = f.store.SetForward(ctx, forward, events...)
	}
	if err == nil {
		err = f.noteAbsences(ctx)
	}
	f.cache.dropAll()
	if err != nil {
		f.clock.Owe(steps)
	}
	return err
}

func stepWords(by time.Duration) string {
	if by < 0 {
		return "the clock was set back"
	}
	return "the clock was set forward, or the machine slept"
}

// stepEvent tells an operator of a step, which explains times in the log that do not follow each other.
func (f *Fleet) stepEvent(s timeline.Step) store.Event {
	return store.Event{At: s.At, Kind: "clock.stepped", Actor: "gateway", Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{
			"by": s.By.Round(time.Second).String(), "what": stepWords(s.By),
			"from": s.At.Add(-s.By).UTC().Format(time.RFC3339), "to": s.At.UTC().Format(time.RFC3339),
		}}
}

// setBeatsBack mends what memory has of heartbeats and runs.
func (f *Fleet) setBeatsBack(now time.Time, by time.Duration) {
	f.beats.Lock()
	defer f.beats.Unlock()
	for _, l := range f.beats.live {
		l.beat.At = timeline.SetBack(l.beat.At, now, by)
		for _, x := range l.runs {
			for _, at := range []*time.Time{&x.First, &x.Last, &x.Before} {
				*at = timeline.SetBack(*at, now, by)
			}
		}
	}
}

// noteAbsences puts the absences on record, for a gateway that starts later.
func (f *Fleet) noteAbsences(ctx context.Context) error {
	return f.store.SetMeta(ctx, metaAbsences, f.clock.Absences())
}
