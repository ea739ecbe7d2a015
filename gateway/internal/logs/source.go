package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"muster/agent/wire"
)

const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
	steady       = 30 * time.Second // a session that lived so long was a good one
	patience     = 5 * time.Second  // after which the reader is told that the node is away
)

// source is one log that a reader reads. First it is read as far as it goes, and then it is followed, from its last line on. A node that
// goes away is asked again so, too.
type source struct {
	*reader
	name  string
	heard tail

	in    *intake
	lines []wire.LogLine // of what was there, that are next
	over  bool           // the session of what was there has ended

	found func() (told bool) // ends that the node is away, of which the reader was told or not; nil: the node is there
}

// open begins a session. What waits for the node ends with ctx.
func (s *source) open(ctx context.Context, follow bool) (end func(), err error) {
	longest := int(wire.MaxSession / time.Second) // a log may be quiet for hours, and a reader slow
	from, err := s.hub.Open(ctx, s.node, wire.LogsParams{Source: s.name, Since: s.heard.from(), Follow: follow,
		SessionBounds: wire.SessionBounds{IdleSeconds: longest, LimitSeconds: longest}})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { from.Close() })
	s.in = newIntake(from, s.name, s.hub.Now)
	return func() { stop(); from.Close() }, nil
}

// begin waits until the node sends what is there, or does not.
func (s *source) begin(ctx context.Context) error {
	lines, err := s.in.next(ctx)
	s.lines = s.heard.fresh(lines)
	s.over = err != nil
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// fill waits for further lines. If the session breaks off, following fetches the rest, or else a line says so.
func (s *source) fill(ctx context.Context) {
	for len(s.lines) == 0 && !s.over {
		if err := s.begin(ctx); err != nil && !s.query.Follow {
			s.lines = []wire.LogLine{notice(s.hub.Now(), "error", s.name+": the rest of the log is missing: "+plain(err))}
		}
	}
}

// follow follows until the log ends, or until the node's last word.
func (s *source) follow(ctx context.Context) {
	pause := firstPause
	for {
		began := s.hub.Now()
		err := s.session(ctx)
		if ctx.Err() != nil || errors.Is(err, io.EOF) || final(err) {
			s.end(ctx, err)
			return
		}
		if s.hub.Now().Sub(began) >= steady {
			pause = firstPause
		}
		s.lose(ctx, err)
		Wait(ctx, pause/2+rand.N(pause/2))
		pause = min(2*pause, longestPause)
	}
}

// final tells whether asking the node again is of no use.
func final(err error) bool {
	var said *wire.ErrorDetail
	return errors.As(err, &said) && slices.Contains([]string{wire.CodeNotFound, wire.CodeRetired, wire.CodeBanned, wire.CodeTaskForbidden,
		wire.CodeTaskParamsInvalid, wire.CodeTaskTypeUnknown, wire.CodeBadRequest}, said.Code)
}

// session hands on the lines of one session. While the caller takes none, none is read.
func (s *source) session(ctx context.Context) error {
	s.heard.expect()
	end, err := s.open(ctx, true)
	if err != nil {
		return err
	}
	defer end()
	for {
		lines, err := s.in.next(ctx)
		if err != nil {
			return err
		}
		s.back(ctx)
		lines = slices.DeleteFunc(s.heard.fresh(lines), func(l wire.LogLine) bool { return !s.wants(l) })
		if len(lines) > 0 && !s.send(ctx, lines) {
			return context.Cause(ctx)
		}
	}
}

// lose has the reader told that the node is away, unless it is back soon: a session also ends because it has lasted for long.
func (s *source) lose(ctx context.Context, why error) {
	if s.found != nil {
		return
	}
	told := make(chan struct{})
	late := time.AfterFunc(patience, func() {
		defer close(told)
		s.say(ctx, "warn", fmt.Sprintf("%s: %s; this goes on when the node is back", s.name, plain(why)))
	})
	s.found = func() bool {
		if late.Stop() {
			return false
		}
		<-told
		return true
	}
}

// back tells a reader who was told that the node is away.
func (s *source) back(ctx context.Context) {
	if s.found != nil && s.found() {
		s.say(ctx, "info", s.name+": the node is heard again")
	}
	s.found = nil
}

// end says in a line why a log ends.
func (s *source) end(ctx context.Context, why error) {
	if s.found != nil {
		s.found()
	}
	switch {
	case ctx.Err() != nil: // the reader's end says it
	case errors.Is(why, io.EOF):
		s.say(ctx, "info", s.name+": the log has ended")
	default:
		s.say(ctx, "error", s.name+": the log ends here: "+plain(why))
	}
}

func (s *source) say(ctx context.Context, level, message string) {
	s.send(ctx, []wire.LogLine{notice(s.hub.Now(), level, message)})
}

// notice is a line that the gateway says of a log, and no line of the log.
func notice(now time.Time, level, message string) wire.LogLine {
	at := now.UTC()
	return wire.LogLine{Time: at, Received: &at, Source: wire.LogGateway, Level: level, Message: message}
}

// plain is an error as a person reads it.
func plain(err error) string {
	if said, is := errors.AsType[*wire.ErrorDetail](err); is {
		return said.Message
	}
	return err.Error()
}
