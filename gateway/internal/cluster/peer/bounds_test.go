package peer_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/gateway/internal/artifact"
	"muster/gateway/internal/cluster/peer"
)

// from opens a connection from an address of this machine.
func from(t *testing.T, own, to string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(own)}}).Dial("tcp", to)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// closed tells whether the other end closes a connection within some seconds.
func closed(t *testing.T, c net.Conn, within time.Duration) bool {
	t.Helper()
	must(t, c.SetDeadline(time.Now().Add(within)))
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// TestUnproven: connections that prove nothing are few at a time from one address, and nobody else feels them. Those of many addresses
// together do not shut out a gateway that has called before.
func TestUnproven(t *testing.T) {
	s := newSite(t)
	s.echo(s.server.Joined(listen(t), peer.Plain))
	through := s.passes(peer.Plain)
	for range 300 {
		from(t, "127.0.0.2", s.address)
	}
	if !closed(t, from(t, "127.0.0.2", s.address), time.Second) {
		t.Error("one address may hold 300 connections")
	}
	if got, _ := say(t, through, "hello"); got == "" {
		t.Error("one address shuts out all others")
	}
	var strangers []net.Conn
	for i := range 32 {
		for range 8 {
			strangers = append(strangers, from(t, fmt.Sprint("127.0.1.", i+1), s.address))
		}
	}
	if !closed(t, from(t, "127.0.2.1", s.address), time.Second) {
		t.Error("all together may hold 257 connections")
	}
	if got, _ := say(t, through, "hello"); got == "" {
		t.Error("strangers shut out a gateway that has called before")
	}
	for _, c := range strangers {
		if !closed(t, c, 20*time.Second) {
			t.Fatal("a stranger may stay")
		}
	}
	if closed(t, from(t, "127.0.2.1", s.address), 100*time.Millisecond) {
		t.Error("no room is made when the time of strangers is over")
	}
}

// lines is a log that several goroutines write.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(of string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), of)
}

// TestTwins: of two gateways with one id the active one says where they are, and not with each hello.
func TestTwins(t *testing.T) {
	s := newSite(t)
	var log lines
	l := listen(t)
	server := peer.NewServer(l, s.identity("gw1"), peer.Copies{}, slog.New(slog.NewTextHandler(&log, nil)))
	s.run(server.Run)
	s.relay.Follow(&peer.Gateway{ID: "gw1", URL: "https://" + l.Addr().String()})
	for range 3 {
		for _, at := range []string{"https://10.0.0.2:7444", "https://10.0.0.3:7444"} {
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- s.relay.Tell(ctx, func() peer.Hello { return peer.Hello{URL: at} }) }()
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				if all := server.Standing(); len(all) == 1 && all[0].URL == at {
					break
				}
				if time.Now().After(end) {
					t.Fatal("it is not heard")
				}
			}
			stop()
			must(t, <-done)
		}
	}
	if n := log.count("two gateways have the same id"); n != 1 {
		t.Errorf("it is said %d times: %s", n, log.text.String())
	}
}

// TestOwnID: a gateway that has this one's id does not count as another one, and keeps nothing here. The log names twins once, and is silent
// about a gateway that came to itself: it was the active one before it was started again.
func TestOwnID(t *testing.T) {
	s := newSite(t)
	var log lines
	l := listen(t)
	itself := s.identity("gw1")
	var kept atomic.Int32
	copies := peer.Copies{
		Keep: func(artifact.Info, io.Reader) error { kept.Add(1); return nil },
		Note: func(io.Reader) error { kept.Add(1); return nil },
	}
	server := peer.NewServer(l, itself, copies, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	s.run(server.Run)
	to := peer.Gateway{ID: "gw1", URL: "https://" + l.Addr().String()}
	s.relay.Follow(&to)
	asks := func(identity func() (peer.Identity, error), heard func() bool) error {
		s.shows(identity)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.relay.Tell(ctx, func() peer.Hello { return peer.Hello{URL: to.URL} }) }()
		own, err := identity()
		must(t, err)
		err = peer.Keep(t.Context(), own, to, artifact.Info{Digest: artifact.DigestOf(nil)}, strings.NewReader(""))
		err = errors.Join(err, peer.Note(t.Context(), own, to, []string{"a minute"}))
		for end := time.Now().Add(20 * time.Second); !heard(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it is not heard")
			}
		}
		stop()
		must(t, <-done)
		return err
	}
	for i, one := range []func() (peer.Identity, error){itself, s.identity("gw1"), s.identity("gw1")} {
		err := asks(one, func() bool { return log.count("the gateway has this one's id") == 3*(i+1) })
		if err == nil || len(server.Standing()) > 0 || kept.Load() > 0 || log.count("the same id") != min(i, 1) {
			t.Errorf("%d: %v; %v stand by; %s", i, err, server.Standing(), log.text.String())
		}
	}
	if err := asks(s.identity("gw2"), func() bool { return len(server.Standing()) == 1 }); err != nil || kept.Load() != 2 {
		t.Errorf("another one: %v, %d copies are kept", err, kept.Load())
	}
}

// TestNotes: minutes of the history go to another gateway, which says why it does not keep them.
func TestNotes(t *testing.T) {
	s := newSite(t)
	var kept []string
	var fails error
	l := listen(t)
	server := peer.NewServer(l, s.identity("gw3"), peer.Copies{Note: func(in io.Reader) error {
		return cmp.Or(json.NewDecoder(in).Decode(&kept), fails)
	}}, quiet())
	s.run(server.Run)
	own, err := s.identity("gw1")()
	must(t, err)
	to := peer.Gateway{ID: "gw3", URL: "https://" + l.Addr().String()}
	minutes := make([]string, 2000)
	for i := range minutes {
		minutes[i] = fmt.Sprint("the minute ", i, " of some node")
	}
	must(t, peer.Note(t.Context(), own, to, minutes))
	if !reflect.DeepEqual(kept, minutes) {
		t.Errorf("it has %d minutes", len(kept))
	}
	fails = errors.New("it keeps none")
	if err := peer.Note(t.Context(), own, to, minutes); err == nil || !strings.Contains(err.Error(), "it keeps none") {
		t.Errorf("got %v", err)
	}
}
