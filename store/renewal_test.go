package store_test

import (
	"reflect"
	"testing"
	"time"

	"muster/store"
)

// TestMarkOverdue: two thirds and a twentieth of a life that began with the issue; each certificate once.
func TestMarkOverdue(t *testing.T) {
	s := enrolled(t, "n", "gone", "renewed")
	ctx := t.Context()
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-gone", From: "enrolled", To: "retired", At: day()}))
	must(t, s.AddCertificate(ctx, renewed("renewed", 2), "print-renewed"))
	must(t, s.PromoteCertificate(ctx, "print-renewed/2", after(16*time.Hour)))
	life := 24*time.Hour - time.Minute
	due := after(time.Minute + life*43/60)
	for _, c := range []struct {
		at   time.Time
		want int
	}{{due, 0}, {due.Add(time.Millisecond), 1}, {due.Add(time.Hour), 0}, {after(39 * time.Hour), 1}} {
		exists, err := s.HasOverdue(ctx, c.at)
		must(t, err)
		got, err := s.MarkOverdue(ctx, c.at, "renewal.overdue", "gateway")
		if err != nil || got != c.want || exists != (c.want > 0) {
			t.Errorf("at %v: got %d (%v), %v; want %d", c.at, got, exists, err, c.want)
		}
	}
	if got := node(t, s, "n").Certificate; got.OverdueAt == nil || !got.OverdueAt.Equal(due.Add(time.Millisecond)) {
		t.Errorf("got %+v", got)
	}
	events, err := s.Events(ctx, store.EventQuery{Kind: "renewal.overdue", Ascending: true})
	must(t, err)
	want := map[string]string{"fingerprint": "print-n", "generation": "1", "not_after": "2026-03-05T05:06:07Z"}
	if len(events) != 2 || events[0].NodeName != "n" || events[0].NodeID != "id-n" || events[0].Tenant != "default" ||
		!reflect.DeepEqual(events[0].Detail, want) {
		t.Errorf("got events %+v", events)
	}
}

func TestExpiredNodes(t *testing.T) {
	s := enrolled(t, "n", "gone")
	ctx := t.Context()
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-gone", From: "enrolled", To: "retired", At: day()}))
	_, err := s.MarkOverdue(ctx, after(20*time.Hour), "x", "gateway")
	must(t, err)
	for _, c := range []struct {
		at   time.Duration
		want int
	}{{24 * time.Hour, 0}, {24*time.Hour + time.Millisecond, 1}} {
		got, err := s.ExpiredNodes(ctx, after(c.at), "expired")
		if err != nil || len(got) != c.want {
			t.Errorf("after %v: got %v, %v; want %d", c.at, got, err, c.want)
		}
	}
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-n", From: "enrolled", To: "unavailable", At: day(),
		AddReasons: []store.Reason{{Reason: "expired"}}}))
	if got, err := s.ExpiredNodes(ctx, after(48*time.Hour), "expired"); err != nil || len(got) != 0 {
		t.Errorf("with the reason: got %v, %v", got, err)
	}
}

// TestKeepCertificate makes one certificate the only one, whatever it was before.
func TestKeepCertificate(t *testing.T) {
	for _, keep := range []string{"print-n", "print-n/2", "print-n/3"} {
		s := enrolled(t, "n")
		ctx := t.Context()
		must(t, s.AddCertificate(ctx, renewed("n", 2), "print-n"))
		must(t, s.PromoteCertificate(ctx, "print-n/2", after(17*time.Hour)))
		must(t, s.AddCertificate(ctx, renewed("n", 3), "print-n/2"))
		until := after(time.Hour)
		move := store.Move{NodeID: "id-n", From: "enrolled", To: "enrolled", At: after(18 * time.Hour), KeepCertificate: keep,
			RecoveryUntil: &until}
		must(t, s.MoveNode(ctx, move))
		for _, fingerprint := range []string{"print-n", "print-n/2", "print-n/3"} {
			want := "revoked"
			if fingerprint == keep {
				want = "current"
			}
			if got := status(t, s, fingerprint); got != want {
				t.Errorf("keep %s: %s is %s, want %s", keep, fingerprint, got, want)
			}
		}
		n := node(t, s, "n")
		if n.Certificate.Fingerprint != keep || n.RecoveryUntil == nil || !n.RecoveryUntil.Equal(until) {
			t.Errorf("keep %s: got %+v", keep, n)
		}
		if certificates, err := s.Certificates(ctx, "id-n"); err != nil || len(certificates) != 3 || certificates[0].Generation != 3 {
			t.Errorf("got %d certificates, %v", len(certificates), err)
		}
	}
	s := enrolled(t, "n", "other")
	must(t, s.Enrol(t.Context(), again("n", "-2")))
	for _, keep := range []string{"print-other", "print-n", "print-none"} { // another node's, of an enrolment before, nobody's
		err := s.MoveNode(t.Context(), store.Move{NodeID: "id-n", From: "enrolled", To: "enrolled", At: day(), KeepCertificate: keep})
		wantError(t, err, store.ErrConflict)
	}
	if got := node(t, s, "n").Certificate.Fingerprint; got != "print-n-2" {
		t.Errorf("the current certificate is %s", got)
	}
}

