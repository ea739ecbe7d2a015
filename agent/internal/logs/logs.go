// Package logs reads the logs of this machine, each as lines of one form: the agent's own, the kernel's, the journal's, those of a unit and
// those of a workload.
//
// No secret leaves it: every line is masked. What it keeps in memory is bounded, whatever a log holds. It changes nothing, and while
// nobody reads, nothing of it runs.
//
// A Shipper sends the logs that the gateway asks for: it follows sources, keeps their lines in a spool in the state directory, and posts
// them in batches.
//
// A line is in the spool before it is sent, and it goes only when the gateway has it: so a gateway that is away, or a restart of either
// side, loses nothing as long as the spool has room. What the spool had no room for is told in its place. If the gateway asks for
// nothing, the package does nothing and has no file.
package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"muster/agent/internal/host"
	"muster/agent/internal/identity"
	"muster/agent/internal/logfile"
	"muster/agent/internal/service"
	"muster/agent/internal/workload"
	"muster/agent/wire"
)

// Host is the machine whose logs are read.
type Host struct {
	State     string        // the agent's state directory
	User      bool          // the agent is not root: units of its user count too
	Secrets   []string      // that are masked, beside those of the identity in State
	Workloads workload.Host // for containers

	seams seams
}

// seams are what tests put in the place of the machine. The zero value is the machine itself.
type seams struct {
	device host.Device
	pace   time.Duration
	now    func() time.Time
}

// Ask says what to read.
type Ask struct {
	Source string    // as wire.CheckLogSource allows it
	Since  time.Time // lines of this time and later; zero: all that there are
	// After is a place that Reader.Each has given: go on behind it; empty: from Since. If the log has it no more, the oldest line that is
	// newer comes next.
	After  string
	Follow bool          // go on with new lines
	Pace   time.Duration // between two looks for new lines, if nothing tells of them; 0: so short that a person sees them come
}

// pace is the wait between two looks for new lines, if nothing tells of them.
const pace = 200 * time.Millisecond

func (h Host) now() time.Time {
	if h.seams.now != nil {
		return h.seams.now()
	}
	return time.Now()
}

func (h Host) pace() time.Duration { return cmp.Or(h.seams.pace, pace) }

func (h Host) device() host.Device {
	if h.seams.device.Open != nil {
		return h.seams.device
	}
	return host.Kmsg()
}

// entry is one line as a source has it.
type entry struct {
	at      time.Time
	level   string
	text    string
	left    int // so many bytes that followed text are left out
	fields  []field
	dropped int64
	place   string // where to go on behind it
}

type field struct{ name, value string }

// feed gives the lines of a source, oldest first, until its end or until ctx is done.
type feed func(ctx context.Context, give func(entry) error) error

// Open finds a log. It fails if the source is not there or may not be read; the error says what to do. Only Reader.Each frees what Open has
// opened.
func (h Host) Open(ctx context.Context, ask Ask) (*Reader, error) {
	if err := wire.CheckLogSource(ask.Source); err != nil {
		return nil, err
	}
	if now := h.now(); ask.Since.After(now) { // by another clock: what is written from now on is meant
		ask.Since = now
	}
	secrets, err := h.secrets()
	if err != nil {
		return nil, err
	}
	r := &Reader{source: ask.Source, after: ask.After, now: h.now}
	read, more, err := h.source(ctx, ask)
	r.masker = logfile.NewMasker(append(secrets, more...)...)
	if err != nil {
		return nil, r.plain(err)
	}
	r.stream = r.masker.Stream()
	r.read = read
	return r, nil
}

// source chooses by the name of a source. secrets are what only this source holds.
func (h Host) source(ctx context.Context, ask Ask) (read feed, secrets []string, err error) {
	unit, isUnit := strings.CutPrefix(ask.Source, wire.LogUnit)
	name, isWorkload := strings.CutPrefix(ask.Source, wire.LogWorkload)
	switch {
	case isWorkload:
		return h.openWorkload(ctx, ask, name)
	case isUnit:
		read, err = h.openUnit(ctx, ask, unit)
	case ask.Source == wire.LogKernel:
		read, err = h.openKernel(ctx, ask)
	case ask.Source == wire.LogBoot:
		read, err = h.openBoot(ctx, ask)
	default:
		read, err = h.openAgent(ask)
	}
	return read, nil, err
}

// secrets are those that the agent itself has. If they cannot be read they could not be masked, so nothing is shown.
func (h Host) secrets() ([]string, error) {
	state, err := identity.Read(h.State)
	if errors.Is(err, fs.ErrNotExist) {
		return h.Secrets, nil
	}
	if err != nil {
		return nil, fmt.Errorf("no log is shown, because the agent's own keys could not be masked in it: %w", err)
	}
	return append(state.Secrets(), h.Secrets...), nil
}

func (h Host) openAgent(ask Ask) (feed, error) {
	f := follower{path: service.Layout{Base: h.State}.Log(), ask: ask, now: h.now, pace: cmp.Or(ask.Pace, h.pace())}
	if err := f.begin(); err != nil {
		return nil, err
	}
	return f.read, nil
}

// Reader reads the lines of one source. It is for one goroutine.
type Reader struct {
	source string
	after  string // where it begins
	masker logfile.Masker
	stream *logfile.Stream
	now    func() time.Time
	read   feed
}

// Each calls take with the lines, oldest first, until the end of the log (no error), or until ctx is done or take fails. place is the
// position behind the line, for Ask.After; it is only good for this source. The source is read no faster than take takes.
func (r *Reader) Each(ctx context.Context, take func(line wire.LogLine, place string) error) error {
	place := r.after
	return r.plain(r.read(ctx, func(e entry) error {
		place = cmp.Or(e.place, place)
		return take(r.line(e), place)
	}))
}

// plain is an error without secrets: it may repeat what a program has said.
func (r *Reader) plain(err error) error {
	if err == nil {
		return nil
	}
	if text := r.masker.Value("", err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}
