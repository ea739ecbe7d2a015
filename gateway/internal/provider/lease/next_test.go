package lease

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/reconcile"
	rentals "muster/store/provider"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *time.Time { return new(start.Add(d)) }

// TestNext: what a lease needs, in each state and for each thing that is known.
func TestNext(t *testing.T) {
	t.Parallel()
	live := rentals.Lease{State: providers.LeaseLive, Act: providers.ActDestroy, EndsAt: start.Add(time.Hour),
		CreatedAt: start.Add(-time.Hour)}
	with := func(change func(*rentals.Lease)) rentals.Lease {
		l := live
		change(&l)
		return l
	}
	over := with(func(l *rentals.Lease) { l.EndsAt = start })
	kept := with(func(l *rentals.Lease) { l.EndsAt, l.Act, l.Warned = start, providers.ActKeep, true })
	idle := with(func(l *rentals.Lease) { l.Idle = new(2 * time.Hour) })
	soon := with(func(l *rentals.Lease) { l.EndsAt = start.Add(reconcile.WarnBefore) })
	told := with(func(l *rentals.Lease) { l.EndsAt, l.Warned = start.Add(reconcile.WarnBefore), true })
	fresh := with(func(l *rentals.Lease) { l.CreatedAt = start.Add(-time.Minute) })
	back := with(func(l *rentals.Lease) { l.Drained = true })
	keptBack := with(func(l *rentals.Lease) { l.EndsAt, l.Act, l.Drained = start, providers.ActKeep, true })
	draining := with(func(l *rentals.Lease) { l.State, l.DrainedAt = providers.LeaseDraining, at(-grace+time.Second) })
	patient := with(func(l *rentals.Lease) { l.State, l.DrainedAt = providers.LeaseDraining, at(-grace) })
	ending := with(func(l *rentals.Lease) { l.State, l.AskedAt = providers.LeaseEnding, at(-time.Hour) })
	later := with(func(l *rentals.Lease) { l.State, l.TryAt = providers.LeaseEnding, at(time.Second) })
	odd := with(func(l *rentals.Lease) { l.State, l.TryAt = providers.LeaseEnding, at(24*time.Hour) })
	ended := with(func(l *rentals.Lease) { l.State = providers.LeaseEnded })
	active, drained := &api.NodeRow{State: wire.StateActive}, &api.NodeRow{State: wire.StateDrained}
	for _, c := range []struct {
		what string
		l    rentals.Lease
		v    sight
		want step
	}{
		{"it goes on", live, sight{}, rest},
		{"its end is near", soon, sight{}, warn},
		{"its owner was told", told, sight{}, rest},
		{"its end was not seen to pass", over, sight{}, rest},
		{"its end has passed", over, sight{passed: true}, end},
		{"its end has passed, and it is kept", kept, sight{passed: true}, rest},
		{"it is idle, not for long enough", idle, sight{quiet: 2*time.Hour - 1}, rest},
		{"it is idle", idle, sight{quiet: 2 * time.Hour}, endIdle},
		{"it may be idle for ever", live, sight{quiet: 20 * time.Hour}, rest},
		{"no list has it", live, sight{absent: true}, lookGone},
		{"no list has it yet", fresh, sight{absent: true}, rest},
		{"its company was asked, and waits", later, sight{absent: true}, rest},
		{"its company was asked, and the lists have just lost it", later, sight{absent: true, news: true}, try},
		{"no list has it any more", fresh, sight{absent: true, listed: true}, lookGone},
		{"it was extended after its node was drained", back, sight{node: drained}, resume},
		{"it is kept after its node was drained, and its end", keptBack, sight{passed: true, node: drained}, resume},
		{"and has no node", back, sight{}, rest},
		{"its node takes work", draining, sight{node: active}, drain},
		{"something works there", draining, sight{node: drained, busy: []string{"task"}}, rest},
		{"nothing works there", draining, sight{node: drained}, hurry},
		{"nobody knows its node", draining, sight{}, hurry},
		{"its node is given back", draining, sight{node: &api.NodeRow{State: wire.StateRetired}, busy: []string{"task"}}, hurry},
		{"what works there had its time", patient, sight{node: drained, busy: []string{"task"}}, hurry},
		{"its node could not be drained", patient, sight{node: active}, hurry},
		{"the company is to be asked", ending, sight{}, try},
		{"it was asked a moment ago", later, sight{}, rest},
		{"the clock was set back", odd, sight{}, try},
		{"it has ended", ended, sight{absent: true, passed: true}, rest},
	} {
		c.v.now, c.v.away = start, func(time.Time, time.Time) time.Duration { return 0 }
		if got := next(c.l, c.v); got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, got, c.want)
		}
	}
	away := sight{now: start, node: drained, busy: []string{"task"}, away: func(time.Time, time.Time) time.Duration { return time.Minute }}
	if got := next(patient, away); got != rest {
		t.Errorf("a clock that skipped a minute has taken it from the grace: %d", got)
	}
}

// TestPassed: an end counts after two rounds and a minute that the process has lived through, whatever the clock says.
func TestPassed(t *testing.T) {
	t.Parallel()
	n := &note{}
	for i, c := range []struct {
		clock, up time.Duration
		want      bool
	}{
		{-time.Second, 0, false},
		{100 * time.Hour, time.Second, false}, // the clock has stepped
		{100 * time.Hour, 59 * time.Second, false},
		{-time.Hour, 60 * time.Second, false}, // and back
		{time.Second, 61 * time.Second, false},
		{time.Minute, 120 * time.Second, false},
		{time.Minute, 121 * time.Second, true},
	} {
		if got := n.passed(start, start.Add(c.clock), c.up); got != c.want {
			t.Errorf("%d: got %v", i, got)
		}
	}
	if n.passed(start.Add(time.Minute), start.Add(time.Hour), 200*time.Second) {
		t.Error("another end counts as the first one")
	}
	alone := &note{}
	if alone.passed(start, start, 0); alone.rounds != 1 || alone.passed(start, start, 0) {
		t.Error("two rounds at once are enough")
	}
}

// TestPause: the pauses grow, and end at ten minutes.
func TestPause(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]time.Duration{0: firstTry, 1: firstTry, 2: 2 * firstTry, 6: 8 * time.Minute, 7: longestTry,
		1 << 40: longestTry} {
		if got := pause(tries); got != want {
			t.Errorf("%d: got %s, want %s", tries, got, want)
		}
	}
}
