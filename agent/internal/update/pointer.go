package update

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/task"
	"muster/agent/sign"
	"muster/agent/wire"
)

const digestPrefix = "sha256:"

// failure is why a release is not taken. Code is one of wire's.
type failure struct {
	code string
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(code string, format string, args ...any) error {
	return &failure{code: code, err: fmt.Errorf(format, args...)}
}

// codeOf is the code of an error, and of one without: otherwise.
func codeOf(err error, otherwise string) string {
	var f *failure
	if errors.As(err, &f) {
		return f.code
	}
	return otherwise
}

// wanted is a release that a node may take.
type wanted struct {
	wire.ReleasePointer
	platform wire.ReleasePlatform
	layer    string // digests in hex, without their prefix
	program  string
}

// asks is what a pointer is checked against.
type asks struct {
	state    identity.State
	channel  string
	record   *Record
	policies []string
	now      time.Time // by the gateway's clock, as far as that may move this machine's
}

// check believes a pointer, or says why not: its signature first, then all that it says. Nothing of a release counts but its pointer.
func (a asks) check(envelope json.RawMessage) (wanted, error) {
	pointer, key, err := sign.OpenRelease(envelope, identity.ReleaseKeys(a.state.Gateway))
	switch {
	case errors.Is(err, sign.ErrBadProof):
		return wanted{}, fail(wire.UpdateUnsigned,
			"%w the pointer: its key was replaced or dropped since, or it is forged", identity.ErrUnknownKey)
	case err != nil:
		return wanted{}, fail(wire.UpdateUnsigned, "the pointer is signed, and malformed: %w", err)
	}
	w := wanted{ReleasePointer: pointer}
	switch {
	case pointer.Channel != a.channel:
		return w, fail(wire.UpdateUnsigned, "the pointer is for channel %.63q, and this node follows %q", pointer.Channel, a.channel)
	case pointer.Sequence < a.record.floor(a.channel):
		return w, fail(wire.UpdateOlder, "the pointer has number %d, and this node has obeyed number %d", pointer.Sequence,
			a.record.floor(a.channel))
	case pointer.Sequence < 1 || !isDigest(pointer.Digest) || pointer.Size < 1:
		return w, fail(wire.UpdateUnsigned, "the pointer names no release")
	}
	if err := w.choose(); err != nil {
		return w, err
	}
	if err := a.inTime(pointer); err != nil {
		return w, err
	}
	owner, err := task.LoadPolicy(a.policies...)
	if err == nil {
		err = owner.CheckRelease(key)
	}
	if err != nil {
		return w, fail(wire.UpdateForbidden, "%w", err)
	}
	if at := a.record.failedAt(a.channel, pointer.Digest); pointer.Sequence <= at {
		return w, fail(wire.UpdateTaken, "this release has failed on this node under number %d: a higher number orders it again", at)
	}
	return w, nil
}

// inTime checks the dates of a pointer.
func (a asks) inTime(p wire.ReleasePointer) error {
	switch {
	case a.now.Before(p.NotBefore):
		return fail(wire.UpdateNotNow, "the pointer begins to count at %v", p.NotBefore.UTC())
	case !a.now.Before(p.Expires):
		return fail(wire.UpdateNotNow, "the pointer has expired at %v", p.Expires.UTC())
	}
	return nil
}

// choose finds this machine's platform, and checks what the pointer says of it.
func (w *wanted) choose() error {
	for _, p := range w.Platforms {
		if p.OS == runtime.GOOS && p.Arch == runtime.GOARCH {
			w.platform = p
			return w.checkPlatform()
		}
	}
	return fail(wire.UpdateNoPlatform, "the release has no agent for %s/%s", runtime.GOOS, runtime.GOARCH)
}

func (w *wanted) checkPlatform() error {
	p := w.platform
	switch {
	case !isDigest(p.Digest), !isDigest(p.Program):
		return fail(wire.UpdateUnsigned, "the pointer names a digest that is none")
	case p.Size < 1 || p.Size > wire.MaxLayer || p.ProgramSize < 1 || p.ProgramSize > wire.MaxProgram:
		return fail(wire.UpdateBadContent, "the release is larger than this agent takes, or empty")
	case p.MediaType == wire.MediaProgram && (p.Digest != p.Program || p.Size != p.ProgramSize):
		return fail(wire.UpdateBadContent, "the layer is the program, and the pointer says two different things about them")
	}
	switch p.MediaType {
	case wire.MediaProgram, wire.MediaTar, wire.MediaTarGzip:
	default:
		return fail(wire.UpdateBadContent, "%.100q is no kind of layer that this agent reads", p.MediaType)
	}
	w.layer = strings.TrimPrefix(p.Digest, digestPrefix)
	w.program = strings.TrimPrefix(p.Program, digestPrefix)
	return nil
}

func isDigest(text string) bool {
	hex, found := strings.CutPrefix(text, digestPrefix)
	return found && service.IsDigest(hex)
}
