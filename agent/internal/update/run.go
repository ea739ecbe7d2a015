package update

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"muster/agent/internal/service"
	"muster/agent/wire"
)

const (
	askAgain    = 5 * time.Minute  // until the gateway is asked again about a release that is not taken; up to a fifth more
	doubtPause  = 45 * time.Second // for a newer trust set to come
	firstRetry  = 30 * time.Second
	longRetry   = 24 * time.Hour
	commitRetry = 2 * time.Second
	lockTime    = 15 * time.Second // for another process to settle
	// lateTime is for the heartbeats that are missing after the first one. A gateway that was away may accept that one late in a trial.
	lateTime = 25 * time.Second
	// spareEnd is the end of a trial time in which no wish of the gateway is followed.
	spareEnd = 45 * time.Second
)

// ErrNotProven ends an agent on trial whose time is over.
var ErrNotProven = errors.New("this version has not proven itself in time: the last good one decides what is started next")

// Run follows what the gateway wants until ctx is done. An error ends the agent: it is on trial and has not proven itself in time, and
// Settle decides what is started next.
func (u *Updater) Run(ctx context.Context) error {
	if u.onTrial() {
		if err := u.prove(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	}
	u.flush()
	u.clean()
	next := time.Now()
	for ctx.Err() == nil {
		u.await(ctx, next)
		u.flush()
		wants, changed := u.wants()
		if changed {
			u.tries = 0
			next = time.Now()
		}
		if !wants { // something new ends the wait before
			next = time.Now().Add(askAgain)
		}
		if ctx.Err() != nil || time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(u.pause(u.attend(ctx)))
		if u.begun {
			<-ctx.Done()
		}
	}
	u.end(ctx)
	return nil
}

// end notes that this version has not failed where it was told to end.
func (u *Updater) end(ctx context.Context) {
	if !wasTold(ctx) {
		return
	}
	u.mu.Lock()
	u.dirty = u.record.stays(u.build) || u.dirty
	u.mu.Unlock()
	u.flush()
}

// await waits until a time, or until something is new.
func (u *Updater) await(ctx context.Context, until time.Time) {
	timer := time.NewTimer(max(time.Until(until), 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-u.wake:
	}
}

// wants reports whether the gateway wants a release, and whether that has changed since the last call.
func (u *Updater) wants() (wants, changed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	changed = u.changed
	u.changed = false
	return u.build != "" && u.offer != "" && u.record.Channel != "", changed
}

// attend does what it takes for the last offer, until the offer changes.
func (u *Updater) attend(ctx context.Context) error {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	u.mu.Lock()
	u.stop = cancel
	u.mu.Unlock()
	err := u.follow(bounded)
	u.mu.Lock()
	u.stop = nil
	u.mu.Unlock()
	u.idle()
	if bounded.Err() != nil {
		return nil
	}
	return err
}

// pause is the time until the gateway is asked again. After a fetch that failed it grows, because the registry may be what failed.
func (u *Updater) pause(err error) time.Duration {
	if errors.Is(err, errDoubt) {
		return doubtPause
	}
	switch codeOf(err, "") {
	case wire.UpdateNotFetched, wire.UpdateBadContent, wire.UpdateNoRoom:
		bound := min(firstRetry<<min(u.tries, 20), longRetry)
		u.tries++
		return bound/2 + rand.N(bound/2)
	}
	return askAgain + rand.N(askAgain/5)
}

// flush puts the record on the disk where it has changed.
func (u *Updater) flush() {
	u.mu.Lock()
	record := u.record
	dirty := u.dirty
	u.dirty = false
	u.mu.Unlock()
	if !dirty {
		return
	}
	if err := u.save(record); err != nil {
		u.note("what is known of updates cannot be written: " + err.Error())
		u.mu.Lock()
		u.dirty = true
		u.mu.Unlock()
		return
	}
	u.note("")
}

// clean removes builds that nobody needs any more.
func (u *Updater) clean() {
	if u.build == "" {
		return
	}
	if err := u.Prune(); err != nil {
		u.Logger.Warn("former versions cannot be removed", "error", err)
	}
}

func (u *Updater) onTrial() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.proof != nil
}

// prove waits until this version has proven itself, and makes it the good one then. If the disk does not take that, it tries for as long
// as it runs: a disk says nothing against a version.
func (u *Updater) prove(ctx context.Context) error {
	defer u.hideProven()
	u.Logger.Info("this version is on trial", "build", u.build)
	u.amend(func(t *Trial) {
		t.Starts = max(t.Starts, 1)
		t.Up = t.Starts
		t.Stopped = false
	})
	u.mu.Lock()
	left := wire.TrialTime
	if t := u.record.Last.Trial; t != nil {
		left = t.left(u.clock)
	}
	u.mu.Unlock()
	over := time.NewTimer(left)
	defer over.Stop()
	again := time.NewTimer(wire.TrialStable)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			u.amend(func(t *Trial) { t.Stopped = wasTold(ctx) })
			return nil
		case <-over.C:
			if more := u.late(); more > 0 {
				u.amend(func(t *Trial) { t.Window = min(t.Window, (wire.TrialTime - more).Milliseconds()) })
				over.Reset(more)
				continue
			}
			if why := u.missing(); why != "" {
				u.amend(func(t *Trial) { t.GaveUp = why })
				u.Logger.Error("this version has not proven itself in time", "missing", why)
				return ErrNotProven
			}
		case <-u.wake:
		case <-again.C:
		}
		if u.missing() != "" {
			continue
		}
		u.showProven()
		err := u.commit(ctx)
		if err == nil || errors.Is(err, errSettled) {
			return err
		}
		u.note("this version has proven itself, and that cannot be written down, which is tried again: " + err.Error())
		again.Reset(commitRetry)
	}
}

