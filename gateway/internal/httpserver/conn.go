package httpserver

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is a connection that was let in. It is counted until it is closed. Its writes end when the peer takes nothing.
type Conn struct {
	net.Conn
	limiter *Limiter
	from    *address // nil on the socket
	many    bool     // its peer carries many clients

	// Guarded by the limiter's lock.
	group *group        // nil once closed
	place *list.Element // in the group
	extra int           // requests beyond the first that count like a connection

	proven   atomic.Bool
	fresh    atomic.Bool  // something was read since the last request ended
	answered atomic.Bool  // a request ended
	shared   atomic.Bool  // it carries many requests at once (HTTP/2)
	slow     atomic.Bool  // it was counted as slow
	requests atomic.Int32 // in progress
	idle     atomic.Int64 // when the last request ended, or the connection began; by the limiter's clock
	active   atomic.Int64 // since when there is a request that no handler has; 0: there is none
	waiting  atomic.Int64 // since when a Read waits for the peer; 0: none does
	sending  atomic.Int64 // since when a Write is in progress; 0: none is
	readBy   atomic.Int64 // the reader's deadline in Unix nanoseconds

	write   sync.Mutex // guards the two below
	writeBy time.Time  // the writer's deadline; zero: none
	writing time.Time  // until when the Write in progress may wait for the peer; zero: none is in progress
}

// connKey is the key under which a request's context has its *Conn.
type connKey struct{}

// Connected puts the connection into the context of its requests, for http.Server's ConnContext.
func Connected(ctx context.Context, c net.Conn) context.Context {
	if own := of(c); own != nil {
		return context.WithValue(ctx, connKey{}, own)
	}
	return ctx
}

// of finds the limiter's connection below TLS, nil if there is none.
func of(c net.Conn) *Conn {
	if below, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = below.NetConn()
	}
	own, _ := c.(*Conn)
	return own
}

// connOf gives the connection of a request; nil if the request came through no limiter.
func connOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}

// Prove says that a request on this connection has proven who sent it: the id of a node, or of an account.
func Prove(ctx context.Context, owner string) {
	if c := connOf(ctx); c != nil && !c.proven.Load() {
		c.limiter.prove(c, owner)
	}
}

// State follows the states of a connection, for http.Server's ConnState.
func State(c net.Conn, state http.ConnState) {
	own := of(c)
	switch {
	case own == nil:
	case state == http.StateActive:
		own.active.Store(own.limiter.now())
	case state == http.StateIdle:
		own.active.Store(0)
		own.idle.Store(own.limiter.now())
		own.answered.Store(true)
		own.fresh.Store(false)
	}
}

// idles tells whether the connection has waited for its peer for longer than Grace: either until the peer takes what is written, or
// until it sends, while nothing that it sent waits to be read here.
func (c *Conn) idles(now int64) bool {
	return c.late(&c.sending, now) || c.late(&c.waiting, now) && c.drained()
}

func (c *Conn) late(since *atomic.Int64, now int64) bool {
	began := since.Load()
	return began != 0 && now-began > int64(c.limiter.limits.Grace)
}

// stuck tells whether a request has been without a handler for longer than a body may take, before the handler began or after it
// ended. net/http answers some requests by itself and reads their bodies without a deadline. HTTP/2 ends its streams by itself.
func (c *Conn) stuck(now int64) bool {
	since := c.active.Load()
	return since != 0 && c.requests.Load() == 0 && now-since > int64(c.limiter.limits.Body) && c.sending.Load() == 0 && !c.shared.Load()
}

// quiet tells whether a connection from the network, without a proof, has had no request for too long.
func (c *Conn) quiet(now int64) bool {
	return c.from != nil && !c.many && !c.proven.Load() && c.requests.Load() == 0 && now-c.idle.Load() > int64(c.limiter.limits.Quiet)
}

// rests tells whether the connection is between two requests.
func (c *Conn) rests() bool { return c.answered.Load() && !c.fresh.Load() && c.drained() }

