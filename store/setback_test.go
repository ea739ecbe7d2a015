package store_test

import (
	"testing"
	"time"

	"muster/store"
)

// TestSetBack: times in the future are corrected. All others stay as they are.
func TestSetBack(t *testing.T) {
	const ahead = 10 * time.Hour
	s := enrolled(t, "n", "old")
	ctx := t.Context()
	must(t, s.SaveBeats(ctx, []store.Beat{{NodeID: "id-old", At: after(time.Minute), RunID: "r"}}, day()))
	late := after(ahead)
	must(t, s.SaveBeats(ctx, []store.Beat{{NodeID: "id-n", At: late, RunID: "r", Enrolment: "enrolment-n",
		Runs: []store.Run{{ID: "r", Counter: 3, First: day(), Last: late, Before: late.Add(-time.Minute), FirstBeat: 1, LastBeat: 3,
			BeforeBeat: 2}}}}, late))
	k := token("mse_late", 1)
	k.CreatedAt = late
	k.ExpiresAt = late.Add(time.Hour)
	must(t, s.CreateToken(ctx, k))
	must(t, s.CreateToken(ctx, token("mse_early", 1)))
	c := renewed("n", 2)
	c.IssuedAt = late
	c.NotBefore = late.Add(-5 * time.Minute)
	c.NotAfter = late.Add(24 * time.Hour)
	must(t, s.AddCertificate(ctx, c, "print-n"))
	must(t, s.PromoteCertificate(ctx, c.Fingerprint, late))
	must(t, s.AddPSK(ctx, store.PSK{ID: "psk-00000001", Key: []byte("k"), CreatedAt: late}))
	must(t, s.NoteBackup(ctx, late))
	must(t, s.NoteRestore(ctx, store.Restoration{At: late, BackupAt: day(), AdoptUntil: late.Add(time.Hour)}))
	expires := late.Add(2 * time.Hour)
	must(t, s.CreateAccount(ctx, store.Account{ID: "msa_a", Name: "a", Scopes: []string{"nodes:read"}, SecretHash: []byte("h"),
		CreatedAt: late, ExpiresAt: &expires}))
	must(t, s.TouchAccount(ctx, "msa_a", late))

	now := after(30 * time.Second)
	if found, err := s.ClockAhead(ctx, now); err != nil || !found {
		t.Errorf("got %v, %v, want times ahead", found, err)
	}
	must(t, s.ClockSetBack(ctx, store.ClockStep{Now: now, By: ahead}, store.Event{At: now, Kind: "told"}))

	same := func(what string, got, want time.Time) {
		t.Helper()
		if !got.Equal(want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	n := node(t, s, "n")
	same("last seen", *n.LastSeen, day())
	same("last seen of the other, ahead by less", *node(t, s, "old").LastSeen, after(time.Minute).Add(-ahead))
	runs, err := s.Runs(ctx, "id-n")
	must(t, err)
	same("a run's last", runs[0].Last, day())
	same("a run's first", runs[0].First, day())
	got, err := s.Token(ctx, "mse_late")
	must(t, err)
	same("the token's making", got.CreatedAt, day())
	same("the token's end", got.ExpiresAt, after(time.Hour))
	early, err := s.Token(ctx, "mse_early")
	must(t, err)
	same("the other token's end", early.ExpiresAt, token("mse_early", 1).ExpiresAt)
	i, err := s.Identity(ctx, c.Fingerprint)
	must(t, err)
	same("the certificate's issue", i.Certificate.IssuedAt, day())
	same("its end", i.Certificate.NotAfter, after(24*time.Hour))
	same("its beginning, as it says itself", i.Certificate.NotBefore, c.NotBefore)
	same("its first use", *i.Certificate.FirstUsedAt, day())
	restored, err := s.Restoration(ctx)
	must(t, err)
	same("until when certificates are taken over", restored.AdoptUntil, after(time.Hour))
	backup, err := s.BackupAt(ctx)
	must(t, err)
	same("the backup", backup, day())
	account, err := s.Account(ctx, "msa_a")
	must(t, err)
	same("the account's end", *account.ExpiresAt, after(2*time.Hour))
	same("its last use", *account.LastUsedAt, day())
	if found, err := s.ClockAhead(ctx, now); err != nil || found {
		t.Errorf("afterwards: got %v, %v", found, err)
	}
	if events := countEvents(t, s, store.EventQuery{Kind: "told"}); events != 1 {
		t.Errorf("%d events", events)
	}
}

// TestSetForward: steps forward give back what a step back took, and never more.
func TestSetForward(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	made := after(time.Minute)
	k := token("mse_boot", 1)
	k.CreatedAt = made
	k.ExpiresAt = made.Add(time.Hour)
	must(t, s.CreateToken(ctx, k))
	expires := made.Add(2 * time.Hour)
	must(t, s.CreateAccount(ctx, store.Account{ID: "msa_a", Name: "a", Scopes: []string{"nodes:read"}, SecretHash: []byte("h"),
		CreatedAt: made, ExpiresAt: &expires}))
	must(t, s.CreateAccount(ctx, store.Account{ID: "msa_b", Name: "b", Scopes: []string{"nodes:read"}, SecretHash: []byte("h"),
		CreatedAt: made}))
	before, err := s.Identity(ctx, "print-n")
	must(t, err)

	must(t, s.ClockSetBack(ctx, store.ClockStep{Now: after(time.Minute).Add(-10 * time.Hour), By: 10 * time.Hour}))
	for _, c := range []struct{ forward, missing time.Duration }{{0, 10 * time.Hour}, {4 * time.Hour, 6 * time.Hour}, {20 * time.Hour, 0},
		{time.Hour, 0}} {
		must(t, s.ClockSetForward(ctx, c.forward))
		got, err := s.Token(ctx, "mse_boot")
		must(t, err)
		account, err := s.Account(ctx, "msa_a")
		must(t, err)
		i, err := s.Identity(ctx, "print-n")
		must(t, err)
		for what, missing := range map[string]time.Duration{
			"the token's end": k.ExpiresAt.Sub(got.ExpiresAt), "its making": made.Sub(got.CreatedAt),
			"the account's end":     expires.Sub(*account.ExpiresAt),
			"the certificate's end": before.Certificate.NotAfter.Sub(i.Certificate.NotAfter),
			"its issue":             before.Certificate.IssuedAt.Sub(i.Certificate.IssuedAt),
		} {
			if missing != c.missing {
				t.Errorf("forward by %s: %s is %s earlier than it was, want %s", c.forward, what, missing, c.missing)
			}
		}
	}
	if b, err := s.Account(ctx, "msa_b"); err != nil || b.ExpiresAt != nil {
		t.Errorf("got %+v, %v, want an account without an end", b, err)
	}
	must(t, s.ClockSetForward(ctx, 0, store.Event{At: day(), Kind: "told"}))
	if events := countEvents(t, s, store.EventQuery{Kind: "told"}); events != 1 {
		t.Errorf("%d events", events)
	}
}