// wasTold reports whether this process was told to end. Else another part of it has failed, which is the cause then.
func wasTold(ctx context.Context) bool { return context.Cause(ctx) == ctx.Err() }

// late is the time that this version has beyond its trial, because the gateway has begun to accept its heartbeats only now. The good
// version would reach the gateway by then, and a whole fleet would go back.
func (u *Updater) late() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.proof.beats == 0 {
		return 0
	}
	return time.Until(u.proof.first.Add(lateTime))
}

// missing says what this version has not shown yet; empty: nothing.
func (u *Updater) missing() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.proof.beats < wire.TrialBeats:
		return fmt.Sprintf("the gateway accepted %d of %d heartbeats", u.proof.beats, wire.TrialBeats)
	case !u.proof.answered:
		return "the gateway answered no wait for tasks"
	case time.Since(u.started) < wire.TrialStable:
		return fmt.Sprintf("it has not lived for %v", wire.TrialStable)
	}
	return ""
}

// amend changes the trial in the record. If that fails, Settle goes by what it sees.
func (u *Updater) amend(change func(*Trial)) {
	free, err := u.lock(context.Background())
	if err != nil {
		return
	}
	defer free()
	r, err := u.ownTrial()
	if err != nil {
		return
	}
	r.Last.Trial.tick(u.clock)
	change(r.Last.Trial)
	u.keep(r)
	if err := u.save(r); err != nil {
		u.Logger.Warn("the trial cannot be recorded", "error", err)
	}
}

// errSettled means that another process has ended this trial.
var errSettled = errors.New("the last good version has ended the trial of this one")

// ownTrial is the record on the disk, where it says that this build is on trial.
func (u *Updater) ownTrial() (Record, error) {
	u.mu.Lock()
	mine := u.record
	u.mu.Unlock()
	r, err := u.load()
	if err != nil {
		r = mine
	}
	if r.Last.Phase != wire.UpdateTrial || r.Last.To != u.build {
		return r, errSettled
	}
	if r.Last.Trial == nil {
		r.Last.Trial = &Trial{}
	}
	r.Node = mine.Node
	r.Channel = mine.Channel
	r.Floors = mine.Floors
	return r, nil
}

func (u *Updater) keep(r Record) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.record = r
	if r.Last.Trial != nil {
		u.record.Last.Trial = new(*r.Last.Trial)
	}
}

// lock keeps other processes from settling meanwhile.
func (u *Updater) lock(ctx context.Context) (free func(), err error) {
	bounded, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	return service.SettleLock(bounded, u.Base)
}

// commit makes this version the good one. The link decides: where the record cannot be written any more, it is written later. What the
// gateway hears of it has no part in this.
func (u *Updater) commit(ctx context.Context) error {
	free, err := u.lock(ctx)
	if err != nil {
		return err
	}
	defer free()
	r, err := u.ownTrial()
	if err != nil {
		return err
	}
	if err := u.SetGood(u.build); err != nil && u.Good() != u.build {
		return err
	}
	r.end(wire.UpdateCommitted, "", "")
	u.keepBefore()
	u.keep(r)
	u.mu.Lock()
	u.proof = nil
	u.dirty = true
	u.mu.Unlock()
	u.Logger.Info("this version has proven itself", "build", u.build, "release", r.Last.Release)
	u.news()
	return nil
}
