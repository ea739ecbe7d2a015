package httpserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/httpserver"
)

// small are limits that a test reaches with a few connections.
func small() httpserver.Limits {
	return httpserver.Limits{Network: 12, Unproven: 8, PerAddress: 4, PerOwner: 6, Local: 2, Grace: time.Second, Quiet: time.Minute,
		Body: time.Second, Stall: time.Second, Least: 1 << 10}
}

// street is a listener whose peers have the addresses that a test gives them.
type street struct {
	t       *testing.T
	limiter *httpserver.Limiter
	in      []any // what Accept gives next: a net.Conn, or an error
	inner   net.Listener
}

func (s *street) Accept() (net.Conn, error) {
	if len(s.in) == 0 {
		return nil, net.ErrClosed
	}
	next := s.in[0]
	s.in = s.in[1:]
	if err, ok := next.(error); ok {
		return nil, err
	}
	return next.(net.Conn), nil
}
func (s *street) Close() error   { return nil }
func (s *street) Addr() net.Addr { return &net.TCPAddr{} }

// place takes 10.0.0.0/8 for proxies.
func place(peer net.Addr) (netip.Addr, bool) {
	at := netip.MustParseAddrPort(peer.String()).Addr()
	return at, strings.HasPrefix(at.String(), "10.")
}

func newStreet(t *testing.T, limits httpserver.Limits) *street {
	s := &street{t: t, limiter: httpserver.New(httpserver.Config{Limits: limits, Place: place})}
	s.inner = s.limiter.Network(s)
	return s
}

// end is one end of a connection, whose peer has an address of its own.
type end struct {
	net.Conn
	peer string
}

func (e end) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(e.peer)) }

// visit is one connection as both sides have it.
type visit struct {
	far  net.Conn
	near net.Conn        // nil: not let in
	ctx  context.Context // of requests on it
	over chan struct{}   // closed when the near side can read no more
}

// come makes a peer connect. Its connection is read from, as a server does.
func (s *street) come(from string) *visit {
	s.t.Helper()
	near, far := net.Pipe()
	v := &visit{far: far, over: make(chan struct{})}
	s.in = []any{end{near, from + ":1"}}
	c, err := s.inner.Accept()
	if err != nil {
		close(v.over)
		return v
	}
	v.near = c
	v.ctx = httpserver.Connected(s.t.Context(), c)
	s.t.Cleanup(func() { c.Close(); far.Close() })
	go func() {
		defer close(v.over)
		_, _ = io.Copy(io.Discard, c)
	}()
	synctest.Wait()
	return v
}

func (v *visit) open() bool {
	synctest.Wait()
	select {
	case <-v.over:
		return false
	default:
		return true
	}
}

// which are the visits that are open, by their place in the list.
func which(visits []*visit) string {
	var open []string
	for i, v := range visits {
		if v.open() {
			open = append(open, fmt.Sprint(i))
		}
	}
	return strings.Join(open, " ")
}

