package peer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/gateway/internal/httpserver/limit"
	"muster/gateway/internal/httpserver/origin"
)

// Server takes the connections that other gateways pass on, and hands each to the listener of its kind.
type Server struct {
	identity func() (Identity, error)
	copies   Copies
	log      *slog.Logger
	listener net.Listener
	passed   map[string]chan net.Conn
	proving  limit.Places // of connections that have not proven yet whose they are, by address
	again    limit.Places // the same, of addresses in known
	closing  chan struct{}
	close    sync.Once

	mu       sync.Mutex
	standing map[string]Standing // by id; guarded by mu
	taken    map[string]bool     // kinds that have a listener: this gateway is the active one; guarded by mu
	known    map[netip.Addr]bool // where a gateway called from; guarded by mu
	told     time.Time           // when the log was last told of two gateways with one id; guarded by mu
	alone    time.Time           // since when nobody stands by; zero: somebody does; guarded by mu

	rests map[string]time.Time // when a gateway took no minutes, by id; for NoteAll alone
}

// Standing is a gateway that stands by.
type Standing struct {
	ID string
	Hello
	Heard time.Time

	called time.Time // when it was last called back
	silent string    // why that failed; "": it did not
}

// Anybody can open a connection. These bound those that have not proven yet whose they are. Addresses from which a gateway has called have
// places of their own: through a gateway many nodes may come at once.
const (
	mostProving   = 256
	mostOfAddress = 8
	mostAgain     = 1024
	mostOfGateway = 256
)

// callEvery is between two calls to a gateway that stands by.
const callEvery = 30 * time.Second

// standsFor is how long a gateway counts as standing by after its last hello.
const standsFor = 3 * helloEvery

// Standing returns the standby gateways, sorted by id.
func (s *Server) Standing() []Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.standing, func(_ string, g Standing) bool { return time.Since(g.Heard) > standsFor })
	all := slices.SortedFunc(maps.Values(s.standing), func(a, b Standing) int { return strings.Compare(a.ID, b.ID) })
	for i := range all {
		all[i].Refuses = cmp.Or(all[i].Refuses, all[i].silent)
	}
	return all
}

// stands notes that a gateway stands by. It is called back now and then: as the active one it must be reached by the others.
func (s *Server) stands(id string, h Hello) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.standing[id]
	now := Standing{ID: id, Hello: h, Heard: time.Now(), called: before.called, silent: before.silent}
	if twin := before.URL != h.URL; twin && before.ID != "" {
		s.tellTwins("id", id, "at", before.URL, "and", h.URL)
		now.Refuses = "another gateway, at " + before.URL + ", has the same id"
	} else if twin || time.Since(now.called) > callEvery {
		now.called = time.Now()
		go s.call(id, h.URL)
	}
	s.standing[id] = now
}

