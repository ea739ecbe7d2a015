package history

import (
	"context"
	"time"

	"muster/store/history"
)

const (
	rollUps   = 100             // hours of nodes that are rolled up in one turn
	rollUpLag = 2 * time.Minute // after an hour, by when its last samples are written
	sweepPace = time.Minute
	sweepLate = 10 * time.Minute // later than that, the clock was set or the machine slept
	dropped   = 2000             // rows that go in one write
	dropsMost = 20               // such writes in one turn
	shrinks   = 2000             // pages that are given back in one turn

	trustAfter = 24 * time.Hour // of a steady clock; long enough for somebody to notice that it is wrong
	awayMost   = time.Hour      // from the end of a gateway to its next start: a clock that was set meanwhile is wrong by no more than that
)

// KeepFor returns how long the rows of a tier are kept, if the bound leaves room for that.
func KeepFor(t history.Tier) time.Duration {
	return [...]time.Duration{history.Raw: 12 * time.Hour, history.Minutes: 8 * 24 * time.Hour, history.Hours: 400 * 24 * time.Hour}[t]
}

// least is how much of a tier stays where the file is at its bound, until the coarser tiers have been cut down to theirs.
func least(t history.Tier) time.Duration {
	return [...]time.Duration{history.Raw: 2 * time.Hour, history.Minutes: 24 * time.Hour, history.Hours: 30 * 24 * time.Hour}[t]
}

// rollUp rolls up some of the hours that ended.
func (b *Store) rollUp(ctx context.Context, now time.Time) {
	due, err := b.file.Due(ctx, now.Add(-rollUpLag), rollUps)
	for i := range due {
		if err != nil || ctx.Err() != nil {
			break
		}
		err = b.file.RollUp(ctx, due[i])
	}
	b.report(ctx, "an hour is not rolled up", b.note(err))
}

// resume goes on with the time for which the clock was steady before a restart. Nothing else tells whether it was set meanwhile, so a
// longer absence counts as that.
func (b *Store) resume(ctx context.Context) {
	if !b.swept.IsZero() {
		return
	}
	now := b.Now()
	last, err := b.file.Clock(ctx)
	if b.note(err) != nil {
		b.report(ctx, "it is not known since when the clock is steady", err)
		return
	}
	b.swept = now
	if away := now.Round(0).Sub(last.At); away >= 0 && away <= awayMost {
		b.steady = last.Steady
	}
}

// sweep deletes what is too old once a minute, and then what the bound leaves no room for. For its age it deletes nothing until the clock
// has gone on for a day without being set: where the clock is far ahead, everything looks old.
func (b *Store) sweep(ctx context.Context, now time.Time) {
	last := b.swept
	passed := now.Sub(last)
	if passed >= 0 && passed < sweepPace {
		return
	}
	b.swept = now
	b.steady = steady(b.steady, last, now, passed)
	var err error
	if b.steady >= trustAfter {
		err = b.dropOld(ctx, now)
	}
	if err == nil {
		err = b.fit(ctx, now)
	}
	if err == nil {
		err = b.file.KeepClock(ctx, history.Clock{At: now, Steady: b.steady})
	}
	b.report(ctx, "old samples are not deleted", b.note(err))
}

// steady is for how long the clock was steady, after two readings of it between which so much time has passed: nothing where it was set.
func steady(before time.Duration, last, now time.Time, passed time.Duration) time.Duration {
	set := (now.Round(0).Sub(last.Round(0)) - passed).Abs() >= time.Minute
	if set || passed < 0 || passed > sweepLate {
		return 0
	}
	return min(before+passed, trustAfter)
}

func (b *Store) dropOld(ctx context.Context, now time.Time) error {
	for _, t := range [...]history.Tier{history.Raw, history.Minutes, history.Hours} {
		for range dropsMost {
			n, err := b.file.Drop(ctx, t, now.Add(-KeepFor(t)), dropped, false)
			if err != nil {
				return err
			}
			if n < dropped {
				break
			}
		}
	}
	return b.file.Forget(ctx, now.Add(-KeepFor(history.Hours)-48*time.Hour))
}

// cut is a part of the file that may go: the rows of a tier that are older than an age.
type cut struct {
	tier     history.Tier
	older    time.Duration
	unrolled bool // samples that are not rolled up too
}

// cuts are in the order in which they go: each tier down to its least, the finest first. If that is not enough, samples outlive what
// they have been rolled up into: without them the next roll-up would have nothing.
func cuts() []cut {
	return []cut{
		{history.Raw, least(history.Raw), false},
		{history.Minutes, least(history.Minutes), false},
		{history.Hours, least(history.Hours), false},
		{history.Minutes, 0, false},
		{history.Raw, 0, false},
		{history.Hours, 0, false},
		{history.Raw, 0, true},
	}
}

// fit deletes until the file has some room below its bound, and gives back to the file system what is above it.
func (b *Store) fit(ctx context.Context, now time.Time) error {
	size, err := b.file.Size(ctx)
	if err != nil {
		return err
	}
	for range dropsMost {
		if size.File-size.Free <= b.Bound-b.Bound/20 {
			break
		}
		if err := b.dropSome(ctx, now); err != nil {
			return err
		}
		if size, err = b.file.Size(ctx); err != nil {
			return err
		}
	}
	if size.File > b.Bound && size.Free > 0 {
		return b.file.Shrink(ctx, shrinks)
	}
	return nil
}

// dropSome deletes one portion of what goes first. Rows of the future, from a clock that was ahead, are the newest and go last.
func (b *Store) dropSome(ctx context.Context, now time.Time) error {
	for _, c := range cuts() {
		before := now.Add(-c.older)
		if c.older == 0 {
			before = time.Unix(1<<40, 0)
		}
		if n, err := b.file.Drop(ctx, c.tier, before, b.some(), c.unrolled); err != nil || n > 0 {
			return err
		}
	}
	return nil
}

// some is how many rows go at once to make room: few where the file is small.
func (b *Store) some() int { return int(min(dropped, max(50, b.Bound>>17))) }
