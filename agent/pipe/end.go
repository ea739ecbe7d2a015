package pipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muster/agent/wire"
)

// End is one end of a channel, for the operator or for the node. Read and Write may be called at the same time, each by one goroutine.
//
// What is written goes out at once. While a piece is on its way, what is written meanwhile is gathered for the next one. A connection that
// breaks is bridged for wire.SessionBridge. After that Read and Write fail. An end that is not needed any more must be closed, or its
// context canceled: until then it tells the gateway now and then that it is there.
type End struct {
	// Trouble is called with an error on the way, and with nil when the way is good again. It is set before the first use, and is safe for
	// concurrent use. Nil: nobody is told.
	Trouble func(error)

	// Most returns how many bytes a piece may have now, wire.MaxPiece at most. It is set before the first use. Nil: wire.MaxPiece.
	Most func() int

	carrier Carrier
	channel int
	life    context.Context
	cut     context.CancelCauseFunc
	pulse   *time.Timer  // of the channel Main
	calls   atomic.Int32 // that are under way
	heard   atomic.Int64 // when the last one ended, in Unix nanoseconds

	// of Read
	got    []byte
	memory []byte // of got, for a later piece; nil: little comes
	from   int64
	coming chan fetched // the piece behind got, which is on its way already; nil: it is not
	end    bool         // nothing follows what was fetched
	last   error        // why nothing more comes; nil: something may

	mu      sync.Mutex // guards all below
	pending []byte     // what waits, behind a byte for the mark, MaxBody at most; empty: nothing waits
	spare   []byte     // the memory of the piece before, for the next one
	out     int64      // bytes that the gateway has taken
	ending  bool       // CloseWrite was called
	ended   bool       // and the gateway knows
	failed  error      // why nothing can be sent any more
	sending bool       // a goroutine sends
	news    chan struct{}
}

// pulseTime is how long an end is silent at most.
const pulseTime = wire.SessionBridge / 2

// leastWait is the least time between two calls that move nothing.
const leastWait = time.Second

// ErrLost is wrapped by the error of an end that could not reach the gateway for wire.SessionBridge.
var ErrLost = errors.New("the connection of the session was lost")

// Open makes the end of a channel. When ctx is done, Read and Write return its cause.
func Open(ctx context.Context, carrier Carrier, channel int) *End {
	e := &End{carrier: carrier, channel: channel, news: make(chan struct{})}
	e.life, e.cut = context.WithCancelCause(ctx)
	if channel == Main {
		e.heard.Store(time.Now().UnixNano())
		e.mu.Lock() // beat waits until the timer has its place
		defer e.mu.Unlock()
		e.pulse = time.AfterFunc(pulseTime, e.beat)
	}
	return e
}

// Done returns a channel that is closed when nothing moves any more, even if something waits: Close was called, ctx is done, or the gateway
// has ended the session while nobody read or wrote. Cause says why.
func (e *End) Done() <-chan struct{} { return e.life.Done() }

// Cause returns why Done is closed, nil if it is not.
func (e *End) Cause() error { return context.Cause(e.life) }

// beat tells the gateway that this end is there, while nobody reads or writes: a program may take no input for long, and a terminal may be
// held. It does so on the channel Main alone.
func (e *End) beat() {
	if e.life.Err() != nil {
		return
	}
	quiet := time.Since(time.Unix(0, e.heard.Load()))
	if e.calls.Load() > 0 {
		quiet = 0
	}
	if quiet >= pulseTime {
		quiet = 0
		err := e.bridge(func() error {
			e.mu.Lock()
			at := e.out
			e.mu.Unlock()
			_, err := e.carrier.Send(e.life, e.channel, at, Piece{}) // nothing follows what is there: it is known already
			return err
		})
		if err != nil {
			e.cut(err)
			return
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pulse.Reset(pulseTime - quiet)
}

// Read returns what the other end has written, and io.EOF after its last byte.
func (e *End) Read(p []byte) (int, error) {
	for len(e.got) == 0 {
		if e.last != nil {
			return 0, e.last
		}
		e.last = e.fetch()
	}
	n := copy(p, e.got)
	e.got = e.got[n:]
	return n, nil
}

// fetch gets the next piece. The error is io.EOF if none follows.
func (e *End) fetch() error {
	if e.end { // the gateway keeps the last bytes until it is asked for what follows; whatever it answers, they are here
		_, _ = e.carrier.Fetch(e.life, e.channel, e.from, nil)
		return io.EOF
	}
	began := time.Now()
	free := e.memory
	e.memory = nil
	if e.coming == nil {
		e.coming = e.ask(nil)
	}
	piece := <-e.coming
	e.coming = nil
	if piece.err != nil {
		return piece.err
	}
	e.got = piece.Data
	e.from += int64(len(piece.Data))
	e.end = piece.End
	switch {
	case len(piece.Data) > wire.MaxPiece/2 && !piece.End:
		e.coming = e.ask(free) // much comes: the next piece can be on its way while this one is read
		e.memory = piece.body
	case len(piece.Data) > 0:
	case piece.End:
		return io.EOF
	default:
		e.rest(began)
	}
	return nil
}

// fetched is what comes of a call.
type fetched struct {
	Piece
	err error
}

// ask fetches the piece behind all that was fetched.
func (e *End) ask(memory []byte) chan fetched {
	at := e.from
	answer := make(chan fetched, 1)
	go func() {
		var f fetched
		f.err = e.bridge(func() error {
			var err error
			f.Piece, err = e.carrier.Fetch(e.life, e.channel, at, memory)
			return err
		})
		answer <- f
	}()
	return answer
}

// Write hands bytes over to be sent. It waits while a whole piece waits already.
func (e *End) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, news, err := e.gather(p[written:])
		written += n
		if err != nil {
			return written, err
		}
		if n > 0 {
			continue
		}
		select {
		case <-news:
		case <-e.life.Done():
			return written, context.Cause(e.life)
		}
	}
	return written, nil
}

