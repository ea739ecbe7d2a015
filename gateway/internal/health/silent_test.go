package health_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
	"muster/store"
)

// TestSilent: a node that costs money and is not heard from is found with what it cost since, and cured by its next heartbeat.
func TestSilent(t *testing.T) {
	d := newWorld(t, "n-1", "free")
	for _, n := range d.nodes {
		n.LastSeen = to(start)
		n.Status = wire.StatusStale
	}
	n := d.nodes["n-1"]
	n.PricePerHour = to(2.0)
	beat := store.Beat{NodeID: "n-1", At: start, Interval: pace, Notices: []string{"disk is full"}}
	if err := d.store.SaveBeats(t.Context(), []store.Beat{beat}, start); err != nil {
		t.Fatal(err)
	}
	d.now = start.Add(9 * time.Minute)
	d.Round(t.Context())
	if got := d.rules("n-1"); len(got) != 0 {
		t.Errorf("found too early: %v", got)
	}
	d.now = start.Add(3 * time.Hour)
	d.Round(t.Context())
	d.flush()
	f := d.Findings("n-1")
	if len(f) != 1 || f[0].Rule != condition.NodeStale || !f[0].Since.Equal(start) || f[0].Old ||
		!strings.Contains(f[0].Text, "has cost 6.00") || !strings.Contains(f[0].Text, "last words: disk is full") {
		t.Fatalf("found %+v", f)
	}
	if len(d.rules("free")) != 0 || len(d.judged) != 0 {
		t.Errorf("a node without a price: %v, moves %v", d.rules("free"), d.judged)
	}
	d.Round(t.Context())
	d.flush()
	d.now = start.Add(4 * time.Hour)
	if f = d.Findings("n-1"); len(f) != 1 || !strings.Contains(f[0].Text, "has cost 8.00") ||
		!strings.Contains(f[0].Text, "last words: disk is full") {
		t.Errorf("a round and an hour later: %+v", f)
	}
	d.now = start.Add(5 * time.Hour)
	d.restart()
	if f = d.Findings("n-1"); len(f) != 1 || !strings.Contains(f[0].Text, "has cost 10.00") ||
		!strings.Contains(f[0].Text, "last words: disk is full") {
		t.Errorf("two hours and a restart later: %+v", f)
	}
	n.Status = wire.StatusOnline
	if f = d.Findings("n-1"); len(f) != 1 || f[0].Text != "heard again, after a silence" {
		t.Errorf("heard again, before a round: %+v", f)
	}
	d.Round(t.Context())
	d.flush()
	if got := d.rules("n-1"); len(got) != 0 || len(d.events("health.cured")) != 1 {
		t.Errorf("heard again: %v", got)
	}
}

// TestRetireAfter: only if it was asked for, and only who is stale for so long is handed on; who retires looks again.
func TestRetireAfter(t *testing.T) {
	d := newWorld(t, "long", "short", "alive", "twins", "never")
	for id, n := range d.nodes {
		n.LastSeen = to(start)
		n.Status = wire.StatusStale
		switch id {
		case "short":
			n.LastSeen = to(start.Add(47 * time.Hour))
		case "alive":
			n.Status = wire.StatusOnline
		case "twins":
			n.StateReasons = []string{wire.ReasonConflict}
		case "never":
			n.LastSeen = nil
		}
	}
	d.now = start.Add(48 * time.Hour)
	d.Round(t.Context())
	if len(d.retired) != 0 {
		t.Errorf("retired %v although nobody asked", d.retired)
	}
	d.config.RetireAfter = 48 * time.Hour
	d.restart()
	d.Round(t.Context())
	if len(d.retired) != 0 {
		t.Errorf("retired %v at the start", d.retired)
	}
	d.now = d.now.Add(10 * time.Minute)
	d.Round(t.Context())
	if len(d.retired) != 1 || d.retired[0] != "long" {
		t.Errorf("retired %v", d.retired)
	}
}

