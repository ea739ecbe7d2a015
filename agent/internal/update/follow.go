package update

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

const (
	busyPause = 10 * time.Second // between two looks whether tasks run
	// quietTries is how many fetches fail in a row before the gateway hears of it. A single one says nothing of the release.
	quietTries = 3
	// lastWord is how long a gateway has to hear that a trial begins.
	lastWord = 5 * time.Second
)

// errAgain means that time has passed, and that the gateway is asked anew.
var errAgain = errors.New("ask again")

// follow takes the release that the gateway wants.
func (u *Updater) follow(ctx context.Context) error {
	for {
		release, there, err := u.ask(ctx)
		if err != nil || !there {
			return err
		}
		err = u.take(ctx, release)
		if !errors.Is(err, errAgain) {
			return err
		}
	}
}

// ask asks what this node should run. It reports false if the gateway wants nothing.
func (u *Updater) ask(ctx context.Context) (release wire.Release, there bool, err error) {
	answer, err := u.Client.Do(ctx, transport.Request{Path: wire.PathRelease})
	if err != nil {
		u.Logger.Warn("the gateway does not say which release it wants", "error", err)
		return release, false, fail(wire.UpdateNotFetched, "%w", err)
	}
	if answer.Status == http.StatusNoContent {
		return release, false, nil
	}
	if err := json.Unmarshal(answer.Body, &release); err != nil {
		return release, false, fail(wire.UpdateNotFetched, "read the gateway's answer: %w", err)
	}
	return release, true, nil
}

// take does all that lies between a release and its trial. What does not go on is noted.
func (u *Updater) take(ctx context.Context, release wire.Release) error {
	w, err := u.check(release)
	if errors.Is(err, identity.ErrUnknownKey) && u.doubt() {
		u.news() // the next heartbeat may be far away
		return errDoubt
	}
	if err == nil {
		u.learnEnd(w)
	}
	switch {
	case w.program == "" || w.program != u.build:
	case err == nil:
		return u.moveFloor(w)
	case w.Sequence <= u.Report().Sequence: // only its end would be new
		return err
	}
	if err == nil {
		err = u.stagger(ctx, w, release)
	}
	if err == nil {
		err = u.untilIdle(ctx, w)
	}
	if err == nil {
		err = u.get(ctx, w, release)
	}
	if err == nil {
		err = u.begin(ctx, w, release)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, errAgain) {
		u.refuse(w, release, err)
	}
	return err
}

// check believes the pointer or says why not.
func (u *Updater) check(release wire.Release) (wanted, error) {
	u.mu.Lock()
	record := u.record
	a := asks{state: u.state, channel: u.record.Channel, record: &record, policies: u.Policies, now: u.state.Within(u.Client)}
	u.mu.Unlock()
	w, err := a.check(release.Pointer)
	return w, err
}

// errDoubt means that a newer trust set may name the key of a pointer.
var errDoubt = errors.New("a newer trust set may name the key")

// doubt reports whether a newer trust set may be on its way, once for each: the number of the newest comes with each heartbeat's answer, as
// offers do, and the loop of the heartbeats follows it.
func (u *Updater) doubt() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	number := identity.TrustNumber(u.state.Gateway)
	fresh := number != u.doubted
	u.doubted = number
	return fresh
}

// learnEnd notes how long a pointer is good that was believed.
func (u *Updater) learnEnd(w wanted) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.record.Ends == nil || !u.record.Ends.Equal(w.Expires) {
		u.record.Ends = &w.Expires
		u.dirty = true
	}
}

// moveFloor obeys a higher number for the program that runs already.
func (u *Updater) moveFloor(w wanted) error {
	u.mu.Lock()
	u.dirty = u.record.raise(w.Channel, w.Sequence) || u.dirty
	u.mu.Unlock()
	u.flush()
	return nil
}

// refuse notes why a release was not taken. It is said once.
func (u *Updater) refuse(w wanted, release wire.Release, err error) {
	code := codeOf(err, wire.UpdateNoRoom)
	u.Logger.Warn("a release was not taken", "release", release.Digest, "code", code, "error", err)
	if code == wire.UpdateNotFetched && u.tries+1 < quietTries {
		return
	}
	digest := release.Digest
	about := release.Sequence
	if w.Digest != "" { // the pointer was verified
		digest = w.Digest
		about = w.Sequence
	}
	u.mu.Lock()
	l := u.record.Last
	if said := l.Release == digest && l.About == about; said && (l.Code == code || code == wire.UpdateTaken && wire.UpdateEnded(l.Phase)) {
		u.mu.Unlock()
		return
	}
	u.record.Last = Last{Channel: u.record.Channel, Release: digest, About: about, Version: w.Version}
	u.record.end(wire.UpdateFailed, code, err.Error())
	if code == wire.UpdateSelfTest {
		u.record.fail(w.Channel, digest, about)
	}
	u.dirty = true
	u.mu.Unlock()
	u.flush()
	u.clean()
	u.news()
}

// idle says that nothing is under way.
func (u *Updater) idle() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.going = nil
}

