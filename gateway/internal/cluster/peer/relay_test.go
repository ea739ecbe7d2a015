package peer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"muster/gateway/internal/cluster/peer"
	"muster/gateway/internal/httpserver/origin"
)

// TestHandsOnUnderLoad: a listener that is handed on while callers come accepts for who has it then, every time.
func TestHandsOnUnderLoad(t *testing.T) {
	s := newSite(t)
	for range 200 {
		l := listen(t)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.relay.Serve(ctx, l, peer.Plain) }()
		go func() {
			for range 3 {
				if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
					c.Close()
				}
			}
		}()
		stop()
		must(t, <-done)
		accepted := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				c.Close()
			}
			accepted <- err
		}()
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		c.Close()
		must(t, <-accepted)
		l.Close()
	}
}

// TestAnotherActive: what is passed to a gateway ends when another one is the active one, also if nothing is heard from there any more.
func TestAnotherActive(t *testing.T) {
	s := newSite(t)
	quietly := s.server.Joined(listen(t), peer.Plain)
	defer quietly.Close()
	through := s.passes(peer.Plain)
	c, err := net.Dial("tcp", through)
	must(t, err)
	defer c.Close()
	_, err = c.Write([]byte("hello\n"))
	must(t, err)
	passed, err := quietly.Accept()
	must(t, err)
	defer passed.Close()
	s.relay.Follow(&peer.Gateway{ID: "gw3", URL: "https://127.0.0.1:1"})
	must(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller is not told: %v", err)
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		t.Error("the connection goes on")
	}
}

// asks says something from an address of this machine, and gives the connection if it is answered.
func asks(t *testing.T, own, to string) net.Conn {
	t.Helper()
	c := from(t, own, to)
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, _ = c.Write([]byte("x\n"))
	if _, err := c.Read(make([]byte, 100)); err != nil {
		return nil
	}
	return c
}

// TestBounds: there is room for so many connections on each listener, one address does not get all of it, and one that ends makes room.
func TestBounds(t *testing.T) {
	s := newSite(t)
	s.relay.Most = 8
	s.echo(s.server.Joined(listen(t), peer.Plain))
	through := s.passes(peer.Plain)
	first := asks(t, "127.0.0.2", through)
	if first == nil || asks(t, "127.0.0.2", through) == nil {
		t.Fatal("nothing is passed")
	}
	if asks(t, "127.0.0.2", through) != nil {
		t.Error("a third one of the same address")
	}
	for i := range 6 {
		if asks(t, fmt.Sprint("127.0.0.", 3+i), through) == nil {
			t.Errorf("the address %d finds no room", i)
		}
	}
	if asks(t, "127.0.0.9", through) != nil {
		t.Error("a ninth one")
	}
	if asks(t, "127.0.0.9", s.passes(peer.Plain)) == nil {
		t.Error("a full listener leaves no room on another one")
	}
	first.Close()
	for end := time.Now().Add(20 * time.Second); asks(t, "127.0.0.9", through) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no room was made")
		}
	}
}

// TestMany: an address that carries many callers has all places, and so have the callers on a socket, which have no address.
func TestMany(t *testing.T) {
	s := newSite(t)
	s.relay.Most = 8
	s.relay.Place = func(a net.Addr) (netip.Addr, bool) {
		at, _ := origin.Resolver{}.Place(a)
		return at, at.IsValid()
	}
	s.echo(s.server.Joined(listen(t), peer.Plain))
	s.echo(s.server.Joined(listen(t), peer.Socket))
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must(t, err)
	t.Cleanup(func() { socket.Close() })
	proxied := s.passes(peer.Plain)
	for i := range 8 {
		if asks(t, "127.0.0.2", proxied) == nil {
			t.Errorf("the proxy's connection %d", i)
		}
	}
	s.run(func(ctx context.Context) error { return s.relay.Serve(ctx, socket, peer.Socket) })
	for i := range 8 {
		c, err := net.Dial("unix", socket.Addr().String())
		must(t, err)
		t.Cleanup(func() { c.Close() })
		_, _ = c.Write([]byte("x\n"))
		if closed(t, c, 20*time.Second) {
			t.Errorf("the socket's connection %d", i)
		}
	}
}

// TestFirstByte: the active gateway is called when a caller says something, and not for those who only connect.
func TestFirstByte(t *testing.T) {
	s := newSite(t)
	active := listen(t)
	s.relay.Follow(&peer.Gateway{ID: "gw1", URL: "https://" + active.Addr().String()})
	called := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := active.Accept()
			if err != nil {
				return
			}
			called <- c
		}
	}()
	for _, kind := range []string{peer.TLS, peer.Plain} {
		through := s.passes(kind)
		for range 5 {
			from(t, "127.0.0.2", through)
		}
		_, err := from(t, "127.0.0.2", through).Write([]byte{22})
		must(t, err)
		select {
		case one := <-called:
			one.Close()
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it is not called", kind)
		}
		if n := len(called); n > 0 {
			t.Errorf("%s: %d calls are for callers who are silent", kind, n)
		}
	}
}