// call looks whether a gateway is reached where it says.
func (s *Server) call(id, url string) {
	own, err := s.identity()
	if err != nil {
		return
	}
	c, err := dial(context.Background(), own, Gateway{ID: id, URL: url})
	silent := ""
	if err == nil {
		c.Close()
	} else {
		silent = fmt.Sprintf("the other gateways do not reach it at %s (%v): start it with --peer-listen HOST:PORT, as they reach it", url, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.standing[id]; ok && now.URL == url {
		now.silent = silent
		s.standing[id] = now
	}
}

// tellTwins has the log say once a minute that two gateways have one id. The caller holds the lock.
func (s *Server) tellTwins(who ...any) {
	if time.Since(s.told) > complainEvery {
		s.told = time.Now()
		s.log.Warn("two gateways have the same id: give each its own --gateway-id", who...)
	}
}

// ownID refuses a gateway with this one's id: it must not count as another one. It may be this one itself, which was the active one before
// it was started again.
func (s *Server) ownID(c *Conn) error {
	if !c.own {
		return nil
	}
	if !c.self {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tellTwins("id", c.Gateway, "from", c.Conn.RemoteAddr())
	}
	return fmt.Errorf("the gateway has this one's id %s", c.Gateway)
}

// NewServer serves other gateways on a listener, when Run runs.
func NewServer(l net.Listener, i func() (Identity, error), copies Copies, log *slog.Logger) *Server {
	s := &Server{identity: i, copies: copies, log: log, listener: l, passed: map[string]chan net.Conn{}, closing: make(chan struct{}),
		rests:    map[string]time.Time{},
		standing: map[string]Standing{}, taken: map[string]bool{}, known: map[netip.Addr]bool{}}
	for _, kind := range []string{TLS, Plain, Socket} {
		s.passed[kind] = make(chan net.Conn)
	}
	return s
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		s.close.Do(func() { close(s.closing) })
		s.listener.Close()
	})
	defer stop()
	for {
		c, err := s.listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // too many files are open, or the caller has gone
			s.log.Warn("a connection of another gateway was not accepted", "error", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		leave, err := s.enter(c)
		if err != nil {
			c.Close()
			continue
		}
		go s.take(c, leave)
	}
}

// enter takes a place for a connection that has not proven yet whose it is.
func (s *Server) enter(c net.Conn) (leave func(), err error) {
	at := site(c)
	s.mu.Lock()
	known := s.known[at]
	s.mu.Unlock()
	if known {
		return s.again.Enter(at.String(), 1, mostOfGateway, mostAgain)
	}
	return s.proving.Enter(at.String(), 1, mostOfAddress, mostProving)
}

// site is the address under which a connection counts.
func site(c net.Conn) netip.Addr {
	at, _ := origin.Resolver{}.Place(c.RemoteAddr())
	return at
}

// take proves a connection, and does what it is for.
func (s *Server) take(c net.Conn, leave func()) {
	passed, h, err := s.proven(c)
	leave()
	handed := false
	if err == nil {
		handed, err = s.serve(passed, h)
	}
	if err != nil {
		s.log.Debug("a connection of another gateway failed", "address", c.RemoteAddr(), "error", err)
	}
	if !handed {
		c.Close()
	}
}

// serve does what a connection is for. handed: somebody else closes it.
func (s *Server) serve(c *Conn, h header) (handed bool, err error) {
	if h.Kind == hello || h.Kind == keeps || h.Kind == notes {
		if err := s.ownID(c); err != nil {
			return false, err
		}
	}
	switch {
	case h.Kind == hello && h.Hello != nil:
		s.stands(c.Gateway, *h.Hello)
		return false, nil
	case h.Kind == keeps && h.Blob != nil:
		return false, s.copies.keep(c, *h.Blob)
	case h.Kind == gives && h.Blob != nil:
		return false, s.copies.give(c, *h.Blob)
	case h.Kind == notes:
		return false, c.receive(mostNotes, s.copies.Note)
	case !s.takes(h.Kind):
		return false, fmt.Errorf("nothing listens for connections of the kind %.20q: this gateway is not the active one, or is another version",
			h.Kind)
	}
	c.address = SocketAddr(c.Gateway)
	if h.Kind != Socket {
		at, err := netip.ParseAddrPort(h.Address)
		if err != nil {
			return false, fmt.Errorf("the caller's address: %w", err)
		}
		c.address = net.TCPAddrFromAddrPort(at)
	}
	select {
	case s.passed[h.Kind] <- c:
		return true, nil
	case <-s.closing:
		return false, nil
	}
}

func (s *Server) takes(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[kind]
}

func (s *Server) proven(c net.Conn) (passed *Conn, h header, err error) {
	own, err := s.identity()
	if err != nil {
		return nil, h, err
	}
	passed = &Conn{}
	secure := tls.Server(c, own.config(func(id string) error { passed.Gateway = id; return nil }))
	passed.Conn = secure
	if err := secure.SetDeadline(time.Now().Add(connectTime)); err != nil {
		return nil, h, err
	}
	if err := secure.Handshake(); err != nil {
		return nil, h, err
	}
	s.mu.Lock()
	s.known[site(c)] = true
	s.mu.Unlock()
	if h, passed.rest, err = readHeader(secure); err != nil {
		return nil, h, err
	}
	passed.own = passed.Gateway == own.ID
	passed.self = bytes.Equal(secure.ConnectionState().PeerCertificates[0].Raw, own.Certificate.Certificate[0])
	return passed, h, secure.SetDeadline(time.Time{})
}

// Joined returns a listener with the connections of own, and those of the same kind that other gateways pass on.
func (s *Server) Joined(own net.Listener, kind string) net.Listener {
	s.mu.Lock()
	s.taken[kind] = true
	s.mu.Unlock()
	j := &joined{Listener: own, passed: s.passed[kind], accepted: make(chan accepted), closed: make(chan struct{})}
	go j.accept()
	return j
}

type accepted struct {
	conn net.Conn
	err  error
}

// joined is one listener out of two.
type joined struct {
	net.Listener
	passed   <-chan net.Conn
	accepted chan accepted
	closed   chan struct{}
	close    sync.Once
}

func (j *joined) accept() {
	for {
		c, err := j.Listener.Accept()
		select {
		case j.accepted <- accepted{c, err}:
			if errors.Is(err, net.ErrClosed) {
				return
			}
		case <-j.closed:
			if err == nil {
				c.Close()
			}
			return
		}
	}
}

// Accept returns the next connection of either.
func (j *joined) Accept() (net.Conn, error) {
	select {
	case c := <-j.passed:
		return c, nil
	case one := <-j.accepted:
		return one.conn, one.err
	case <-j.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the own listener.
func (j *joined) Close() error {
	j.close.Do(func() { close(j.closed) })
	return j.Listener.Close()
}
