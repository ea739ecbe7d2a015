package sessions_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"muster/store"
	"muster/store/sessions"
	"muster/store/storetest"
)

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func open(t *testing.T) (*store.Store, sessions.Records) {
	t.Helper()
	s := storetest.Open(t, func() time.Time { return start })
	for _, name := range []string{"a", "b"} {
		must(t, s.CreateNode(t.Context(), store.Node{ID: "id-" + name, Name: name, Tenant: "tenant-" + name, State: store.StateReady,
			CreatedAt: start}, nil))
	}
	return s, sessions.New(s.Records())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func row(n int, node string) sessions.Session {
	return sessions.Session{ID: fmt.Sprintf("s-%016d", n), NodeID: "id-" + node, Type: "session.exec",
		About:   map[string]string{"program": "ls"},
		Account: "msa_1", CreatedBy: "account:alice", Address: "192.0.2.1", KeyID: "k", Idle: time.Minute, Limit: time.Hour,
		CreatedAt: start.Add(time.Duration(n) * time.Second)}
}

// TestRows: a session is stored once, ends once, and what is read is what was stored.
func TestRows(t *testing.T) {
	db, r := open(t)
	s := row(1, "a")
	must(t, r.Add(t.Context(), s, store.Event{At: start, Kind: "session.opened"}))
	if err := r.Add(t.Context(), s, store.Event{At: start, Kind: "session.opened"}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("twice: %v", err)
	}
	s.Number = 1
	s.NodeName = "a"
	s.Tenant = "tenant-a"
	if got, err := r.Get(t.Context(), "", s.ID); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := r.Get(t.Context(), "tenant-b", s.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("for another tenant: %v", err)
	}
	if err := r.End(t.Context(), s); err == nil {
		t.Error("an end without a time was stored")
	}
	opened := start.Add(2 * time.Second)
	ended := start.Add(9 * time.Second)
	code := int64(3)
	s.OpenedAt = &opened
	s.EndedAt = &ended
	s.End = "the program ended"
	s.ExitCode = &code
	s.In = 10
	s.Out = 1 << 40
	s.Recorded = true
	must(t, r.End(t.Context(), s, store.Event{At: start, Kind: "session.ended"}))
	if err := r.End(t.Context(), s, store.Event{At: start, Kind: "session.ended"}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second end: %v", err)
	}
	if got, err := r.Get(t.Context(), "tenant-a", s.ID); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("got %+v, %v", got, err)
	}
	events, err := db.Events(t.Context(), store.EventQuery{})
	if err != nil || len(events) != 2 {
		t.Errorf("%d events, %v: one for each write that was done", len(events), err)
	}
}

// TestUncounted: what a gateway that was killed has not stored is not known. That a session was recorded is stored before.
func TestUncounted(t *testing.T) {
	_, r := open(t)
	s := row(1, "a")
	must(t, r.Add(t.Context(), s))
	opened := start.Add(2 * time.Second)
	must(t, r.Record(t.Context(), s.ID, opened))
	s, err := r.Get(t.Context(), "", s.ID)
	if err != nil || !s.Recorded || s.OpenedAt == nil || !s.OpenedAt.Equal(opened) || s.Uncounted {
		t.Errorf("got %+v, %v", s, err)
	}
	ended := start.Add(9 * time.Second)
	s.EndedAt = &ended
	s.Uncounted = true
	must(t, r.End(t.Context(), s))
	must(t, r.Record(t.Context(), s.ID, ended)) // too late
	if got, err := r.Get(t.Context(), "", s.ID); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestList: pages, newest first, picked by each field.
func TestList(t *testing.T) {
	_, r := open(t)
	for n := range 5 {
		s := row(n, string("ab"[n%2]))
		if n == 4 {
			s.Type = "session.shell"
		}
		must(t, r.Add(t.Context(), s))
		if n < 2 {
			s.EndedAt = &s.CreatedAt
			must(t, r.End(t.Context(), s))
		}
	}
	yes, no := true, false
	for want, q := range map[string]sessions.Query{"43210": {}, "420": {Node: "a"}, "31": {Node: "id-b"}, "31 ": {Tenant: "tenant-b"},
		"4": {Type: "session.shell"}, "10": {Ended: &yes}, "432": {Ended: &no}} {
		q.Limit = 2
		got := ""
		for {
			page, next, err := r.List(t.Context(), q)
			must(t, err)
			for _, s := range page {
				got += s.ID[len(s.ID)-1:]
			}
			if q.Cursor = next; next == "" {
				break
			}
		}
		if got != want && got+" " != want {
			t.Errorf("%+v: got %s, want %s", q, got, want)
		}
	}
	if _, _, err := r.List(t.Context(), sessions.Query{Cursor: "x"}); !errors.Is(err, store.ErrBadCursor) {
		t.Errorf("a bad cursor: %v", err)
	}
	if open, err := r.Open(t.Context()); err != nil || len(open) != 3 {
		t.Errorf("%d without an end, %v", len(open), err)
	}
}

// TestPrune deletes what ended long ago, and nothing that is alive.
func TestPrune(t *testing.T) {
	_, r := open(t)
	for n := range 4 {
		s := row(n, "a")
		must(t, r.Add(t.Context(), s))
		if n > 0 {
			s.EndedAt = &s.CreatedAt
			must(t, r.End(t.Context(), s))
		}
	}
	if n, err := r.Prune(t.Context(), start.Add(3*time.Second), 1); n != 1 || err != nil {
		t.Errorf("one at most: %d, %v", n, err)
	}
	if n, err := r.Prune(t.Context(), start.Add(3*time.Second), 9); n != 1 || err != nil {
		t.Errorf("the rest: %d, %v", n, err)
	}
	if page, _, err := r.List(t.Context(), sessions.Query{}); err != nil || len(page) != 2 || page[0].ID != row(3, "a").ID ||
		page[1].ID != row(0, "a").ID {
		t.Errorf("left: %+v, %v", page, err)
	}
}
