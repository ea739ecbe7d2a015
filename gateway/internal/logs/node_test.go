package logs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/logs"
)

// machine is a node in this process. It has one log a source, and sends it over sessions that the test can cut.
type machine struct {
	t   *testing.T
	hub *logs.Hub

	mu       sync.Mutex
	log      map[string][]wire.LogLine
	asked    []wire.LogsParams
	sessions map[*session]bool
	open     int // sessions that are open
	most     int // of them at once
	refuse   error
	drift    time.Duration // each session tells later times than the one before
}

// session is one that is open.
type session struct {
	wire.LogsParams
	to   *io.PipeWriter
	more chan []byte
	cut  chan struct{}
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, log: map[string][]wire.LogLine{}, sessions: map[*session]bool{}}
	m.hub = logs.New(logs.Config{Open: m.Open})
	return m
}

// inBubble runs a test with a machine. In the end nothing may be left running: the bubble says so.
func inBubble(t *testing.T, do func(m *machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		do(m)
		stop, cancel := context.WithCancel(t.Context())
		cancel()
		_ = m.hub.Run(stop)
		synctest.Wait()
		if m.open != 0 {
			t.Errorf("%d sessions are left open", m.open)
		}
	})
}

// closer tells the machine that the gateway has ended a session.
type closer struct {
	io.Reader
	close func()
}

func (c closer) Close() error { c.close(); return nil }

func (m *machine) Open(_ context.Context, _ string, p wire.LogsParams) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, p)
	if m.refuse != nil {
		return nil, m.refuse
	}
	from, to := io.Pipe()
	s := &session{LogsParams: p, to: to, more: make(chan []byte, 10_000), cut: make(chan struct{})}
	m.sessions[s] = true
	m.open++
	m.most = max(m.most, m.open)
	var out bytes.Buffer
	must(m.t, pipe.WriteJSON(&out, pipe.FrameReady, pipe.Ready{}))
	for _, l := range m.log[p.Source] {
		l.Time = l.Time.Add(m.drift * time.Duration(len(m.asked)%3-1))
		if !l.Time.Before(p.Since) {
			must(m.t, pipe.WriteFrame(&out, pipe.FrameOutput, ndjson(l)))
		}
	}
	if !p.Follow {
		must(m.t, pipe.WriteJSON(&out, pipe.FrameExit, pipe.Exit{}))
	}
	go s.run(out.Bytes())
	var once sync.Once
	return closer{from, func() {
		once.Do(func() {
			from.Close()
			m.mu.Lock()
			defer m.mu.Unlock()
			m.open--
			if m.sessions[s] {
				delete(m.sessions, s)
				close(s.cut)
			}
		})
	}}, nil
}

func (s *session) run(first []byte) {
	_, err := s.to.Write(first)
	for err == nil {
		select {
		case data := <-s.more:
			_, err = s.to.Write(data)
		case <-s.cut:
			s.to.Close()
			return
		}
	}
}

// raw sends a frame to all sessions that follow a source.
func (m *machine) raw(source string, kind pipe.FrameKind, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.sessions {
		if s.Follow && s.Source == source {
			var out bytes.Buffer
			must(m.t, pipe.WriteFrame(&out, kind, data))
			s.more <- out.Bytes()
		}
	}
}

// write adds lines to a log.
func (m *machine) write(source string, lines ...wire.LogLine) {
	m.mu.Lock()
	m.log[source] = append(m.log[source], lines...)
	m.mu.Unlock()
	for _, l := range lines {
		m.raw(source, pipe.FrameOutput, ndjson(l))
	}
}

// goes cuts all sessions. With why, the machine is not reached after that.
func (m *machine) goes(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = why
	for s := range m.sessions {
		close(s.cut)
	}
	clear(m.sessions)
}

func (m *machine) comes() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = nil
}

func (m *machine) times() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.asked)
}

func ndjson(l wire.LogLine) []byte {
	raw, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	return append(raw, '\n')
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// line is the nth line of a log, a second after the one before.
func line(n int) wire.LogLine {
	return wire.LogLine{Time: begin.Add(time.Duration(n) * time.Second), Source: wire.LogAgent, Message: fmt.Sprint("line ", n)}
}

func lines(from, to int) []wire.LogLine {
	var all []wire.LogLine
	for n := from; n < to; n++ {
		all = append(all, line(n))
	}
	return all
}

var begin = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// reader is one who reads, in a goroutine of its own.
type reader struct {
	t     *testing.T
	leave context.CancelFunc
	ended chan error

	mu    sync.Mutex
	got   []wire.LogLine
	alive int
	hold  chan struct{} // while it is there and open, the reader takes nothing
}

func (m *machine) read(q logs.Query, who string) *reader {
	r := m.slow(q, who, nil)
	synctest.Wait()
	return r
}

// slow is a reader who takes nothing before hold is closed.
func (m *machine) slow(q logs.Query, who string, hold chan struct{}) *reader {
	return m.slowOf("id-n", q, who, hold)
}

// slowOf is one of a certain node.
func (m *machine) slowOf(nodeID string, q logs.Query, who string, hold chan struct{}) *reader {
	ctx, cancel := context.WithCancel(m.t.Context())
	r := &reader{t: m.t, leave: cancel, ended: make(chan error, 1), hold: hold}
	go func() { r.ended <- m.hub.Read(ctx, who, nodeID, q, r.take) }()
	return r
}

func (r *reader) take(lines []wire.LogLine) error {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		<-hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(lines) == 0 {
		r.alive++
	}
	r.got = append(r.got, lines...)
	return nil
}

// stops makes a reader take nothing more before hold is closed.
func (r *reader) stops(hold chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = hold
}

// messages are what came since the last call.
func (r *reader) messages() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, l := range r.got {
		all = append(all, l.Message)
	}
	r.got = nil
	return all
}

func (r *reader) lines() []wire.LogLine {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

// end is how the reading ended; nil if it goes on.
func (r *reader) end() (err error, over bool) {
	synctest.Wait()
	select {
	case err := <-r.ended:
		return err, true
	default:
		return nil, false
	}
}

func (r *reader) leaves() {
	r.t.Helper()
	r.leave()
	if err, over := r.end(); !over || !errors.Is(err, context.Canceled) {
		r.t.Errorf("a reader who leaves: over %v, error %v", over, err)
	}
}

// ends waits for the end of a reader who does not follow.
func (r *reader) ends() {
	r.t.Helper()
	if err, over := r.end(); !over || err != nil {
		r.t.Errorf("over %v, error %v", over, err)
	}
}

func agent() logs.Query  { return logs.Query{Sources: []string{wire.LogAgent}} }
func follow() logs.Query { return logs.Query{Sources: []string{wire.LogAgent}, Follow: true} }
