package logins_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/store"
	"muster/store/logins"
	"muster/store/storetest"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func open(t *testing.T) (logins.Records, *store.Store) {
	t.Helper()
	s := storetest.Open(t, nil)
	return logins.On(s.Records()), s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func session(hash, account string) logins.Session {
	return logins.Session{Hash: hash, Account: account, CreatedAt: start, SeenAt: start, EndsAt: start.Add(time.Hour), Address: "192.0.2.1",
		Browser: "test"}
}

// TestCodes: a code is good once, until its end, for its own account.
func TestCodes(t *testing.T) {
	r, s := open(t)
	must(t, r.AddCode(t.Context(), logins.Code{Hash: "c1", Account: "msa_a", ExpiresAt: start.Add(time.Minute)}, start,
		store.Event{At: start, Kind: "test"}))
	_, err := r.Code(t.Context(), "c1", start.Add(time.Minute))
	want(t, "at its end", err, store.ErrNotFound)
	got, err := r.Code(t.Context(), "c1", start)
	if err != nil || got.Account != "msa_a" || !got.ExpiresAt.Equal(start.Add(time.Minute)) {
		t.Errorf("got %+v, %v", got, err)
	}
	want(t, "for another account", r.Redeem(t.Context(), "c1", session("s0", "msa_b")), store.ErrNotFound)
	late := session("s0", "msa_a")
	late.CreatedAt = start.Add(time.Minute)
	want(t, "too late", r.Redeem(t.Context(), "c1", late), store.ErrNotFound)
	must(t, r.Redeem(t.Context(), "c1", session("s1", "msa_a")))
	want(t, "again", r.Redeem(t.Context(), "c1", session("s2", "msa_a"), store.Event{At: start, Kind: "again"}), store.ErrNotFound)
	events, err := s.Events(t.Context(), store.EventQuery{Kind: "again"})
	if err != nil || len(events) != 0 {
		t.Errorf("a refused login left %d events, %v", len(events), err)
	}
}

// TestRace: of many callers with one code, one gets a session.
func TestRace(t *testing.T) {
	r, _ := open(t)
	must(t, r.AddCode(t.Context(), logins.Code{Hash: "c1", Account: "msa_a", ExpiresAt: start.Add(time.Minute)}, start))
	var won atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if r.Redeem(t.Context(), "c1", session(string(rune('a'+i)), "msa_a")) == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d callers won", won.Load())
	}
}

// TestSessions: sessions are found by their hash, listed by account, and ended by their own account alone.
func TestSessions(t *testing.T) {
	r, _ := open(t)
	must(t, r.AddSession(t.Context(), session("abc1", "msa_a")))
	must(t, r.AddSession(t.Context(), session("abc2", "msa_b")))
	must(t, r.Touch(t.Context(), "abc1", start.Add(time.Minute)))
	must(t, r.Touch(t.Context(), "abc1", start)) // an older time
	got, err := r.Session(t.Context(), "abc1")
	wanted := session("abc1", "msa_a")
	wanted.SeenAt = start.Add(time.Minute)
	if err != nil || got != wanted {
		t.Errorf("got %+v, %v, want %+v", got, err, wanted)
	}
	list, err := r.Sessions(t.Context(), "msa_b")
	if err != nil || len(list) != 1 || list[0].Hash != "abc2" {
		t.Errorf("got %+v, %v", list, err)
	}
	want(t, "of another account", r.End(t.Context(), "msa_b", "abc1"), store.ErrNotFound)
	must(t, r.End(t.Context(), "msa_a", "abc"))
	want(t, "again", r.End(t.Context(), "msa_a", "abc"), store.ErrNotFound)
	_, err = r.Session(t.Context(), "abc1")
	want(t, "an ended one", err, store.ErrNotFound)
	later := session("abc3", "msa_a")
	later.CreatedAt = start.Add(time.Hour)
	must(t, r.AddSession(t.Context(), later))
	_, err = r.Session(t.Context(), "abc2")
	want(t, "one that ran out, after another began", err, store.ErrNotFound)
}

// TestRestoreEnds: in a database that is restored from a backup, nobody is logged in, and no code is good.
func TestRestoreEnds(t *testing.T) {
	r, s := open(t)
	must(t, r.AddCode(t.Context(), logins.Code{Hash: "c1", Account: "msa_a", ExpiresAt: start.Add(time.Minute)}, start))
	must(t, r.AddSession(t.Context(), session("s1", "msa_a")))
	must(t, s.NoteRestore(t.Context(), store.Restoration{At: start, BackupAt: start, AdoptUntil: start}))
	_, err := r.Code(t.Context(), "c1", start)
	want(t, "the code", err, store.ErrNotFound)
	_, err = r.Session(t.Context(), "s1")
	want(t, "the session", err, store.ErrNotFound)
}

// TestBounds: an account has so many sessions and codes at most, and those of others stay.
func TestBounds(t *testing.T) {
	r, _ := open(t)
	must(t, r.AddSession(t.Context(), session("other", "msa_b")))
	for i := range logins.MostSessions + 1 {
		s := session(fmt.Sprintf("s%d", i), "msa_a")
		s.SeenAt = start.Add(time.Duration(i) * time.Second)
		must(t, r.AddSession(t.Context(), s))
	}
	for i := range logins.MostCodes + 1 {
		ends := start.Add(time.Minute + time.Duration(i)*time.Second)
		must(t, r.AddCode(t.Context(), logins.Code{Hash: fmt.Sprintf("c%d", i), Account: "msa_a", ExpiresAt: ends}, start))
	}
	must(t, r.Redeem(t.Context(), "c1", session("by code", "msa_a"))) // its clock was set back: it is older than the others
	all, err := r.Sessions(t.Context(), "msa_a")
	if err != nil || len(all) != logins.MostSessions {
		t.Errorf("%d sessions, %v", len(all), err)
	}
	for _, gone := range []string{"s0", "s1"} {
		_, err = r.Session(t.Context(), gone)
		want(t, "the oldest session "+gone, err, store.ErrNotFound)
	}
	_, err = r.Code(t.Context(), "c0", start)
	want(t, "the oldest code", err, store.ErrNotFound)
	for _, left := range []string{"s2", "by code", "other"} {
		_, err = r.Session(t.Context(), left)
		want(t, "the session "+left, err, nil)
	}
}