// TestRetireHeld: nobody is retired while no node is online, nor too many in one hour. It is said once each time.
func TestRetireHeld(t *testing.T) {
	var ids []string
	for i := range 30 {
		ids = append(ids, fmt.Sprintf("n-%02d", i))
	}
	d := newWorld(t, ids...)
	for id, n := range d.nodes {
		n.LastSeen = to(start.Add(-time.Hour))
		n.Status = wire.StatusStale
		if id == "n-17" {
			n.LastSeen = to(start.Add(-2 * time.Hour))
		}
	}
	var log bytes.Buffer
	d.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	d.config.RetireAfter = time.Hour
	d.restart()
	rounds := func(n int, every time.Duration) {
		for range n {
			d.Round(t.Context())
			d.now = d.now.Add(every)
		}
	}
	rounds(50, time.Minute)
	held := d.events("health.retire_held")
	if len(d.retired) != 0 || len(held) != 1 || !strings.Contains(held[0].Detail["why"], "cut off") || held[0].Detail["waiting"] != "30" ||
		strings.Count(log.String(), "cut off") != 1 {
		t.Fatalf("no node is online: retired %v, events %+v, log %s", d.retired, held, &log)
	}
	d.nodes["n-03"].Status = wire.StatusOnline
	rounds(59, time.Minute)
	held = d.events("health.retire_held")
	if len(d.retired) != 3 || d.retired[0] != "n-17" || len(held) != 2 || held[0].Detail["waiting"] != "26" {
		t.Errorf("in an hour: retired %v, events %+v", d.retired, held)
	}
	rounds(10, time.Minute)
	if len(d.retired) != 5 {
		t.Errorf("the next hour: retired %v, want two of 27", d.retired)
	}
	d.nodes = map[string]*api.NodeRow{"n-03": d.nodes["n-03"], "n-29": d.nodes["n-29"]}
	d.nodes["n-03"].Status = wire.StatusStale
	rounds(90, time.Minute)
	if held = d.events("health.retire_held"); len(held) != 3 || len(d.retired) != 5 {
		t.Errorf("cut off again: events %+v, retired %v", held, d.retired)
	}
	d.nodes["n-03"].Status = wire.StatusOnline
	rounds(90, time.Minute)
	if len(d.retired) != 6 || d.retired[5] != "n-29" {
		t.Errorf("one of two nodes: retired %v", d.retired)
	}
}

// TestRetireSettles: after a start no node is retired for a while, however long it was silent: it may not have had the time to come back.
func TestRetireSettles(t *testing.T) {
	d := newWorld(t, "n-1", "n-2")
	d.nodes["n-1"].LastSeen = to(start.Add(-2 * time.Hour))
	d.nodes["n-1"].Status = wire.StatusStale
	d.nodes["n-2"].Status = wire.StatusOnline
	d.config.RetireAfter = time.Hour
	d.restart()
	for minute := range 11 {
		d.Round(t.Context())
		if want := minute / 10; len(d.retired) != want {
			t.Errorf("%d minutes after a start: retired %v", minute, d.retired)
		}
		d.now = d.now.Add(time.Minute)
	}
}

// TestRetireHeldUnwritten: what could not be recorded is said later.
func TestRetireHeldUnwritten(t *testing.T) {
	d := newWorld(t, "n-1")
	d.nodes["n-1"].LastSeen = to(start.Add(-time.Hour))
	d.nodes["n-1"].Status = wire.StatusStale
	d.config.RetireAfter = time.Hour
	d.restart()
	d.Round(t.Context())
	d.now = d.now.Add(10 * time.Minute)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	d.Round(gone)
	if held := d.events("health.retire_held"); len(held) != 0 {
		t.Fatalf("written although it could not be: %+v", held)
	}
	d.Round(t.Context())
	if held := d.events("health.retire_held"); len(held) != 1 || len(d.retired) != 0 {
		t.Errorf("events %+v, retired %v", held, d.retired)
	}
}

// TestRun: the end writes what waits.
func TestRun(t *testing.T) {
	d := newWorld(t, "n-1")
	ctx, cancel := context.WithCancel(t.Context())
	d.now = d.now.Add(pace)
	d.take("n-1", badly()[condition.RemapFailed])
	cancel()
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if rows, err := d.config.Records.Findings(t.Context()); err != nil || len(rows) != 1 {
		t.Errorf("%v, error %v", rows, err)
	}
}
