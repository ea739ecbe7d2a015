package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"muster/agent/wire"
)

// reader is one call of Read.
type reader struct {
	hub   *Hub
	node  string
	query Query
	each  func([]wire.LogLine) error
	out   chan []wire.LogLine // what goes to each
}

// follow shows what is there, by time where there are several sources. After that lines come as the node sends them: no clock decides.
func (r *reader) follow(ctx context.Context) error {
	streams := make([]*stream, 0, len(r.query.Sources))
	for _, source := range r.query.Sources {
		s, err := r.hub.join(r.node, source, r.query)
		if err != nil {
			return err
		}
		defer r.hub.part(s)
		streams = append(streams, s)
	}
	for _, s := range streams {
		if err := r.wait(ctx, s); err != nil {
			return err
		}
	}
	lines, next := r.backlog(streams)
	done := make(chan error, 1)
	go func() { done <- r.pump(ctx, lines, streams, next) }()
	return r.deliver(ctx, done)
}

// wait waits until a stream has what was there, and says meanwhile that the reader is not forgotten.
func (r *reader) wait(ctx context.Context, s *stream) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		v := s.from(place{}, 0)
		switch {
		case v.ready:
			return nil
		case v.over != nil:
			return refused(v.over)
		}
		select {
		case <-v.news:
		case <-ticker.C:
			if err := r.each(nil); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// backlog gathers what the streams have already, and where the reader goes on in each.
func (r *reader) backlog(streams []*stream) (lines []wire.LogLine, next []place) {
	for _, s := range streams {
		since := r.hub.since(r.query, s.source)
		held, missing, at := s.backlog(since)
		next = append(next, at)
		if missing > 0 && r.query.Limit == 0 {
			lines = append(lines, leftOut(r.hub.Now(), s.source, missing))
		}
		for _, l := range held {
			if !l.Time.Before(since) && r.wants(l) {
				lines = append(lines, l)
			}
		}
	}
	if len(streams) > 1 {
		slices.SortStableFunc(lines, func(a, b wire.LogLine) int { return a.Time.Compare(b.Time) })
	}
	if over := len(lines) - r.query.Limit; r.query.Limit > 0 && over > 0 {
		lines = lines[over:]
	}
	return lines, next
}

func leftOut(now time.Time, source string, missing int64) wire.LogLine {
	at := now.UTC()
	return wire.LogLine{Time: at, Received: &at, Source: source, Level: "warn", Dropped: missing,
		Message: "the gateway does not hold so many lines while it follows: read the earlier ones without following"}
}

// wants is true for a line with what the reader looks for. What says that something is missing is always shown.
func (r *reader) wants(l wire.LogLine) bool {
	grep := r.query.Grep
	if grep == nil || l.Dropped > 0 || l.Source == wire.LogGateway || grep.MatchString(l.Message) {
		return true
	}
	for name, value := range l.Fields {
		if grep.MatchString(name + "=" + value) {
			return true
		}
	}
	return false
}

// pump hands on the backlog and then what comes, until all logs have ended.
func (r *reader) pump(ctx context.Context, backlog []wire.LogLine, streams []*stream, next []place) error {
	for chunk := range slices.Chunk(backlog, portion) {
		if !r.send(ctx, chunk) {
			return context.Cause(ctx)
		}
	}
	var all sync.WaitGroup
	for i, s := range streams {
		all.Go(func() { r.pumpOne(ctx, s, next[i]) })
	}
	all.Wait()
	for _, life := range []context.Context{r.hub.life, ctx} { // the streams may know that the gateway stops before ctx does
		if life.Err() != nil {
			return context.Cause(life)
		}
	}
	return nil
}

func (r *reader) pumpOne(ctx context.Context, s *stream, at place) {
	for {
		v := s.from(at, portion)
		at = v.next
		if len(v.lines) > 0 {
			wanted := slices.DeleteFunc(v.lines, func(l wire.LogLine) bool { return !r.wants(l) })
			if len(wanted) > 0 && !r.send(ctx, wanted) {
				return
			}
			continue
		}
		if v.over != nil {
			r.tellEnd(ctx, s.source, v.over)
			return
		}
		select {
		case <-v.news:
		case <-ctx.Done():
			return
		}
	}
}

// tellEnd says in a line why a log ends.
func (r *reader) tellEnd(ctx context.Context, source string, why error) {
	if r.hub.life.Err() != nil {
		return // the reader's end says it
	}
	line := notice(r.hub.Now(), "info", source+": the log has ended")
	if !errors.Is(why, io.EOF) {
		line = notice(r.hub.Now(), "error", source+": the log ends here: "+plain(why))
	}
	r.send(ctx, []wire.LogLine{line})
}

// send gives lines to the goroutine of the reader.
func (r *reader) send(ctx context.Context, lines []wire.LogLine) bool {
	select {
	case r.out <- lines:
		return true
	case <-ctx.Done():
		return false
	}
}

// deliver calls each until the work is done.
func (r *reader) deliver(ctx context.Context, done <-chan error) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		var err error
		select {
		case lines := <-r.out:
			err = r.each(lines)
		case <-ticker.C:
			err = r.each(nil)
		case err := <-done:
			return err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// once reads what is there, in sessions of its own, and merges the sources by time.
func (r *reader) once(ctx context.Context) error {
	heads := make([]*head, 0, len(r.query.Sources))
	for _, source := range r.query.Sources {
		from, err := r.hub.Open(ctx, r.node, wire.LogsParams{Source: source, Since: r.hub.since(r.query, source)})
		if err != nil {
			return refused(err)
		}
		defer from.Close()
		heads = append(heads, &head{intake: newIntake(from, source, r.hub.Now)})
	}
	done := make(chan error, 1)
	go func() { done <- r.merge(ctx, heads) }()
	return r.deliver(ctx, done)
}

// head is the next lines of one source.
type head struct {
	*intake
	lines []wire.LogLine
	over  bool
}

// fill waits for lines. Without an error and without lines the source has ended.
func (h *head) fill(ctx context.Context) error {
	if len(h.lines) > 0 || h.over {
		return nil
	}
	var err error
	h.lines, err = h.next(ctx)
	h.over = err != nil
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

const portionBytes = 256 << 10

func (r *reader) merge(ctx context.Context, heads []*head) error {
	for _, h := range heads {
		if err := h.fill(ctx); err != nil {
			return refused(err)
		}
	}
	kept := &ring{most: portionBytes}
	if r.query.Limit > 0 {
		kept.most = ringBytes
	}
	for {
		l, err := earliest(ctx, heads)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case errors.Is(err, io.EOF):
			return r.flush(ctx, kept)
		case err != nil:
			l = notice(r.hub.Now(), "error", "the rest of the log is missing: "+plain(err))
		}
		if err := r.keep(ctx, kept, l); err != nil {
			return err
		}
	}
}

// earliest takes the line with the earliest time. The lines of one source keep their order, whatever their times say.
func earliest(ctx context.Context, heads []*head) (wire.LogLine, error) {
	var from *head
	for _, h := range heads {
		if err := h.fill(ctx); err != nil {
			return wire.LogLine{}, fmt.Errorf("%s: %w", h.source, err)
		}
		if len(h.lines) > 0 && (from == nil || h.lines[0].Time.Before(from.lines[0].Time)) {
			from = h
		}
	}
	if from == nil {
		return wire.LogLine{}, io.EOF
	}
	l := from.lines[0]
	from.lines = from.lines[1:]
	return l, nil
}

// keep holds a line back until there are enough to send. With a limit it holds the last ones until the end.
func (r *reader) keep(ctx context.Context, kept *ring, l wire.LogLine) error {
	if !r.wants(l) {
		return nil
	}
	if r.query.Limit > 0 {
		kept.add([]wire.LogLine{l})
		kept.forget(r.query.Limit)
		return nil
	}
	if len(kept.lines) == portion || kept.bytes+cost(l) > kept.most {
		if err := r.flush(ctx, kept); err != nil {
			return err
		}
	}
	kept.add([]wire.LogLine{l})
	return nil
}

func (r *reader) flush(ctx context.Context, kept *ring) error {
	lines := kept.lines
	kept.lines = nil
	kept.bytes = 0
	if r.query.Limit > len(lines) && kept.first > 0 { // they are more bytes than are held back
		lines = append([]wire.LogLine{leftOut(r.hub.Now(), lines[0].Source, min(kept.first, int64(r.query.Limit-len(lines))))}, lines...)
	}
	for chunk := range slices.Chunk(lines, portion) {
		if !r.send(ctx, chunk) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// refused is the error of a log of which no line was read.
func refused(err error) error {
	var said *wire.ErrorDetail
	if errors.As(err, &said) || !errors.Is(err, errGone) {
		return err
	}
	return wire.Refuse(wire.CodeUnavailable, "the log was not read: "+err.Error(), "try again; muster node show says how the node is")
}