func (c *Conn) drained() bool {
	waits, known := unread(c.Conn)
	return !known || waits == 0
}

// Read notes since when it waits, and counts a peer that was too late.
func (c *Conn) Read(p []byte) (int, error) {
	watched := !c.proven.Load()
	if watched {
		c.waiting.Store(c.limiter.now())
	}
	n, err := c.Conn.Read(p)
	if watched {
		c.waiting.Store(0)
	}
	if n > 0 && !c.fresh.Load() {
		c.fresh.Store(true)
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && c.missed() && !c.slow.Swap(true) {
		c.limiter.cuts[slowRequest].Add(1)
	}
	return n, err
}

// missed tells whether the peer missed a deadline in the middle of a request. Between requests, a deadline that passes is the end of
// an idle connection. A deadline far in the past is how net/http interrupts its own reading.
func (c *Conn) missed() bool {
	const long = time.Minute
	return (c.fresh.Load() || !c.answered.Load()) && time.Since(time.Unix(0, c.readBy.Load())) < long
}

// SetReadDeadline sets the time by which the peer must have sent.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.readBy.Store(t.UnixNano())
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetWriteDeadline sets the time by which a write must end. It can end before, if the peer makes no progress.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.write.Lock()
	defer c.write.Unlock()
	c.writeBy = t
	if c.writing.IsZero() {
		return nil
	}
	return c.Conn.SetWriteDeadline(earlier(t, c.writing))
}

// Write goes on as long as the peer takes Least bytes in each Stall. When it does not, Write ends the connection. Bytes that only the
// kernel took are no progress: they count when the peer has them.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.send(func(done int64) (int64, error) {
		m, err := c.Conn.Write(p[done:])
		return int64(m), err
	})
	return int(n), err
}

// send takes steps until one of them ends otherwise than by the deadline of Stall. A step gets how many bytes are sent, and says how many
// it sent.
func (c *Conn) send(step func(done int64) (int64, error)) (n int64, err error) {
	c.sending.Store(c.limiter.now())
	defer c.wrote()
	queued := 0
	known := false
	for {
		if err := c.waitUntil(time.Now().Add(c.limiter.limits.Stall)); err != nil {
			return n, err
		}
		m, err := step(n)
		n += m
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if c.overdue() {
			c.cut(notRead)
			return n, err
		}
		left, told := unsent(c.Conn)
		if known && int(m)+queued-left < c.limiter.least(queued) || !told && int(m) < c.limiter.limits.Least {
			c.cut(notRead)
			return n, err
		}
		queued = left
		known = told
	}
}

// least is how many of the queued bytes a peer must take in each Stall: an eighth, so that eight of them are enough for all. So the
// kernel keeps many bytes only for a peer that takes many.
func (d *Limiter) least(queued int) int { return max(d.limits.Least, queued/8) }

// waitUntil sets until when the Write in progress may wait.
func (c *Conn) waitUntil(until time.Time) error {
	c.write.Lock()
	defer c.write.Unlock()
	c.writing = until
	return c.Conn.SetWriteDeadline(earlier(c.writeBy, until))
}

func (c *Conn) wrote() {
	c.sending.Store(0)
	c.write.Lock()
	defer c.write.Unlock()
	c.writing = time.Time{}
}

// overdue tells whether the writer's own deadline has passed.
func (c *Conn) overdue() bool {
	c.write.Lock()
	defer c.write.Unlock()
	return !c.writeBy.IsZero() && !time.Now().Before(c.writeBy)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Close ends the connection, which is not counted any more.
func (c *Conn) Close() error {
	c.limiter.forget(c)
	return c.Conn.Close()
}

// cut closes a connection, counts the reason, and drops what waits to be sent. On nil it does nothing.
func (c *Conn) cut(why reason) {
	if c == nil {
		return
	}
	c.limiter.cuts[why].Add(1)
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // best effort: closed it is in any case
	}
	_ = c.Close() // nobody is left to tell
}
