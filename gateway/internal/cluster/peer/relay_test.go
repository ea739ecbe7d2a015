package peer_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"muster/gateway/internal/cluster/peer"
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
