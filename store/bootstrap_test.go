package store_test

import (
	"errors"
	"testing"
	"time"

	"muster/store"
)

// bootstrapped makes a node that waits and a bootstrap token for it, good for an hour and for ten minutes after its first fetch.
func bootstrapped(t *testing.T, s *store.Store, id, nodeID string) store.Bootstrap {
	t.Helper()
	if _, err := s.Node(t.Context(), "", nodeID); err != nil {
		must(t, s.CreateNode(t.Context(), store.Node{ID: nodeID, Name: nodeID, Tenant: "default", CreatedAt: day()}, nil))
	}
	b := store.Bootstrap{
		Token: store.Token{ID: id, Tenant: "default", Uses: 1, NodeID: nodeID, Key: []byte("key of " + id), CreatedAt: day(),
			ExpiresAt: day().Add(time.Hour)},
		FetchHash: "f" + id, Mode: "manual", Window: 10 * time.Minute, Script: "#!/bin/sh\n", FetchSHA256: "aa", WholeSHA256: "bb",
		Registry: "r.example",
	}
	must(t, s.CreateBootstrap(t.Context(), b, "", store.Event{Kind: "bootstrap.created", At: day()}))
	return b
}

func TestBootstrap(t *testing.T) {
	s := open(t)
	want := bootstrapped(t, s, "msb_one1", "n-1")
	got, err := s.Bootstrap(t.Context(), "msb_one1")
	if err != nil || string(got.Token.Key) != string(want.Token.Key) || got.FetchHash != want.FetchHash || got.Mode != want.Mode ||
		got.Window != want.Window ||
		got.FirstFetchAt != nil || got.Script != want.Script || got.FetchSHA256 != "aa" ||
		got.WholeSHA256 != "bb" || got.Registry != "r.example" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := s.Bootstrap(t.Context(), "msb_none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no token: %v", err)
	}
	must(t, s.CreateToken(t.Context(), store.Token{ID: "mse_two2", Tenant: "default", Uses: 1, CreatedAt: day(),
		ExpiresAt: day().Add(time.Hour)}))
	if _, err := s.Bootstrap(t.Context(), "mse_two2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an enrollment token: %v", err)
	}
	for name, change := range map[string]func(*store.Bootstrap) string{
		"the id is taken": func(*store.Bootstrap) string { return "" },
		"no such node": func(b *store.Bootstrap) string {
			b.Token.ID = "msb_new1"
			b.Token.NodeID = "n-9"
			return ""
		},
		"enrolled in between": func(b *store.Bootstrap) string { b.Token.ID = "msb_new2"; return "e-1" },
		"retired in between": func(b *store.Bootstrap) string {
			b.Token.ID = "msb_new3"
			b.Token.NodeID = "n-2"
			return ""
		},
		"another of it is live": nil,
	} {
		b := want
		if change == nil {
			b.Token.ID = "msb_new4"
			must(t, s.CreateBootstrap(t.Context(), b, ""))
			continue
		}
		if name == "retired in between" {
			must(t, s.CreateNode(t.Context(), store.Node{ID: "n-2", Name: "n-2", Tenant: "default", CreatedAt: day()}, nil))
			must(t, s.MoveNode(t.Context(), store.Move{NodeID: "n-2", From: "ready", To: "retired", At: day()}))
		}
		enrolment := change(&b)
		if err := s.CreateBootstrap(t.Context(), b, enrolment); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFetchBootstrap: the first fetch begins the last window, later ones do not prolong it, and the outer limit stays.
func TestFetchBootstrap(t *testing.T) {
	for _, c := range []struct {
		name    string
		fetches []time.Duration
		ends    time.Duration
		last    error
	}{
		{"never", nil, time.Hour, nil},
		{"once", []time.Duration{5 * time.Minute}, 15 * time.Minute, nil},
		{"twice", []time.Duration{5 * time.Minute, 9 * time.Minute}, 15 * time.Minute, nil},
		{"late", []time.Duration{55 * time.Minute}, time.Hour, nil},
		{"after the window", []time.Duration{0, 10 * time.Minute}, 10 * time.Minute, store.ErrConflict},
		{"after the outer limit", []time.Duration{time.Hour}, time.Hour, store.ErrConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			bootstrapped(t, s, "msb_one1", "n-1")
			bootstrapped(t, s, "msb_two2", "n-1")
			var err error
			for _, after := range c.fetches {
				err = s.FetchBootstrap(t.Context(), "msb_one1", day().Add(after), store.Event{Kind: "bootstrap.fetched", At: day()})
			}
			if !errors.Is(err, c.last) {
				t.Errorf("got %v, want %v", err, c.last)
			}
			got, err := s.Bootstrap(t.Context(), "msb_one1")
			if err != nil || !got.Token.ExpiresAt.Equal(day().Add(c.ends)) {
				t.Errorf("ends %s, %v; want %s", got.Token.ExpiresAt, err, day().Add(c.ends))
			}
			if other, err := s.Bootstrap(t.Context(), "msb_two2"); err != nil || !other.Token.ExpiresAt.Equal(day().Add(time.Hour)) ||
				other.FirstFetchAt != nil {
				t.Errorf("the other token: %+v, %v", other, err)
			}
		})
	}
	s := open(t)
	bootstrapped(t, s, "msb_one1", "n-1")
	must(t, s.RevokeToken(t.Context(), "", "msb_one1", day()))
	if err := s.FetchBootstrap(t.Context(), "msb_one1", day()); !errors.Is(err, store.ErrConflict) {
		t.Errorf("revoked: %v", err)
	}
}