// TestWhoGivesWay plays arrivals: an address with "+" proves itself at once, "~" lets two seconds pass.
func TestWhoGivesWay(t *testing.T) {
	for _, c := range []struct {
		name, arrivals, open string
	}{
		{"all have room", "1.1.1.1 1.1.1.1 1.1.1.2", "0 1 2"},
		{"an address holds its share, a newcomer's equals keep their place at first", "1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1", "0 1 2 3"},
		{"then the oldest gives way", "1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 ~ 1.1.1.1 1.1.1.1", "2 3 4 5"},
		{"what is proven is no part of the share", "1.1.1.1+ 1.1.1.1+ 1.1.1.1+ 1.1.1.1+ 1.1.1.1+ 1.1.1.1 1.1.1.1", "0 1 2 3 4 5 6"},
		{"an address with many gives way to one with few, at once", "1.1.1.1 1.1.1.1 1.1.1.1 2.2.2.2 2.2.2.2 3.3.3.3 3.3.3.3 4.4.4.4 5.5.5.5",
			"1 2 3 4 5 6 7 8"},
		{"among equals nobody gives way at first", "1.0.0.1 1.0.0.2 1.0.0.3 1.0.0.4 1.0.0.5 1.0.0.6 1.0.0.7 1.0.0.8 1.0.0.9", "0 1 2 3 4 5 6 7"},
		{"then the oldest does", "1.0.0.1 1.0.0.2 1.0.0.3 1.0.0.4 1.0.0.5 1.0.0.6 1.0.0.7 1.0.0.8 ~ 1.0.0.9", "1 2 3 4 5 6 7 8"},
		{"a known address comes first", "9.9.9.9+ 1.0.0.1 1.0.0.2 1.0.0.3 1.0.0.4 1.0.0.5 1.0.0.6 1.0.0.7 1.0.0.8 9.9.9.9", "0 2 3 4 5 6 7 8 9"},
		{"and does not give way to strangers", "9.9.9.9+ 9.9.9.9 1.0.0.1 1.0.0.2 1.0.0.3 1.0.0.4 1.0.0.5 1.0.0.6 1.0.0.7 ~ 1.0.0.8",
			"0 1 3 4 5 6 7 8 9"},
		{"each connection of a proxy is its own", "10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1", "0 1 2 3 4 5 6"},
		{"but all of a proxy's are bounded too", "10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1",
			"0 1 2 3 4 5 6 7"},
		{"a proxy's gives way after those of an address with two",
			"10.0.0.1 1.1.1.1 1.1.1.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1", "0 2 3 4 5 6 7 8"},
		{"strangers give way to what fills the descriptors",
			"1.0.0.1 ~ 2.0.0.1+ 2.0.0.2+ 2.0.0.3+ 2.0.0.4+ 2.0.0.5+ 2.0.0.6+ 2.0.0.7+ 2.0.0.8+ 2.0.0.9+ 2.0.0.10+ 2.0.0.11+ 2.0.0.12+",
			"1 2 3 4 5 6 7 8 9 10 11 12"},
		{"when all are proven there is no room",
			"2.0.0.1+ 2.0.0.2+ 2.0.0.3+ 2.0.0.4+ 2.0.0.5+ 2.0.0.6+ 2.0.0.7+ 2.0.0.8+ 2.0.0.9+ 2.0.0.10+ 2.0.0.11+ 2.0.0.12+ 2.0.0.13+",
			"0 1 2 3 4 5 6 7 8 9 10 11"},
		{"but for one owner with many",
			"2.0.0.1+ 2.0.0.1+ 2.0.0.1+ 2.0.0.1+ 2.0.0.1+ 2.0.0.6+ 2.0.0.7+ 2.0.0.8+ 2.0.0.9+ 2.0.0.10+ 2.0.0.11+ 2.0.0.12+ 2.0.0.13+",
			"1 2 3 4 5 6 7 8 9 10 11 12"},
		{"one owner has a bounded number", "2.0.0.1+ 2.0.0.1+ 2.0.0.1+ 2.0.0.1+ 2.0.0.1+ 2.0.0.1+ 2.0.0.1+", "1 2 3 4 5 6"},
		{"a proxy's proven connections are of many owners", "10.0.0.1+ 10.0.0.1+ 10.0.0.1+ 10.0.0.1+ 10.0.0.1+ 10.0.0.1+ 10.0.0.1+",
			"0 1 2 3 4 5 6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStreet(t, small())
				var visits []*visit
				for arrival := range strings.FieldsSeq(c.arrivals) {
					if arrival == "~" {
						time.Sleep(2 * time.Second)
						continue
					}
					from, proves := strings.CutSuffix(arrival, "+")
					v := s.come(from)
					if visits = append(visits, v); proves && v.near != nil {
						httpserver.Prove(v.ctx, "node of "+from)
					}
				}
				if got := which(visits); got != c.open {
					t.Errorf("open are %s, want %s", got, c.open)
				}
				for _, v := range visits {
					if v.near != nil {
						v.near.Close()
					}
				}
				if all, unproven := s.limiter.Open(); all != 0 || unproven != 0 {
					t.Errorf("when all are closed, %d count as open and %d as unproven", all, unproven)
				}
			})
		})
	}
}

