package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"muster/agent/wire"
)

const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
	steady       = 30 * time.Second // a session that lived so long was a good one
	kernelSlack  = time.Second      // a kernel counts from its start: what time that is, a node says a bit differently each time
	patience     = 5 * time.Second  // after which the readers are told that the node is away
)

// stream follows one source of one node for all who read it. First it reads what is there. Then it follows. A node that goes away is
// asked again from the time of its last line on, and the lines that are known are left out.
type stream struct {
	hub          *Hub
	node, source string
	since        time.Time
	life         context.Context
	cancel       context.CancelCauseFunc
	readers      int // guarded by the hub's lock

	mu    sync.Mutex
	ring  ring
	ready bool        // what was there is read
	over  error       // why nothing comes any more; io.EOF: the log has ended; nil: it goes on
	away  bool        // the readers were told that the node is away
	late  *time.Timer // tells them; nil: the node is there
	news  chan struct{}
}

func newStream(h *Hub, nodeID, source string, since time.Time) *stream {
	s := &stream{hub: h, node: nodeID, source: source, since: since, ring: ring{most: ringBytes}, news: make(chan struct{})}
	s.life, s.cancel = context.WithCancelCause(h.life)
	return s
}

// covers tells whether the stream has, or will have, what a reader asks for.
func (s *stream) covers(since time.Time, q Query) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over != nil || s.life.Err() != nil:
		return false
	case q.Since.IsZero() && q.Limit > 0 && s.ready && len(s.ring.lines) >= q.Limit:
		return true // the last lines, of whatever time, are all here
	case !s.ring.gone.IsZero():
		return since.After(s.ring.gone)
	}
	return !since.Before(s.since)
}

func (s *stream) bound(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.most = bytes
	s.ring.trim()
}

func (s *stream) run() {
	err := s.session(false, s.since, known{})
	if errors.Is(err, io.EOF) {
		s.isReady()
		err = s.goOn()
	}
	s.end(err)
	s.hub.drop(s, true)
}

// goOn follows until the log ends, or until the node's or the gateway's last word.
func (s *stream) goOn() error {
	pause := firstPause
	for {
		since, k := s.known()
		began := s.hub.Now()
		err := s.session(true, since, k)
		if s.life.Err() != nil || errors.Is(err, io.EOF) || final(err) {
			return err
		}
		if s.hub.Now().Sub(began) >= steady {
			pause = firstPause
		}
		s.lose(err)
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-s.life.Done():
			timer.Stop()
		}
		pause = min(2*pause, longestPause)
	}
}

// final tells whether asking the node again is of no use.
func final(err error) bool {
	var said *wire.ErrorDetail
	if !errors.As(err, &said) {
		return false
	}
	switch said.Code {
	case wire.CodeNotFound, wire.CodeRetired, wire.CodeBanned, wire.CodeTaskForbidden, wire.CodeTaskParamsInvalid, wire.CodeTaskTypeUnknown,
		wire.CodeBadRequest:
		return true
	}
	return false
}

// session reads one session of the node into the ring, without waiting for any reader.
func (s *stream) session(follow bool, since time.Time, k known) error {
	params := wire.LogsParams{Source: s.source, Since: since, Follow: follow}
	if follow {
		params.SessionBounds = lasting()
	}
	from, err := s.hub.Open(s.life, s.node, params)
	if err != nil {
		return err
	}
	defer from.Close()
	defer context.AfterFunc(s.life, func() { from.Close() })() // a read that waits ends
	in := newIntake(from, s.source, s.hub.Now)
	in.begun = s.isBack
	for {
		lines, err := in.next(s.life)
		if err != nil {
			return err
		}
		s.add(k.fresh(lines))
	}
}

// lasting are bounds that a log which is quiet for hours does not reach.
func lasting() wire.SessionBounds {
	longest := int(wire.MaxSession / time.Second)
	return wire.SessionBounds{IdleSeconds: longest, LimitSeconds: longest}
}

// known is from when on the node is asked again, and which lines of that are known.
func (s *stream) known() (time.Time, known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, any := s.ring.last()
	if !any {
		since = s.since
	}
	slack := time.Duration(0)
	if s.source == wire.LogKernel {
		slack = kernelSlack
	}
	since = since.Add(-slack)
	return since, s.ring.known(since, slack)
}

func (s *stream) add(lines []wire.LogLine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.add(lines)
	s.ringBell()
}

func (s *stream) isReady() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
	s.ringBell()
}

func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = err
	if s.late != nil {
		s.late.Stop()
	}
	s.ringBell()
}

// lose has the readers told that the node is away, unless it is back soon: a session also ends because it has lasted for long.
func (s *stream) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late == nil {
		s.late = time.AfterFunc(patience, func() { s.tellAway(err) })
	}
}

func (s *stream) tellAway(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late != nil && s.over == nil {
		s.away = true
		s.say("warn", fmt.Sprintf("%s: %s; this goes on when the node is back", s.source, plain(err)))
	}
}

// isBack tells those who were told that the node is away.
func (s *stream) isBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late != nil {
		s.late.Stop()
		s.late = nil
	}
	if s.away {
		s.away = false
		s.say("info", s.source+": the node is heard again")
	}
}

// say adds a line of the gateway. The lock is held.
func (s *stream) say(level, message string) {
	s.ring.add([]wire.LogLine{notice(s.hub.Now(), level, message)})
	s.ringBell()
}

// notice is a line that the gateway says of a log, and no line of the log.
func notice(now time.Time, level, message string) wire.LogLine {
	at := now.UTC()
	return wire.LogLine{Time: at, Received: &at, Source: wire.LogGateway, Level: level, Message: message}
}

// plain is an error as a person reads it.
func plain(err error) string {
	var said *wire.ErrorDetail
	if errors.As(err, &said) {
		return said.Message
	}
	return err.Error()
}

// view is what a stream has for a reader.
type view struct {
	lines []wire.LogLine
	next  place // where the reader goes on
	ready bool
	over  error
	news  <-chan struct{}
}

// from gives lines from a place on. One line says how many are gone.
func (s *stream) from(at place, most int) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := view{next: at, ready: s.ready, over: s.over, news: s.news}
	if begin := s.ring.begin(); at.number < begin.number {
		if missing := begin.lines - at.lines; missing > 0 {
			now := s.hub.Now().UTC()
			v.lines = append(v.lines, wire.LogLine{Time: now, Received: &now, Source: s.source, Level: "warn", Dropped: missing,
				Message: "these lines came faster than this reader took them"})
		}
		v.next = begin
	}
	held := s.ring.lines[v.next.number-s.ring.first:]
	held = held[:min(len(held), most)]
	v.lines = append(v.lines, held...)
	v.next = v.next.behind(held)
	return v
}

// backlog gives what is there for a reader who comes, and how many lines of the time that it asks for are not here any more.
func (s *stream) backlog(since time.Time) (lines []wire.LogLine, missing int64, next place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !since.After(s.ring.gone) {
		missing = s.ring.lost
	}
	return slices.Clone(s.ring.lines), missing, s.ring.begin().behind(s.ring.lines)
}

// ringBell wakes everybody who waits. The lock is held.
func (s *stream) ringBell() {
	close(s.news)
	s.news = make(chan struct{})
}