// TestOldCertificateIsListed: a certificate that an operator chose is on the list, however many newer ones there were.
func TestOldCertificateIsListed(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	current := "print-n"
	for generation := 2; generation <= 10; generation++ {
		next := renewed("n", generation)
		must(t, s.AddCertificate(ctx, next, current))
		must(t, s.PromoteCertificate(ctx, next.Fingerprint, after(time.Hour)))
		current = next.Fingerprint
	}
	choice := store.Move{NodeID: "id-n", From: "enrolled", To: "enrolled", At: after(2 * time.Hour), KeepCertificate: "print-n"}
	must(t, s.MoveNode(ctx, choice))
	certificates, err := s.Certificates(ctx, "id-n")
	if err != nil || len(certificates) != 9 {
		t.Fatalf("got %d certificates, %v", len(certificates), err)
	}
	if last := certificates[8]; last.Fingerprint != "print-n" || certificates[0].Generation != 10 {
		t.Errorf("the last is %s, the first has generation %d", last.Fingerprint, certificates[0].Generation)
	}
}

// TestRecoveries counts what is issued to an expired certificate, and its first use closes what an operator opened.
func TestRecoveries(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	allowRecovery(t, s, "n", after(100*time.Hour))
	must(t, s.AddCertificate(ctx, renewed("n", 2), "print-n"))
	must(t, s.PromoteCertificate(ctx, "print-n/2", after(17*time.Hour)))
	if n := node(t, s, "n"); n.Recoveries != 0 || n.RecoveryUntil == nil {
		t.Errorf("an ordinary renewal: got %+v", n)
	}
	recovered := renewed("n", 3)
	recovered.Recovery = true
	must(t, s.AddCertificate(ctx, recovered, "print-n/2"))
	wantError(t, s.AddCertificate(ctx, recovered, "print-n/2"), store.ErrConflict)
	if n := node(t, s, "n"); n.Recoveries != 1 || n.RecoveryUntil == nil {
		t.Errorf("issued: got %+v", n)
	}
	must(t, s.PromoteCertificate(ctx, "print-n/3", after(60*time.Hour)))
	if n := node(t, s, "n"); n.Recoveries != 1 || n.RecoveryUntil != nil {
		t.Errorf("used: got %+v", n)
	}
}

// TestSuccessorUse tells when a certificate that came after a superseded one was first used.
func TestSuccessorUse(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	successor := func(fingerprint string) *time.Time {
		i, err := s.Identity(ctx, fingerprint)
		must(t, err)
		return i.SuccessorUsedAt
	}
	must(t, s.MarkFirstUse(ctx, "print-n", after(time.Minute)))
	lost := renewed("n", 2)
	second := renewed("n", 22)
	second.Generation = 2
	must(t, s.AddCertificate(ctx, lost, "print-n"))
	must(t, s.AddCertificate(ctx, second, "print-n"))
	for _, fingerprint := range []string{"print-n", lost.Fingerprint, second.Fingerprint} {
		if got := successor(fingerprint); got != nil {
			t.Errorf("%s: got %v, want none", fingerprint, got)
		}
	}
	used := after(20 * time.Hour)
	must(t, s.PromoteCertificate(ctx, second.Fingerprint, used))
	third := renewed("n", 3)
	third.IssuedAt = after(32 * time.Hour)
	must(t, s.AddCertificate(ctx, third, second.Fingerprint))
	must(t, s.PromoteCertificate(ctx, third.Fingerprint, after(33*time.Hour)))
	for fingerprint, want := range map[string]time.Time{"print-n": used, lost.Fingerprint: used,
		second.Fingerprint: after(33 * time.Hour)} {
		if got := successor(fingerprint); got == nil || !got.Equal(want) {
			t.Errorf("%s: got %v, want %v", fingerprint, got, want)
		}
	}
}
