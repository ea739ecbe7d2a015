package update

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/service"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

const (
	roomBeside   = 64 << 20 // bytes that stay free on the disk
	fetchTime    = 30 * time.Minute
	stallTime    = time.Minute // without a byte
	selfTestTime = 10 * time.Second
)

// get fetches a release's layer, and installs its program beside the version that runs.
func (u *Updater) get(ctx context.Context, w wanted, release wire.Release) error {
	if u.isThere(w.program) { // a task came in between the last time, or the node goes back
		return u.selfTest(ctx, w)
	}
	u.clean()
	if err := u.PruneArrivals(w.layer); err != nil {
		u.Logger.Warn("what arrived of another release cannot be removed", "error", err)
	}
	if err := u.enough(w.platform); err != nil {
		return err
	}
	if err := u.save(u.copyRecord()); err != nil { // where not even that can be written, nothing is fetched
		return fail(wire.UpdateNoRoom, "%w", err)
	}
	u.say(w, wire.UpdateFetching, "", "")
	layer := u.Arrival(w.layer)
	if err := u.fetch(ctx, w, release, layer); err != nil {
		return err
	}
	if err := u.install(w, layer); err != nil {
		return err
	}
	if err := u.selfTest(ctx, w); err != nil {
		return err
	}
	return u.PruneArrivals("")
}

// isThere reports whether a build is complete in its place.
func (u *Updater) isThere(build string) bool {
	path := u.Version(build)
	there, err := service.Digest(path)
	return err == nil && there == build && os.Chmod(path, 0o755) == nil
}

func (u *Updater) copyRecord() Record {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.record
}

