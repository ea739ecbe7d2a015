package fleet

import (
	"context"
	"time"

	"muster/gateway/internal/httpserver/limit/uptime"
	"muster/store"
)

// stepTold is the size of a step of the clock above which an event tells the operator.
const stepTold = time.Minute

// metaAbsences is the key under which the store keeps the text of uptime.Clock.Absences.
const metaAbsences = "absences"

// watch notices that the clock was set, and corrects the times that are wrong now. Every method whose answer depends on times
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
		f.log.Error("times that are ahead of the clock could not be corrected yet: the database cannot be written", "error", err)
	}
}

// mend corrects memory and database after steps of the clock. After a step back it sets back the times that are in the future
// now. After a step forward it gives back the validity that an earlier step had taken. It also records the larger steps as
// events. The caller holds flushing, so that no flush writes times from before the step.
func (f *Fleet) mend(ctx context.Context, steps []uptime.Step) error {
	now := f.clock.Now()
	var back, forward time.Duration
	var events []store.Event
	for i, s := range steps {
		forward += s.By
		if s.By < 0 { // a step back makes earlier steps forward irrelevant
			back -= s.By
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
		err = f.store.ClockSetBack(ctx, store.ClockStep{Now: now, By: back, RecoveryKind: recoveryAllowed})
	}
	if err == nil {
		err = f.store.ClockSetForward(ctx, forward, events...)
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

// stepEvent is the event for a step. It explains why times in the log are not in order.
func (f *Fleet) stepEvent(s uptime.Step) store.Event {
	return store.Event{At: s.At, Kind: "clock.stepped", Actor: "gateway", Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{
			"by": s.By.Round(time.Second).String(), "what": stepWords(s.By),
			"from": s.At.Add(-s.By).UTC().Format(time.RFC3339), "to": s.At.UTC().Format(time.RFC3339),
		}}
}

// setBeatsBack sets back the times of the heartbeats and runs in memory.
func (f *Fleet) setBeatsBack(now time.Time, by time.Duration) {
	f.beats.Lock()
	defer f.beats.Unlock()
	for _, l := range f.beats.live {
		l.beat.At = uptime.SetBack(l.beat.At, now, by)
		l.runs.SetBack(now, by)
	}
}

// attend tells the clock that the gateway is at work, until ctx ends. It waits for nothing else, so that a slow disk is no standstill.
func (f *Fleet) attend(ctx context.Context) {
	ticker := time.NewTicker(uptime.BeatEvery)
	defer ticker.Stop()
	for {
		if still := f.clock.Beat(); still > 0 {
			f.stood.Store(true)
			f.log.Warn("the gateway stood still, as if its process or its machine was stopped: nodes have time to come back",
				"for", still.String())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// keepAbsences writes the absences after a standstill.
func (f *Fleet) keepAbsences(ctx context.Context) error {
	if !f.stood.Swap(false) {
		return nil
	}
	err := f.noteAbsences(ctx)
	if err != nil {
		f.stood.Store(true)
	}
	return err
}

// noteAbsences writes the absences to the database, for the next start of the gateway.
func (f *Fleet) noteAbsences(ctx context.Context) error {
	return f.store.SetMeta(ctx, metaAbsences, f.clock.Absences())
}

// Absent returns how long nobody could be heard between two moments, because the gateway was away or its clock skipped the time.
func (f *Fleet) Absent(from, to time.Time) time.Duration { return f.clock.Absent(from, to) }

// Ref returns what the statuses of nodes are computed from at this moment.
func (f *Fleet) Ref() store.StatusRef { return f.clock.Ref() }
