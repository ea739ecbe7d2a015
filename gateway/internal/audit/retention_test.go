package audit

import (
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"muster/gateway/internal/kit"
	"muster/store"
	"muster/store/placement"
	"muster/store/releases"
	"muster/store/sessions"
)

// TestSteadyClock: a clock that was set since the last look deletes nothing.
func TestSteadyClock(t *testing.T) {
	begin := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	c := steadyClock{begin}
	now := begin
	for i, step := range []struct {
		passed, set time.Duration
		want        bool
	}{
		{time.Hour, 0, true}, {time.Hour, 3 * time.Second, true}, {time.Hour, 10 * 365 * 24 * time.Hour, false}, {time.Hour, 0, true},
		{time.Hour, -10 * time.Hour, false}, {time.Hour, 0, true},
	} {
		now = now.Add(step.passed + step.set)
		if got := c.steady(now, step.passed); got != step.want {
			t.Errorf("look %d: got %v, want %v", i, got, step.want)
		}
	}
}

// TestPrune deletes in batches what is older than events are kept, and says so.
func TestPrune(t *testing.T) {
	opened := kit.Store(t, nil)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	old := make([]store.Event, batch+1)
	for i := range old {
		old[i] = store.Event{At: now.Add(-49 * time.Hour), Kind: "old"}
	}
	if err := opened.AddEvents(t.Context(), append(old, store.Event{At: now.Add(-47 * time.Hour), Kind: "young"})...); err != nil {
		t.Fatal(err)
	}
	k := Keeper{Store: opened, Events: 48 * time.Hour, Logger: slog.New(slog.DiscardHandler)}
	for range 2 {
		k.prune(t.Context(), now)
	}
	left, err := opened.Events(t.Context(), store.EventQuery{Limit: 1000})
	if err != nil || len(left) != 3 || left[0].Detail["deleted"] != "1" || left[1].Detail["deleted"] != "5000" || left[2].Kind != "young" ||
		!left[0].Security {
		t.Errorf("left %+v, %v", left, err)
	}
	k.Events = 0 // for ever
	b := store.Bootstrap{Token: store.Token{ID: "msb_abcd", NodeID: "n-1", Tenant: "default", Uses: 1, CreatedAt: now,
		ExpiresAt: now.Add(time.Hour)}, Script: "#!/bin/sh\n"}
	if err := opened.CreateNode(t.Context(), store.Node{ID: "n-1", Name: "n-1", Tenant: "default", CreatedAt: now}, nil); err != nil {
		t.Fatal(err)
	}
	if err := opened.CreateBootstrap(t.Context(), b, ""); err != nil {
		t.Fatal(err)
	}
	said := releases.New(opened.Records())
	if err := said.Note(t.Context(), releases.Update{NodeID: "gone", Phase: "trial", At: now}, nil); err != nil {
		t.Fatal(err)
	}
	rows := sessions.New(opened.Records())
	for id, ended := range map[string]time.Time{"s-old": now.Add(-49 * time.Hour), "s-young": now.Add(47 * time.Hour)} {
		s := sessions.Session{ID: id, NodeID: "n-1", CreatedAt: ended, EndedAt: &ended}
		if err := errors.Join(rows.Add(t.Context(), s), rows.End(t.Context(), s)); err != nil {
			t.Fatal(err)
		}
	}
	uses := placement.New(opened.Records())
	for program, ended := range map[string]time.Time{"old": now.Add(-49 * time.Hour), "young": now.Add(-47 * time.Hour)} {
		u := placement.Use{UseKey: placement.UseKey{NodeID: "n-1", Program: program}, Since: ended, Until: ended}
		if err := uses.SaveUses(t.Context(), []placement.Use{u}, nil); err != nil {
			t.Fatal(err)
		}
	}
	k.Events = 48 * time.Hour
	k.prune(t.Context(), now)
	k.Events = 0
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{30 * 24 * time.Hour, "#!/bin/sh\n"}, {30*24*time.Hour + time.Hour + time.Second, ""}} {
		k.prune(t.Context(), now.Add(c.after))
		if kept, err := opened.Bootstrap(t.Context(), "msb_abcd"); err != nil || kept.Script != c.want {
			t.Errorf("after %s: %q, %v", c.after, kept.Script, err)
		}
	}
	if left, _, err := rows.List(t.Context(), sessions.Query{}); err != nil || len(left) != 1 || left[0].ID != "s-young" {
		t.Errorf("sessions that are left: %+v, %v", left, err)
	}
	if left, err := uses.Uses(t.Context(), "n-1", time.Time{}); err != nil || len(left) != 1 || left[0].Program != "young" {
		t.Errorf("uses of GPUs that are left: %+v, %v", left, err)
	}
	if left, err := said.Updates(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("what a node said that is gone: %+v, %v", left, err)
	}
	if left, err := opened.Events(t.Context(), store.EventQuery{Limit: 1000}); err != nil || len(left) != 3 {
		t.Errorf("%d events left, %v", len(left), err)
	}
}

// TestPruneTasks deletes in batches what ended longer ago than events are kept, and nothing where they are kept for ever.
func TestPruneTasks(t *testing.T) {
	opened := kit.Store(t, nil)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(opened.AddPSK(t.Context(), store.PSK{ID: "psk-1", Key: []byte("k"), CreatedAt: now}))
	must(opened.Enrol(t.Context(), store.Enrolment{ID: "e", Credential: "psk-1", KeyHash: "k", At: now, NewNode: true,
		Node: store.Node{ID: "n", Name: "n", Tenant: "default", State: "enrolled"}, Certificate: store.Certificate{Fingerprint: "f"}}))
	for i := range tasks + 2 {
		id := strconv.Itoa(i)
		must(opened.CreateTask(t.Context(), store.Task{ID: id, NodeID: "n", EnrolmentID: "e", CreatedAt: now, ExpiresAt: now}))
		if i > 0 { // the first one stays open
			must(opened.AskCancel(t.Context(), id, now, store.Actor{}))
		}
	}
	k := Keeper{Store: opened, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		keep  time.Duration
		after time.Duration
		want  int
	}{{0, 1000 * time.Hour, tasks + 2}, {time.Hour, time.Hour, tasks + 2}, {time.Hour, time.Hour + time.Millisecond, 1}} {
		k.Events = c.keep
		k.prune(t.Context(), now.Add(c.after))
		if left, _, err := opened.Tasks(t.Context(), store.TaskQuery{Limit: 1000}); err != nil || len(left) != c.want {
			t.Errorf("kept for %s, after %s: %d are left, %v", c.keep, c.after, len(left), err)
		}
	}
}