// room is how many bytes may be written.
func (u *Updater) room() (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(u.Base, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// enough refuses what would fill the disk.
func (u *Updater) enough(p wire.ReleasePlatform) error {
	free, err := u.free()
	if err != nil {
		return fail(wire.UpdateNoRoom, "see how much room there is: %w", err)
	}
	if need := p.Size + p.ProgramSize + max(p.Size, p.ProgramSize) + roomBeside; free < need {
		return fail(wire.UpdateNoRoom, "the disk has %d MB free, and an update needs %d MB", free>>20, need>>20)
	}
	return nil
}

// fetch makes the file a complete layer. What an earlier try has left is gone on with. If that turns out to be wrong, it begins anew.
func (u *Updater) fetch(ctx context.Context, w wanted, release wire.Release, path string) error {
	for fresh := false; ; fresh = true {
		resumed, err := u.fetchOnce(ctx, w, release, path, fresh)
		if err == nil {
			err = checkLayer(path, w.platform)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errContent):
			if removed := os.Remove(path); removed != nil {
				return fail(wire.UpdateNoRoom, "%w", removed)
			}
			if resumed && !fresh {
				continue
			}
		}
		var failed *os.PathError
		switch {
		case errors.Is(err, errContent):
			return fail(wire.UpdateBadContent, "%w", err)
		case errors.As(err, &failed), errors.Is(err, syscall.ENOSPC):
			return fail(wire.UpdateNoRoom, "%w", err)
		}
		return fail(wire.UpdateNotFetched, "the layer was not fetched: %w", err)
	}
}

// fetchOnce gets what is missing of a layer. resumed: a part of it was there.
func (u *Updater) fetchOnce(ctx context.Context, w wanted, release wire.Release, path string, fresh bool) (resumed bool, err error) {
	if err := u.Steps.At("open the layer"); err != nil {
		return false, err
	}
	mode := os.O_RDWR | os.O_CREATE
	if fresh {
		mode |= os.O_TRUNC
	}
	file, err := os.OpenFile(path, mode, 0o600)
	if err != nil {
		return false, err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	if size > w.platform.Size {
		return true, badContent("more has arrived than it has")
	}
	if size < w.platform.Size {
		err = u.transfer(ctx, w, release, file, size)
	}
	if err == nil {
		err = u.Steps.Sync("the layer", file)
	}
	return size > 0, err
}

// transfer appends to the file what it lacks. What has arrived is checked as a whole, so here nothing has to prove it.
func (u *Updater) transfer(ctx context.Context, w wanted, release wire.Release, file *os.File, size int64) error {
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sink := &sink{file: file, left: w.platform.Size - size, steps: u.Steps}
	sink.stalled = time.AfterFunc(stallTime, func() { cancel(fmt.Errorf("no byte came within %v", stallTime)) })
	defer sink.stalled.Stop()
	var err error
	switch {
	case strings.HasPrefix(release.URL, "/"):
		into := &transport.Download{To: sink, Digest: w.layer, From: size}
		_, err = u.Client.Do(bounded, transport.Request{Path: release.URL, Into: into, Timeout: fetchTime})
	case u.Elsewhere == nil:
		err = errors.New("this agent fetches from its gateway alone")
	default:
		err = u.Elsewhere(bounded, release.URL, release.Authorization, size, sink)
	}
	switch {
	case sink.failed != nil: // before what the transport made of it
		return sink.failed
	case err != nil && context.Cause(bounded) != nil:
		return context.Cause(bounded)
	case errors.Is(err, transport.ErrOtherContent):
		return badContent("%w", err)
	case err == nil && sink.left > 0: // a server may send less than was asked for
		return io.ErrUnexpectedEOF
	}
	return err
}

// sink takes a layer as it arrives, and no more than it has.
type sink struct {
	file    io.Writer
	left    int64
	stalled *time.Timer
	steps   disk.Steps
	failed  error
}

func (s *sink) Write(data []byte) (int, error) {
	s.stalled.Reset(stallTime)
	if int64(len(data)) > s.left {
		s.failed = badContent("more comes than it has")
		return 0, s.failed
	}
	if s.failed = s.steps.At("write the layer"); s.failed != nil {
		return 0, s.failed
	}
	n, err := s.file.Write(data)
	s.left -= int64(n)
	s.failed = err
	return n, err
}

// install puts the program of a layer into its place. It is not started by that.
func (u *Updater) install(w wanted, layer string) error {
	program := layer
	if w.platform.MediaType != wire.MediaProgram {
		program = u.Arrival(w.program)
		if err := u.unpackTo(w, layer, program); err != nil {
			return err
		}
	}
	build, err := u.Install(program)
	if err != nil {
		return fail(wire.UpdateNoRoom, "%w", err)
	}
	if build != w.program {
		return fail(wire.UpdateBadContent, "%w: the program has another digest", errContent)
	}
	return nil
}

// unpackTo writes the program of an archive beside the layer.
func (u *Updater) unpackTo(w wanted, layer, program string) error {
	from, err := os.Open(layer)
	if err != nil {
		return fail(wire.UpdateNoRoom, "%w", err)
	}
	defer from.Close()
	if err := u.Steps.At("open the program"); err != nil {
		return fail(wire.UpdateNoRoom, "%w", err)
	}
	to, err := os.OpenFile(program, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fail(wire.UpdateNoRoom, "%w", err)
	}
	if err = u.Steps.At("write the program"); err == nil {
		err = unpack(from, w.platform, to)
	}
	if closed := to.Close(); err == nil {
		err = closed
	}
	switch {
	case errors.Is(err, errContent):
		return errors.Join(fail(wire.UpdateBadContent, "%w", err), os.Remove(program), os.Remove(layer))
	case err != nil:
		return fail(wire.UpdateNoRoom, "%w", err)
	}
	return nil
}

// selfTest starts the new program once. A program that does not even say its version here is not put on trial.
func (u *Updater) selfTest(ctx context.Context, w wanted) error {
	bounded, cancel := context.WithTimeoutCause(ctx, u.testTime, fmt.Errorf("it did not answer within %v", u.testTime))
	defer cancel()
	said, err := service.Try(bounded, u.Version(w.program))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return judgeTest(err, said)
}

// judgeTest is what a self-test says of a release: how it ended, and what it wrote.
func judgeTest(err error, text string) error {
	text = strings.TrimSpace(text)
	switch {
	case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
		return fail(wire.UpdateNoRoom, "this machine starts no program now: %w", err) // no fault of the release: it is tried again
	case err != nil && text == "":
		return fail(wire.UpdateSelfTest, "the new version does not run here: %w, and it wrote nothing", err)
	case err != nil:
		return fail(wire.UpdateSelfTest, "the new version does not run here: %w: %.300s", err, text)
	case !strings.HasPrefix(text, service.Name+" "):
		return fail(wire.UpdateSelfTest, "the new version does not say its version, but %.300q", text)
	}
	return nil
}
