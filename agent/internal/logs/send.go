package logs

import (
	"context"
	"encoding/json"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/spool"
	"muster/agent/wire"
)

const (
	mostRead  = wire.MaxLogBatch * 3 / 4 // bytes of lines that are read for one batch
	mostPause = time.Hour                // that the gateway may ask for
	burst     = 10                       // seconds over which the rate is meant
)

// sender posts what is in the spool.
type sender struct {
	*Shipper
	box     *spool.Spool
	reader  *spool.Reader
	rate    int       // bytes a second; 0: no bound
	until   time.Time // when what was sent is within the rate again
	rest    []spool.Record
	failed  bool
	backoff transport.Backoff
}

// run sends until ctx ends.
func (s *sender) run(ctx context.Context) {
	s.reader = s.box.Untaken()
	defer func() { s.reader.Close() }()
	for ctx.Err() == nil {
		if s.send(ctx) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.box.News():
			transport.Sleep(ctx, linger)
		}
	}
}

// send posts one batch, as often as it takes. It reports false if there is nothing to send.
func (s *sender) send(ctx context.Context) bool {
	batch, size, err := s.next()
	if err != nil {
		s.failure(ctx, "log lines cannot be read from the spool", err)
		return true
	}
	if len(batch.Lines) == 0 {
		return false
	}
	s.slow(ctx, size)
	for ctx.Err() == nil {
		var taken wire.LogTaken
		err := s.Call(ctx, wire.LogsPath(s.Node), batch, &taken)
		if err == nil {
			s.failed = false
			s.backoff.Reset()
			s.taken(batch, taken.Next)
			transport.Sleep(ctx, min(time.Duration(max(taken.PauseSeconds, 0))*time.Second, mostPause))
			return true
		}
		s.failure(ctx, "log lines are not taken, trying again", err)
	}
	return true
}

// failure waits longer with each one. The first is logged: the heartbeat says by itself that a gateway is away.
func (s *sender) failure(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	if !s.failed {
		s.Logger.Warn(what, "error", err)
	}
	s.failed = true
	transport.Sleep(ctx, s.backoff.After(err))
}

// next makes a batch. Its numbers go on by one, so it ends before a gap; the line that stands for a gap has the gap's last number.
func (s *sender) next() (batch wire.LogBatch, size int, err error) {
	if len(s.rest) == 0 {
		s.rest, err = s.reader.Next(mostRead)
	}
	batch.Spool = s.box.Name()
	for len(s.rest) > 0 {
		one := s.rest[0]
		if len(batch.Lines) == 0 {
			batch.First = one.Number
		} else if one.Number != batch.First+int64(len(batch.Lines)) || one.Gap != nil {
			break
		}
		s.rest = s.rest[1:]
		size += len(one.Data)
		batch.Lines = append(batch.Lines, lineOf(one))
	}
	return batch, size, err
}

// lineOf reads a record. The spool has checked it, so what cannot be read was written by another version.
func lineOf(one spool.Record) wire.LogLine {
	if one.Gap != nil {
		return missing(one.Gap)
	}
	var l wire.LogLine
	if json.Unmarshal(one.Data, &l) != nil {
		return missing(&spool.Gap{Lost: 1, Reason: spool.ReasonDamaged})
	}
	return l
}

// taken deletes what the gateway has. What it wants again is read again.
func (s *sender) taken(batch wire.LogBatch, next int64) {
	behind := batch.First + int64(len(batch.Lines))
	next = min(max(next, batch.First), behind)
	if err := s.box.Confirm(next - 1); err != nil {
		s.Logger.Debug("log lines that the gateway has taken could not be removed: they are removed with a later batch", "error", err)
	}
	if next < behind {
		s.reader.Close()
		s.reader = s.box.Reader(next)
		s.rest = nil
	}
}

// slow waits until so many bytes more are within the rate.
func (s *sender) slow(ctx context.Context, size int) {
	if s.rate <= 0 {
		return
	}
	now := time.Now()
	if earliest := now.Add(-burst * time.Second); s.until.Before(earliest) {
		s.until = earliest
	}
	s.until = s.until.Add(time.Duration(float64(size) / float64(s.rate) * float64(time.Second)))
	transport.Sleep(ctx, s.until.Sub(now))
}
