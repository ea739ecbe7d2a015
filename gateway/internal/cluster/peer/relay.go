package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Gateway is where another gateway is.
type Gateway struct {
	ID  string
	URL string // https://HOST:PORT of its listener for gateways
}

// Relay passes connections to the active gateway.
type Relay struct {
	Identity func() (Identity, error)
	Most     int // connections at a time of one listener
	// Place returns the address under which a caller's connections count. One address may take only a part of the places, unless many is
	// true: it carries many callers.
	Place func(net.Addr) (address netip.Addr, many bool)
	// Own answers a request for a path of this gateway's own, which is not passed on: only on listeners without TLS. nil: all requests are
	// passed on.
	Own func(path string) (status int, body string, own bool)
	// Away is the body of the answer, with the status 503, to a request that cannot be passed on. It needs Own.
	Away   string
	Logger *slog.Logger

	active atomic.Pointer[target]
}

// target is the active gateway. ctx ends when another one is.
type target struct {
	Gateway
	ctx  context.Context
	stop context.CancelFunc
}

// Follow says which gateway is the active one from now on; nil: none is known. Connections that are passed to another gateway end: they
// might hang there. It is not for concurrent use.
func (r *Relay) Follow(a *Gateway) {
	before := r.active.Load()
	if before != nil && a != nil && before.Gateway == *a {
		return
	}
	var next *target
	if a != nil {
		next = &target{Gateway: *a}
		next.ctx, next.stop = context.WithCancel(context.Background())
	}
	r.active.Store(next)
	if before != nil {
		before.stop()
	}
}

// Serve passes on what comes to a listener, until ctx ends. After that, connections that were passed on continue until one of their ends
// closes them, or Follow names another gateway. The listener stays open.
func (r *Relay) Serve(ctx context.Context, l net.Listener, kind string) error {
	with, ok := l.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return fmt.Errorf("the listener %s cannot be handed on", l.Addr())
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = with.SetDeadline(time.Unix(1, 0))
		close(woken)
	})
	defer stop()
	room := newRoom(r)
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			<-woken // else it could set its deadline after this one
			return with.SetDeadline(time.Time{})
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			r.Logger.Warn("a connection was not accepted", "error", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		leave, err := room.enter(c)
		if err != nil {
			c.Close()
			continue
		}
		go func() {
			defer leave()
			defer c.Close()
			if err := r.pass(ctx, c, kind); err != nil {
				r.Logger.Debug("a connection was not passed to the active gateway", "address", c.RemoteAddr(), "error", err)
			}
		}()
	}
}

const (
	// helloEvery is between two hellos of a gateway that stands by.
	helloEvery = 5 * time.Second
	// complainEvery is between two lines in the log that say that they do not arrive.
	complainEvery = time.Minute
)

// Tell tells the active gateway that this one stands by, again and again until ctx ends.
func (r *Relay) Tell(ctx context.Context, of func() Hello) error {
	ticker := time.NewTicker(helloEvery)
	defer ticker.Stop()
	var told time.Time
	for {
		own := of()
		err := r.say(ctx, header{Kind: hello, Hello: &own})
		if err != nil && ctx.Err() == nil && r.active.Load() != nil && time.Since(told) > complainEvery {
			told = time.Now()
			r.Logger.Warn("the active gateway cannot be reached: nodes and operators who come here are not served", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *Relay) say(ctx context.Context, h header) error {
	to, err := r.begin(ctx, r.active.Load(), h)
	if err != nil {
		return err
	}
	return to.Close()
}

// begin opens a connection to the active gateway, and writes what stands before its bytes.
func (r *Relay) begin(ctx context.Context, active *target, h header) (*tls.Conn, error) {
	if active == nil {
		return nil, errNoActive
	}
	own, err := r.Identity()
	if err != nil {
		return nil, err
	}
	return begin(ctx, own, active.Gateway, h)
}

// begin opens a connection to another gateway, and writes what stands before its bytes.
func begin(ctx context.Context, own Identity, to Gateway, h header) (*tls.Conn, error) {
	c, err := dial(ctx, own, to)
	if err != nil {
		return nil, err
	}
	if err := writeLine(c, h); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// pass passes one connection until both of its ends are done. It calls the active gateway when the caller has begun to say something.
func (r *Relay) pass(ctx context.Context, c net.Conn, kind string) error {
	talks := r.Own != nil && kind != TLS
	c, done, err := r.peek(c, talks)
	if done || err != nil {
		return err
	}
	active := r.active.Load()
	to, err := r.begin(ctx, active, header{Kind: kind, Address: c.RemoteAddr().String()})
	if err != nil && talks {
		return errors.Join(err, answerHTTP(c, http.StatusServiceUnavailable, r.Away))
	}
	if err != nil {
		return err
	}
	defer to.Close()
	defer context.AfterFunc(active.ctx, func() {
		to.Close()
		c.Close()
	})()
	var both sync.WaitGroup
	both.Go(func() { pour(to, c) })
	both.Go(func() {
		pour(c, to)
		_ = c.SetReadDeadline(time.Now().Add(lingerTime)) // a caller who says nothing more must not keep its place
	})
	both.Wait()
	return nil
}

// lingerTime is how long a caller may go on after the active gateway has said all.
const lingerTime = 10 * time.Second

// pour copies until from ends, and says so to to. If to takes no more, from is closed too.
func pour(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		from.Close()
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		return
	}
	to.Close()
}

// errNoActive says that nobody can take a connection.
var errNoActive = errors.New("no gateway is active")

func dial(ctx context.Context, own Identity, to Gateway) (*tls.Conn, error) {
	at, err := url.Parse(to.URL)
	if err != nil {
		return nil, err
	}
	config := own.config(func(id string) error {
		if id != to.ID {
			return fmt.Errorf("at %s is the gateway %s, and not %s", to.URL, id, to.ID)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return nil, err
	}
	return c.(*tls.Conn), nil
}
