package store_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/store"
)

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func loggedIn(hash, account string) store.Login {
	return store.Login{Hash: hash, Account: account, CreatedAt: day(), SeenAt: day(), EndsAt: day().Add(time.Hour),
		Address: "192.0.2.1", Browser: "test"}
}

// TestLoginCodes: a code is good once, until its end, for its own account.
func TestLoginCodes(t *testing.T) {
	s := open(t)
	must(t, s.AddLoginCode(t.Context(), store.LoginCode{Hash: "c1", Account: "msa_a", ExpiresAt: day().Add(time.Minute)}, day(),
		store.Event{At: day(), Kind: "test"}))
	_, err := s.LoginCode(t.Context(), "c1", day().Add(time.Minute))
	wantErr(t, "at its end", err, store.ErrNotFound)
	got, err := s.LoginCode(t.Context(), "c1", day())
	if err != nil || got.Account != "msa_a" || !got.ExpiresAt.Equal(day().Add(time.Minute)) {
		t.Errorf("got %+v, %v", got, err)
	}
	wantErr(t, "for another account", s.RedeemLoginCode(t.Context(), "c1", loggedIn("s0", "msa_b")), store.ErrNotFound)
	late := loggedIn("s0", "msa_a")
	late.CreatedAt = day().Add(time.Minute)
	wantErr(t, "too late", s.RedeemLoginCode(t.Context(), "c1", late), store.ErrNotFound)
	must(t, s.RedeemLoginCode(t.Context(), "c1", loggedIn("s1", "msa_a")))
	again := s.RedeemLoginCode(t.Context(), "c1", loggedIn("s2", "msa_a"), store.Event{At: day(), Kind: "again"})
	wantErr(t, "again", again, store.ErrNotFound)
	events, err := s.Events(t.Context(), store.EventQuery{Kind: "again"})
	if err != nil || len(events) != 0 {
		t.Errorf("a refused login left %d events, %v", len(events), err)
	}
}

// TestLoginRace: of many callers with one code, one gets a session.
func TestLoginRace(t *testing.T) {
	s := open(t)
	must(t, s.AddLoginCode(t.Context(), store.LoginCode{Hash: "c1", Account: "msa_a", ExpiresAt: day().Add(time.Minute)}, day()))
	var won atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if s.RedeemLoginCode(t.Context(), "c1", loggedIn(string(rune('a'+i)), "msa_a")) == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d callers won", won.Load())
	}
}

// TestLogins: sessions are found by their hash, listed by account, and ended by their own account alone.
func TestLogins(t *testing.T) {
	s := open(t)
	must(t, s.AddLogin(t.Context(), loggedIn("abc1", "msa_a")))
	must(t, s.AddLogin(t.Context(), loggedIn("abc2", "msa_b")))
	must(t, s.TouchLogin(t.Context(), "abc1", day().Add(time.Minute)))
	must(t, s.TouchLogin(t.Context(), "abc1", day())) // an older time
	got, err := s.Login(t.Context(), "abc1")
	wanted := loggedIn("abc1", "msa_a")
	wanted.SeenAt = day().Add(time.Minute)
	if err != nil || got != wanted {
		t.Errorf("got %+v, %v, want %+v", got, err, wanted)
	}
	list, err := s.Logins(t.Context(), "msa_b")
	if err != nil || len(list) != 1 || list[0].Hash != "abc2" {
		t.Errorf("got %+v, %v", list, err)
	}
	wantErr(t, "of another account", s.EndLogin(t.Context(), "msa_b", "abc1"), store.ErrNotFound)
	must(t, s.EndLogin(t.Context(), "msa_a", "abc"))
	wantErr(t, "again", s.EndLogin(t.Context(), "msa_a", "abc"), store.ErrNotFound)
	_, err = s.Login(t.Context(), "abc1")
	wantErr(t, "an ended one", err, store.ErrNotFound)
	later := loggedIn("abc3", "msa_a")
	later.CreatedAt = day().Add(time.Hour)
	must(t, s.AddLogin(t.Context(), later))
	_, err = s.Login(t.Context(), "abc2")
	wantErr(t, "one that ran out, after another began", err, store.ErrNotFound)
}

// TestRestoreEndsLogins: in a database that is restored from a backup, nobody is logged in, and no code is good.
func TestRestoreEndsLogins(t *testing.T) {
	s := open(t)
	must(t, s.AddLoginCode(t.Context(), store.LoginCode{Hash: "c1", Account: "msa_a", ExpiresAt: day().Add(time.Minute)}, day()))
	must(t, s.AddLogin(t.Context(), loggedIn("s1", "msa_a")))
	must(t, s.NoteRestore(t.Context(), store.Restoration{At: day(), BackupAt: day(), AdoptUntil: day()}))
	_, err := s.LoginCode(t.Context(), "c1", day())
	wantErr(t, "the code", err, store.ErrNotFound)
	_, err = s.Login(t.Context(), "s1")
	wantErr(t, "the session", err, store.ErrNotFound)
}

// TestLoginBounds: an account has so many sessions and codes at most, and those of others stay.
func TestLoginBounds(t *testing.T) {
	s := open(t)
	must(t, s.AddLogin(t.Context(), loggedIn("other", "msa_b")))
	for i := range store.MostLogins + 1 {
		one := loggedIn(fmt.Sprintf("s%d", i), "msa_a")
		one.SeenAt = day().Add(time.Duration(i) * time.Second)
		must(t, s.AddLogin(t.Context(), one))
	}
	for i := range store.MostLoginCodes + 1 {
		ends := day().Add(time.Minute + time.Duration(i)*time.Second)
		must(t, s.AddLoginCode(t.Context(), store.LoginCode{Hash: fmt.Sprintf("c%d", i), Account: "msa_a", ExpiresAt: ends}, day()))
	}
	must(t, s.RedeemLoginCode(t.Context(), "c1", loggedIn("by code", "msa_a"))) // its clock was set back: it is older than the others
	all, err := s.Logins(t.Context(), "msa_a")
	if err != nil || len(all) != store.MostLogins {
		t.Errorf("%d sessions, %v", len(all), err)
	}
	for _, gone := range []string{"s0", "s1"} {
		_, err = s.Login(t.Context(), gone)
		wantErr(t, "the oldest session "+gone, err, store.ErrNotFound)
	}
	_, err = s.LoginCode(t.Context(), "c0", day())
	wantErr(t, "the oldest code", err, store.ErrNotFound)
	for _, left := range []string{"s2", "by code", "other"} {
		_, err = s.Login(t.Context(), left)
		wantErr(t, "the session "+left, err, nil)
	}
}