// say notes what is under way.
func (u *Updater) say(w wanted, phase, code, detail string) {
	u.mu.Lock()
	next := wire.Update{Release: w.Digest, About: w.Sequence, Phase: phase, Code: code, Detail: wire.Head(plain(detail), wire.MaxUpdateDetail)}
	changed := u.going == nil || *u.going != next
	u.going = &next
	u.mu.Unlock()
	if changed {
		u.news()
	}
}

// share is this node's part of a stagger. It is the same each time, and differs from node to node and from number to number.
func share(nodeID string, number int64, whole time.Duration) time.Duration {
	if whole <= 0 {
		return 0
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d", nodeID, number))
	return time.Duration(binary.BigEndian.Uint64(sum[:8]) % uint64(whole))
}

// stagger waits for this node's share, counted from when it first heard of the number.
func (u *Updater) stagger(ctx context.Context, w wanted, release wire.Release) error {
	if w.Channel != u.first.Channel || w.Sequence != u.first.Sequence {
		u.first = w
		u.firstAt = time.Now()
	}
	whole := min(time.Duration(max(release.StaggerSeconds, 0))*time.Second, wire.MaxStagger)
	u.mu.Lock()
	node := u.state.NodeID
	u.mu.Unlock()
	wait := share(node, w.Sequence, whole) - time.Since(u.firstAt)
	if wait <= 0 {
		return nil
	}
	u.say(w, wire.UpdateHeld, wire.UpdateStagger, "it waits for its turn, so that not all nodes fetch the release at once")
	if !transport.Sleep(ctx, wait) {
		return ctx.Err()
	}
	return errAgain // what the gateway said is old by now
}

// untilIdle waits until no task runs.
func (u *Updater) untilIdle(ctx context.Context, w wanted) error {
	for waited := false; ; waited = true {
		release, ok := u.Hold(ctx)
		switch {
		case ok:
			release()
			if waited {
				return errAgain
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		u.say(w, wire.UpdateHeld, wire.UpdateBusy, "it waits until no task runs")
		if !transport.Sleep(ctx, busyPause) {
			return ctx.Err()
		}
	}
}

// begin puts the version that was installed on trial: it is started next. Until the link changes, nothing has happened.
func (u *Updater) begin(ctx context.Context, w wanted, release wire.Release) error {
	letIn, ok := u.Hold(ctx)
	if !ok {
		return errAgain
	}
	defer func() {
		if !u.begun { // else no task begins any more in this process
			letIn()
		}
	}()
	if _, err := u.check(release); err != nil { // anew: the fetch may have taken long
		return err
	}
	if err := u.ready(); err != nil {
		return fail(wire.UpdateNoRoom, "the way back cannot be made: %w", err)
	}
	if err := u.switchTo(w); err != nil {
		return err
	}
	u.Logger.Info("a new version is on trial: starting it", "version", w.Version, "release", w.Digest)
	u.begun = true
	u.tellTrial(ctx)
	u.Restart()
	return nil
}

// tellTrial lets the gateway hear that a trial begins, since a version that hangs tells nothing. The trial begins all the same where the
// gateway does not hear.
func (u *Updater) tellTrial(ctx context.Context) {
	if u.News == nil {
		return
	}
	heard := make(chan struct{})
	u.mu.Lock()
	u.heard = heard
	u.mu.Unlock()
	u.News()
	bounded, cancel := context.WithTimeout(ctx, lastWord)
	defer cancel()
	select {
	case <-heard:
	case <-bounded.Done():
	}
}

// ready makes sure that the version which runs can be gone back to: its file is whole, and both links lead to it.
func (u *Updater) ready() error {
	build, err := u.Install(u.program)
	switch {
	case err != nil:
		return err
	case build != u.build:
		return fmt.Errorf("this program has changed since it was started: its digest is %.12s now", build)
	}
	if err := u.SetGood(build); err != nil {
		return err
	}
	return u.PrepareBack(build)
}

// switchTo writes the record first. If the power fails before the link is changed, the update begins anew.
func (u *Updater) switchTo(w wanted) error {
	u.mu.Lock()
	before := u.record
	next := before
	next.raise(w.Channel, w.Sequence)
	next.Last = Last{
		Channel: w.Channel, Release: w.Digest, About: w.Sequence, Version: w.Version, Phase: wire.UpdateTrial,
		From: u.build, To: w.program, Trial: &Trial{},
	}
	u.mu.Unlock()
	next.Last.Trial.tick(u.clock)
	if info, err := os.Stat(u.Log()); err == nil {
		next.Last.Trial.LogSize = info.Size()
	}
	err := u.save(next)
	if err == nil {
		err = u.SetCurrent(w.program)
	}
	if err != nil && u.Current() != w.program {
		if undone := u.save(before); undone != nil {
			u.Logger.Warn("the record says that a trial has begun, which has not", "error", undone)
		}
		return fail(wire.UpdateNoRoom, "%w", err)
	}
	u.keep(next)
	u.idle()
	return nil
}
