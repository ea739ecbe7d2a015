package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/cluster/peer"
	"muster/gateway/internal/history"
	"muster/gateway/internal/httpserver/origin"
	"muster/gateway/internal/kit"
)

// TestCopyMinutesRests: a gateway that stands by and cannot be reached is called once, and then left alone for a while. Those that can be
// reached get all.
func TestCopyMinutesRests(t *testing.T) {
	a, err := authority.Open(t.Context(), authority.Config{Store: kit.Store(t, nil)})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	url := func(l net.Listener) string { return "https://" + l.Addr().String() }
	noted := make(chan bool, 8)
	open := func(id string, l net.Listener) *peers {
		p := &peers{id: id}
		if err := p.prove(a); err != nil {
			t.Fatal(err)
		}
		p.Server = peer.NewServer(l, p.identity, peer.Copies{Note: func(io.Reader) error { noted <- true; return nil }}, log)
		go func() { _ = p.Run(t.Context()) }()
		return p
	}
	active, deaf, well := listen(), listen(), listen()
	p := open("gw1", active)
	called := make(chan bool, 8)
	go func() {
		for c, err := deaf.Accept(); err == nil; c, err = deaf.Accept() {
			called <- true
			c.Close()
		}
	}()
	for id, l := range map[string]net.Listener{"gw2": deaf, "gw3": well} {
		other := &peers{id: id}
		if l == well {
			other = open(id, l)
		} else if err := other.prove(a); err != nil {
			t.Fatal(err)
		}
		r := &peer.Relay{Identity: other.identity, Most: 1, Place: origin.Resolver{}.Place, Logger: log}
		r.Follow(&peer.Gateway{ID: "gw1", URL: url(active)})
		go func() { _ = r.Tell(t.Context(), func() peer.Hello { return peer.Hello{URL: url(l)} }) }()
	}
	for end := time.Now().Add(20 * time.Second); len(p.Standing()) < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("they are not heard")
		}
	}
	<-called // back: the active gateway looks whether those that stand by are reached
	gives := p.copyMinutes()
	for range 3 {
		if err := gives(context.Background(), []history.Minute{{Node: "n"}}); err == nil {
			t.Error("nobody says that minutes are missing")
		}
	}
	if len(called) != 1 || len(noted) != 3 {
		t.Errorf("the one was called %d times, the other one has %d messages", len(called), len(noted))
	}
}