// TestBusyKeepsItsPlace: a connection that this machine has not come to yet is not closed for being slow.
func TestBusyKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, small())
		near, far := net.Pipe()
		defer far.Close()
		s.in = []any{end{near, "1.1.1.1:1"}}
		busy, err := s.inner.Accept() // nothing reads from it
		if err != nil {
			t.Fatal(err)
		}
		defer busy.Close()
		visits := []*visit{s.come("1.1.1.1"), s.come("1.1.1.1"), s.come("1.1.1.1")}
		time.Sleep(2 * time.Second)
		visits = append(visits, s.come("1.1.1.1"))
		if got := which(visits); got != "1 2 3" {
			t.Errorf("open are %s, want 1 2 3", got)
		}
		if all, _ := s.limiter.Open(); all != 4 {
			t.Errorf("%d connections are open, want 4", all)
		}
	})
}

// seize has a peer connect, of which this machine has read nothing yet.
func (s *street) seize(from string) net.Conn {
	s.t.Helper()
	near, far := net.Pipe()
	s.in = []any{end{near, from + ":1"}}
	c, err := s.inner.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close(); far.Close() })
	return c
}

// TestBusyOnesDoNotKeepOthersOut: many of the oldest connections look busy, and still an idle one is found soon.
func TestBusyOnesDoNotKeepOthersOut(t *testing.T) {
	const busy = 100
	const idle = 10
	for _, c := range []struct {
		name string
		from func(i int) string
	}{
		{"of one address", func(int) string { return "1.1.1.1" }},
		{"of many addresses", func(i int) string { return fmt.Sprintf("1.1.1.%d", i) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := small()
				limits.Network = 1000
				limits.Unproven = busy + idle
				limits.PerAddress = busy + idle
				s := newStreet(t, limits)
				for i := range busy {
					s.seize(c.from(i))
				}
				for i := range idle {
					s.come(c.from(busy + i))
				}
				time.Sleep(2 * time.Second)
				in := 0
				for i := range idle {
					if s.come(c.from(busy + idle + i)).open() {
						in++
					}
				}
				if in < idle/2 {
					t.Errorf("%d of %d newcomers were let in while others idled", in, idle)
				}
			})
		})
	}
}

// TestUnreadAnswerGivesWay: a peer that does not take its answer is closed first, though it has sent more.
func TestUnreadAnswerGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := small()
		limits.Stall = time.Minute
		s := newStreet(t, limits)
		for range limits.PerAddress {
			c := s.seize("1.1.1.1")
			go func() { _, _ = c.Write([]byte("answer")) }()
		}
		time.Sleep(2 * time.Second)
		if !s.come("1.1.1.1").open() {
			t.Error("a newcomer is not let in, though nobody reads what was written to the others")
		}
	})
}

// TestQuiet: a connection without a request and without a proof is closed after a while; a proven one and a proxy's are not.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, small())
		ctx, stop := context.WithCancel(t.Context())
		go s.limiter.Run(ctx)
		defer stop()
		visits := []*visit{s.come("1.1.1.1"), s.come("1.1.1.1"), s.come("10.0.0.1")}
		httpserver.Prove(visits[1].ctx, "node")
		time.Sleep(50 * time.Second)
		if got := which(visits); got != "0 1 2" {
			t.Errorf("after 50 seconds open are %s, want all", got)
		}
		time.Sleep(12 * time.Second)
		if got := which(visits); got != "1 2" {
			t.Errorf("after a minute open are %s, want 1 2", got)
		}
	})
}