func (e *End) gather(p []byte) (int, <-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.failed != nil:
		return 0, nil, e.failed
	case e.ending:
		return 0, nil, io.ErrClosedPipe
	case e.life.Err() != nil:
		return 0, nil, context.Cause(e.life)
	}
	if len(e.pending) == 0 {
		e.pending = append(e.pending, markMore)
	}
	most := wire.MaxPiece
	if e.Most != nil {
		most = e.Most()
	}
	n := min(len(p), max(1+most-len(e.pending), 0))
	e.pending = append(e.pending, p[:n]...)
	e.start()
	return n, e.news, nil
}

// CloseWrite says that nothing more follows, and waits until the gateway has everything.
func (e *End) CloseWrite() error {
	e.mu.Lock()
	e.ending = true
	e.start()
	e.mu.Unlock()
	for {
		e.mu.Lock()
		news := e.news
		done := !e.sending
		err := e.failed
		e.mu.Unlock()
		if done {
			return err
		}
		select {
		case <-news:
		case <-e.life.Done():
			return context.Cause(e.life)
		}
	}
}

// Close ends this end at once, whatever is on its way.
func (e *End) Close() error {
	e.cut(io.ErrClosedPipe)
	return nil
}

// start begins to send, unless that is under way. The lock is held.
func (e *End) start() {
	if !e.sending && e.failed == nil {
		e.sending = true
		go e.send()
	}
}

// send sends until nothing is left.
func (e *End) send() {
	for {
		piece, at, more := e.next()
		if !more {
			return
		}
		next, err := e.put(at, piece)
		e.took(next, piece, err)
		if err != nil {
			return
		}
	}
}

// next takes all that waits. Without more, the goroutine is the sender no longer.
func (e *End) next() (p Piece, at int64, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.pending) == 0 && (!e.ending || e.ended) {
		e.sending = false
		e.pending, e.spare = nil, nil // an idle session keeps no memory
		e.ring()
		return Piece{}, 0, false
	}
	p = Piece{End: e.ending}
	if len(e.pending) > 0 {
		p = NewPiece(e.pending, e.ending)
	}
	e.pending = e.spare[:0]
	e.ring()
	return p, e.out, true
}

// took notes what became of a piece. No Carrier reads it any more, so its memory is free.
func (e *End) took(next int64, p Piece, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.out = next
	e.ended = p.End && err == nil
	e.spare = p.body
	if err != nil {
		e.failed = err
		e.sending = false
		e.ring()
	}
}

// put sends a piece until the gateway has taken all of it.
func (e *End) put(at int64, p Piece) (int64, error) {
	for {
		began := time.Now()
		next := at
		err := e.bridge(func() error {
			var err error
			next, err = e.carrier.Send(e.life, e.channel, at, p)
			return err
		})
		if err != nil {
			return at, err
		}
		gone := next - at
		if gone < 0 || gone > int64(len(p.Data)) {
			return at, fmt.Errorf("the gateway says that it has %d bytes, and %d were sent", next, at+int64(len(p.Data)))
		}
		at = next
		p = p.After(gone)
		if len(p.Data) == 0 {
			return at, nil
		}
		if gone == 0 {
			e.rest(began)
		}
	}
}

// rest waits a little where a call moved nothing and came back at once. The gateway waits by itself; something else on the way may not.
func (e *End) rest(began time.Time) { e.pause(leastWait - time.Since(began)) }

// pause waits, but not beyond the end's own life.
func (e *End) pause(long time.Duration) {
	if long <= 0 {
		return
	}
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.life.Done():
	}
}

// bridge repeats a call while only the way is in trouble.
func (e *End) bridge(call func() error) error {
	e.calls.Add(1)
	defer func() {
		e.heard.Store(time.Now().UnixNano())
		e.calls.Add(-1)
	}()
	var since time.Time
	pause := 50 * time.Millisecond
	for {
		if e.life.Err() != nil {
			return context.Cause(e.life)
		}
		err := call()
		switch {
		case err == nil:
			if !since.IsZero() {
				e.tell(nil)
			}
			return nil
		case e.life.Err() != nil:
			return context.Cause(e.life)
		case final(err):
			return err
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > wire.SessionBridge:
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		e.tell(err)
		pause = min(2*pause, 3*time.Second)
		e.pause(pause/2 + rand.N(pause/2))
	}
}

func (e *End) tell(err error) {
	if e.Trouble != nil {
		e.Trouble(err)
	}
}

// final tells whether an error is the gateway's last word.
func final(err error) bool {
	var said *wire.ErrorDetail
	if !errors.As(err, &said) {
		return false
	}
	later := []string{wire.CodeInternal, wire.CodeUnavailable, wire.CodeTooManyRequests, wire.CodeSlowBody}
	return !slices.Contains(later, said.Code)
}

// ring wakes everybody who waits. The lock is held.
func (e *End) ring() {
	close(e.news)
	e.news = make(chan struct{})
}