// TestEnrolmentEndsBootstraps: the first enrolment of a node ends its other tokens, and nobody else's.
func TestEnrolmentEndsBootstraps(t *testing.T) {
	s := open(t)
	for id, node := range map[string]string{"msb_one1": "n-1", "msb_two2": "n-1", "msb_six6": "n-6"} {
		bootstrapped(t, s, id, node)
	}
	e := enrolment("msb_one1", "n-1")
	e.Node.ID = "n-1"
	e.NewNode = false
	e.TakeOver = &store.TakeOver{State: "ready"}
	must(t, s.Enrol(t.Context(), e))
	for id, want := range map[string]bool{"msb_one1": false, "msb_two2": true, "msb_six6": false} {
		got, err := s.Token(t.Context(), id)
		if err != nil || (got.RevokedAt != nil) != want {
			t.Errorf("%s: revoked %v, %v", id, got.RevokedAt, err)
		}
	}
	if got, _ := s.Token(t.Context(), "msb_one1"); got.Used != 1 {
		t.Errorf("used %d", got.Used)
	}
	if err := s.FetchBootstrap(t.Context(), "msb_one1", day()); !errors.Is(err, store.ErrConflict) {
		t.Errorf("fetch of a used one: %v", err)
	}
}

// TestDropScripts: what ended long ago loses its script and stays known, what has not keeps it.
func TestDropScripts(t *testing.T) {
	s := open(t)
	for _, id := range []string{"msb_old1", "msb_revoked1", "msb_live1"} {
		bootstrapped(t, s, id, "n-1")
	}
	must(t, s.RevokeToken(t.Context(), "", "msb_revoked1", day()))
	for _, c := range []struct {
		ended time.Time
		left  map[string]bool
	}{
		{day().Add(time.Minute), map[string]bool{"msb_old1": true, "msb_revoked1": false, "msb_live1": true}},
		{day().Add(time.Hour), map[string]bool{"msb_old1": true, "msb_revoked1": false, "msb_live1": true}},
		{day().Add(time.Hour + time.Second), map[string]bool{"msb_old1": false, "msb_revoked1": false, "msb_live1": false}},
	} {
		must(t, s.DropScripts(t.Context(), c.ended))
		for id, want := range c.left {
			if got, err := s.Bootstrap(t.Context(), id); err != nil || (got.Script != "") != want || got.FetchHash != "f"+id {
				t.Errorf("%s, ended by %s: %+v, %v", id, c.ended, got, err)
			}
		}
	}
}

func TestDropSecret(t *testing.T) {
	s := open(t)
	must(t, s.SetSecret(t.Context(), "a", []byte("1")))
	must(t, s.DropSecret(t.Context(), "a", store.Event{Kind: "secret.dropped", At: day()}))
	_, err := s.Secret(t.Context(), "a")
	wantError(t, err, store.ErrNotFound)
	wantError(t, s.DropSecret(t.Context(), "a", store.Event{Kind: "secret.dropped", At: day()}), store.ErrNotFound)
	if got := countEvents(t, s, store.EventQuery{Kind: "secret.dropped"}); got != 1 {
		t.Errorf("%d events", got)
	}
}

func TestPruneEvents(t *testing.T) {
	s := open(t)
	for i := range 5 {
		must(t, s.AddEvents(t.Context(), store.Event{At: day().Add(time.Duration(i) * time.Hour), Kind: "old"}))
	}
	note := store.Event{At: day().Add(5 * time.Hour), Kind: "events.pruned"}
	for _, want := range []int{2, 1, 0} {
		n, err := s.PruneEvents(t.Context(), day().Add(3*time.Hour), 2, note)
		if err != nil || n != want {
			t.Errorf("got %d, %v; want %d", n, err, want)
		}
	}
	left, err := s.Events(t.Context(), store.EventQuery{Ascending: true})
	must(t, err)
	kinds := ""
	for _, e := range left {
		kinds += e.Kind + e.Detail["deleted"] + " "
	}
	if kinds != "old old events.pruned2 events.pruned1 " || left[2].Detail["before"] == "" {
		t.Errorf("left: %s", kinds)
	}
}