// TestRemembered: an address is known for a day after the last proof from it, not longer.
func TestRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, small())
		ctx, stop := context.WithCancel(t.Context())
		go s.limiter.Run(ctx)
		defer stop()
		for _, c := range []struct {
			after time.Duration
			in    bool
		}{{time.Hour, true}, {25 * time.Hour, false}} {
			v := s.come("9.9.9.9")
			httpserver.Prove(v.ctx, "node")
			v.near.Close()
			time.Sleep(c.after)
			var crowd []*visit
			for i := range 8 {
				crowd = append(crowd, s.come(fmt.Sprintf("1.0.0.%d", i)))
			}
			if got := s.come("9.9.9.9").open(); got != c.in {
				t.Errorf("%s after its proof an address is let into a full house: %v, want %v", c.after, got, c.in)
			}
			for _, v := range crowd {
				v.far.Close()
			}
			time.Sleep(2 * time.Minute)
		}
	})
}

// TestSocket: the operator's connections need no proof and have room of their own, however full the network's is.
func TestSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, small())
		for i := range 12 {
			httpserver.Prove(s.come(fmt.Sprintf("2.0.0.%d", i)).ctx, fmt.Sprint(i))
		}
		s.inner = s.limiter.Local(s)
		visits := []*visit{s.come("127.0.0.1"), s.come("127.0.0.1"), s.come("127.0.0.1")}
		if got := which(visits); got != "0 1" {
			t.Errorf("open are %s, want 0 1", got)
		}
		time.Sleep(2 * time.Second)
		visits = append(visits, s.come("127.0.0.1"))
		if got := which(visits); got != "1 3" {
			t.Errorf("open are %s, want 1 3: one that idles gives way", got)
		}
		visits[3].near.Close()
		if v := s.come("127.0.0.1"); !v.open() {
			t.Error("a place that is free is not given")
		}
	})
}

// TestNoDescriptor: where other parts took the last descriptor, a connection without a proof is closed. If there is none, the
// server gets the error and tries again.
func TestNoDescriptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, small())
		v := s.come("1.1.1.1")
		near, far := net.Pipe()
		defer far.Close()
		lacks := &net.OpError{Op: "accept", Err: syscall.EMFILE}
		s.in = []any{lacks, end{near, "2.2.2.2:1"}}
		c, err := s.inner.Accept()
		if err != nil || v.open() {
			t.Fatalf("got %v, and the old connection is open: %v", err, v.open())
		}
		c.Close()
		s.in = []any{lacks}
		if _, err := s.inner.Accept(); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("got %v, want the error as it came", err)
		}
		for range 2 { // what was told in the log stays counted
			if closed := s.limiter.Closed(); closed["no_descriptor_left"] != 1 || closed["slow_request"] != 0 {
				t.Errorf("closed are %v", closed)
			}
			s.limiter.Tell(t.Context())
		}
		if got := s.limiter.Limits(); got != small() {
			t.Errorf("the limits are %+v", got)
		}
	})
}

// TestLimitsFor: the descriptors suffice for all that may be open at once, and a few of them still serve everyone.
func TestLimitsFor(t *testing.T) {
	for _, c := range []struct{ descriptors, network, unproven, perAddress, local int }{
		{64, 36, 18, 9, 4},
		{512, 416, 208, 104, 32},
		{1024, 832, 416, 208, 64},
		{20_000, 18_720, 8192, 1024, 1024},
		{262_144, 260_864, 8192, 1024, 1024},
	} {
		l := httpserver.LimitsFor(c.descriptors)
		if l.Network != c.network || l.Unproven != c.unproven || l.PerAddress != c.perAddress || l.Local != c.local {
			t.Errorf("%d descriptors: got %+v, want %+v", c.descriptors, l, c)
		}
		if l.Network+l.Local >= c.descriptors {
			t.Errorf("%d descriptors: %d connections from the network and %d on the socket leave none", c.descriptors, l.Network, l.Local)
		}
	}
	if n := httpserver.Descriptors(); n < 64 {
		t.Errorf("this process may have %d descriptors", n)
	}
}
