package logs

import (
	"context"
	"slices"
	"sync"

	"muster/agent/wire"
)

const (
	portion      = 256       // lines that a reader gets at once
	portionBytes = 256 << 10 // that wait for a portion to be full
	limitBytes   = 4 << 20   // of the last lines, where only those are asked for
	lineCost     = 256       // bytes that a line takes in memory beside its text, about
)

// reader is one call of Read.
type reader struct {
	hub   *Hub
	node  string
	query Query

	each   func([]wire.LogLine) error
	turn   chan struct{} // full while each is called
	cancel context.CancelCauseFunc
}

// read shows what is there, by time where there are several sources. After that lines come as the node sends them: no clock decides.
func (r *reader) read(ctx context.Context) error {
	sources := make([]*source, 0, len(r.query.Sources))
	for _, name := range r.query.Sources {
		sources = append(sources, &source{reader: r, name: name, heard: newTail(r.query, name, r.hub.Now())})
	}
	err := r.backlog(ctx, sources)
	if err == nil && r.query.Follow {
		var all sync.WaitGroup
		for _, s := range sources {
			all.Go(func() { s.follow(ctx) })
		}
		all.Wait()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// send waits until the caller has taken lines. It reports false if ctx has ended.
func (r *reader) send(ctx context.Context, lines []wire.LogLine) bool {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-r.turn }()
	if ctx.Err() == nil {
		if err := r.each(lines); err != nil {
			r.cancel(err)
		}
	}
	return ctx.Err() == nil
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

// backlog shows what is there. All sources are opened first: where one is refused, nothing is shown.
func (r *reader) backlog(ctx context.Context, sources []*source) error {
	for _, s := range sources {
		end, err := s.open(ctx, false)
		if err != nil {
			return err
		}
		defer end()
	}
	for _, s := range sources {
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	held := &batch{reader: r}
	for {
		l, any := earliest(ctx, sources)
		if !any {
			held.flush(ctx)
			return nil
		}
		held.add(ctx, l)
	}
}

// earliest takes the line with the earliest time. The lines of one source keep their order, whatever their times say.
func earliest(ctx context.Context, sources []*source) (l wire.LogLine, any bool) {
	var from *source
	for _, s := range sources {
		s.fill(ctx)
		if len(s.lines) > 0 && (from == nil || s.lines[0].Time.Before(from.lines[0].Time)) {
			from = s
		}
	}
	if from == nil || ctx.Err() != nil {
		return l, false
	}
	l = from.lines[0]
	from.lines = from.lines[1:]
	return l, true
}

// batch holds lines back until there are enough to send. With a limit it holds the last ones until the end.
type batch struct {
	*reader
	lines []wire.LogLine
	bytes int
	gone  int // lines in front of them, with a limit
}

func (b *batch) add(ctx context.Context, l wire.LogLine) {
	if !b.wants(l) {
		return
	}
	b.lines = append(b.lines, l)
	b.bytes += cost(l)
	limit := b.query.Limit
	if limit == 0 && (len(b.lines) == portion || b.bytes >= portionBytes) {
		b.flush(ctx)
	}
	for limit > 0 && len(b.lines) > 1 && (len(b.lines) > limit || b.bytes > limitBytes) {
		b.bytes -= cost(b.lines[0])
		b.lines[0] = wire.LogLine{} // its text goes too
		b.lines = b.lines[1:]
		b.gone++
	}
}

// flush sends the lines, and how many of the last ones are missing because they are too large.
func (b *batch) flush(ctx context.Context) {
	if missing := min(b.gone, b.query.Limit-len(b.lines)); missing > 0 {
		gap := notice(b.hub.Now(), "warn", "so many of the last lines are too large to be held: read all from a time on, without a limit")
		gap.Source = b.lines[0].Source
		gap.Dropped = int64(missing)
		b.lines = slices.Insert(b.lines, 0, gap)
	}
	for chunk := range slices.Chunk(b.lines, portion) {
		b.send(ctx, chunk)
	}
	b.lines = nil
	b.bytes = 0
}

func cost(l wire.LogLine) int {
	n := lineCost + len(l.Message)
	for name, value := range l.Fields {
		n += len(name) + len(value) + 32
	}
	return n
}
