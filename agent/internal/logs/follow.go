package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/transport"
	"muster/agent/spool"
	"muster/agent/wire"
)

// Reasons why lines did not get into the spool.
const (
	reasonDisk  = "the disk took nothing"
	mostEncoded = wire.MaxLogBatch - 4<<10 // bytes of one line as JSON, so that a batch can hold it
)

// follow keeps a source's lines until ctx ends. A source that cannot be read is tried again, ever more slowly. What the owner allows is
// asked again soon: that takes little.
func (s *Shipper) follow(ctx context.Context, source string, box *spool.Spool, places *places) {
	told := ""
	for pause := leastNo; ctx.Err() == nil; pause = min(2*pause, mostNo) {
		began := time.Now()
		err := s.May()
		if err == nil {
			err = s.read(ctx, source, box, places)
		}
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != told {
			told = text
			s.Logger.Warn("a log cannot be followed for shipping, trying again", "source", source, "error", err)
		}
		s.hold(source, err)
		if s.May() != nil || time.Since(began) > mostNo {
			pause = leastNo
		}
		transport.Sleep(ctx, pause)
	}
}

// read keeps a source's lines until it fails, ctx ends, or the owner does not allow it any more.
func (s *Shipper) read(ctx context.Context, source string, box *spool.Spool, places *places) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() { stop(s.forbidden(ctx)) }()
	well := time.AfterFunc(leastNo, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() == nil { // else it has failed by now
			delete(s.held, source)
		}
	})
	defer well.Stop()
	err := s.Follow(ctx, source, places.of(source), func(line wire.LogLine, position string) error {
		keep(box, line)
		places.note(source, Place{line.Time, position})
		return context.Cause(ctx)
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err == nil {
		err = errors.New("it ended by itself")
	}
	return err
}

// forbidden waits until the owner allows no shipping, or until ctx ends.
func (s *Shipper) forbidden(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.May(); err != nil {
			return err
		}
		transport.Sleep(ctx, asking)
	}
	return context.Cause(ctx)
}

// hold notes why a source is not followed.
func (s *Shipper) hold(source string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, source)
	if len(s.held) < wire.MaxUnshipped {
		s.held[source] = wire.OneLine(why.Error(), wire.MaxUnshippedWhy)
	}
}

// release notes that no source is to be followed.
func (s *Shipper) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.held)
}

// Unshipped returns the sources that the gateway wants and the agent does not follow, with the reasons; nil: there are none.
func (s *Shipper) Unshipped() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) == 0 {
		return nil
	}
	return maps.Clone(s.held)
}

// keep puts a line into the spool, or counts it there as lost.
func keep(box *spool.Spool, line wire.LogLine) {
	text, err := encode(line)
	if err == nil {
		_, err = box.Append(text)
	}
	if err == nil {
		return
	}
	reason := reasonDisk
	if !disk.TakesNothing(err) {
		reason = "the spool could not be written"
	}
	box.Lose(1, reason)
}

// encode cuts a line until its JSON fits into a batch. Bytes that need escapes make it up to six times as long.
func encode(line wire.LogLine) ([]byte, error) {
	for {
		text, err := json.Marshal(line)
		if err != nil || len(text) <= mostEncoded {
			return text, err
		}
		if len(line.Message) < 1<<10 {
			line.Fields = nil
		}
		half := len(line.Message) / 2
		line.Cut += len(line.Message) - half
		line.Message = line.Message[:half]
	}
}

// missing is the line that stands for a gap.
func missing(g *spool.Gap) wire.LogLine {
	return wire.LogLine{Time: time.Now().UTC(), Source: wire.LogAgent, Level: "warn", Dropped: g.Lost,
		Message: fmt.Sprintf("%d lines of this node's logs are missing here: %s", g.Lost, g.Reason)}
}
