package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/store"
)

// renewed is a later generation of a node's certificate.
func renewed(name string, generation int) store.Certificate {
	id := fmt.Sprint(name, "/", generation)
	return store.Certificate{Fingerprint: "print-" + id, NodeID: "id-" + name, EnrolmentID: "enrolment-" + name, Generation: generation,
		Status:  store.CertificatePending,
		KeyHash: "key-" + id, PublicKey: []byte(id), Chain: "chain " + id, NotBefore: day(), NotAfter: after(48 * time.Hour),
		IssuedAt: after(16 * time.Hour)}
}

func status(t *testing.T, s *store.Store, fingerprint string) string {
	t.Helper()
	i, err := s.Identity(t.Context(), fingerprint)
	must(t, err)
	return i.Certificate.Status
}

func TestIdentity(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-n", From: "enrolled", To: "unavailable", At: after(time.Hour),
		AddReasons: []store.Reason{{Reason: "health"}}}))
	must(t, s.MarkFirstUse(ctx, "print-n", after(time.Hour)))
	must(t, s.MarkFirstUse(ctx, "print-n", after(2*time.Hour))) // changes nothing
	got, err := s.Identity(ctx, "print-n")
	must(t, err)
	c := enrolment("", "n").Certificate
	c.NodeID = "id-n"
	c.EnrolmentID = "enrolment-n"
	c.Generation = 1
	c.Status = "current"
	c.KeyHash = "key-n"
	c.FirstUsedAt = pointer(after(time.Hour))
	want := store.Identity{Certificate: c, NodeName: "n", Tenant: "default", State: "unavailable", NodeEnrolmentID: "enrolment-n",
		Reasons: []store.Reason{{Reason: "health", Since: after(time.Hour)}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	_, err = s.Identity(ctx, "print-none")
	wantError(t, err, store.ErrNotFound)
}

func TestRenewal(t *testing.T) {
	s := enrolled(t, "n", "other")
	ctx := t.Context()
	second := renewed("n", 2)
	third := renewed("n", 3)
	for _, c := range []struct {
		what   string
		do     func() error
		want   error
		states [3]string // of generations 1 to 3
	}{
		{"add", func() error { return s.AddCertificate(ctx, second, "print-n") }, nil, [3]string{"current", "pending"}},
		{"same key again", func() error { return s.AddCertificate(ctx, second, "print-n") }, store.ErrConflict,
			[3]string{"current", "pending"}},
		{"another key", func() error { return s.AddCertificate(ctx, third, "print-n") }, nil, [3]string{"current", "superseded",
			"pending"}},
		{"promote what is not pending", func() error { return s.PromoteCertificate(ctx, "print-n/2", after(17*time.Hour)) },
			store.ErrConflict,
			[3]string{"current", "superseded", "pending"}},
		{"promote none", func() error { return s.PromoteCertificate(ctx, "print-none", day()) }, store.ErrConflict,
			[3]string{"current", "superseded", "pending"}},
		{"promote", func() error { return s.PromoteCertificate(ctx, "print-n/3", after(17*time.Hour)) }, nil,
			[3]string{"superseded", "superseded", "current"}},
		{"promote twice", func() error { return s.PromoteCertificate(ctx, "print-n/3", after(18*time.Hour)) }, store.ErrConflict,
			[3]string{"superseded", "superseded", "current"}},
		{"add under one that is no longer current", func() error { return s.AddCertificate(ctx, renewed("n", 4), "print-n") },
			store.ErrConflict,
			[3]string{"superseded", "superseded", "current"}},
		{"add under another node's", func() error { return s.AddCertificate(ctx, renewed("n", 4), "print-other") }, store.ErrConflict,
			[3]string{"superseded", "superseded", "current"}},
		{"add a key known of another node", func() error {
			c := renewed("n", 4)
			c.KeyHash = "key-other"
			return s.AddCertificate(ctx, c, "print-n/3")
		}, store.ErrConflict, [3]string{"superseded", "superseded", "current"}},
	} {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, err, c.want)
		}
		for i, fingerprint := range []string{"print-n", "print-n/2", "print-n/3"} {
			if c.states[i] == "" {
				continue
			}
			if got := status(t, s, fingerprint); got != c.states[i] {
				t.Errorf("%s: %s is %s, want %s", c.what, fingerprint, got, c.states[i])
			}
		}
	}
	i, err := s.Identity(ctx, "print-n")
	must(t, err)
	if i.Certificate.EndedAt == nil || !i.Certificate.EndedAt.Equal(after(17*time.Hour)) {
		t.Errorf("the first ended at %v", i.Certificate.EndedAt)
	}
	i, err = s.Identity(ctx, "print-n/3")
	must(t, err)
	if i.Certificate.FirstUsedAt == nil || !i.Certificate.FirstUsedAt.Equal(after(17*time.Hour)) {
		t.Errorf("the third was first used at %v", i.Certificate.FirstUsedAt)
	}
	if got := node(t, s, "n").Certificate; got.Fingerprint != "print-n/3" || got.Generation != 3 || got.Status != "current" {
		t.Errorf("the node shows %+v", got)
	}
	if got := status(t, s, "print-other"); got != "current" {
		t.Errorf("another node's certificate is %s", got)
	}
}

func TestPromoteRace(t *testing.T) {
	s := enrolled(t, "n")
	must(t, s.AddCertificate(t.Context(), renewed("n", 2), "print-n"))
	var won atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if s.PromoteCertificate(t.Context(), "print-n/2", after(time.Hour),
				store.Event{At: day(), Kind: "certificate.first_use"}) == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if got := countEvents(t, s, store.EventQuery{Kind: "certificate.first_use"}); won.Load() != 1 || got != 1 {
		t.Errorf("%d promotions and %d events, want one of each", won.Load(), got)
	}
}

func TestDropChains(t *testing.T) {
	s := enrolled(t, "n", "other")
	ctx := t.Context()
	for generation := 2; generation <= 4; generation++ { // three ended ones, at 10, 20 and 30 hours
		c := renewed("n", generation)
		must(t, s.AddCertificate(ctx, c, map[int]string{2: "print-n", 3: "print-n/2", 4: "print-n/3"}[generation]))
		must(t, s.PromoteCertificate(ctx, c.Fingerprint, after(time.Duration(generation-1)*10*time.Hour)))
	}
	for _, want := range []int{1, 1, 0} { // what ended at the very time stays
		if n, err := s.DropChains(ctx, after(30*time.Hour), 1); err != nil || n != want {
			t.Errorf("dropped %d, %v; want %d", n, err, want)
		}
	}
	for fingerprint, kept := range map[string]bool{"print-n": false, "print-n/2": false, "print-n/3": true, "print-n/4": true,
		"print-other": true} {
		i, err := s.Identity(ctx, fingerprint)
		must(t, err)
		if c := i.Certificate; (c.Chain != "") != kept || len(c.PublicKey) == 0 || c.KeyHash == "" {
			t.Errorf("%s: %+v, want its chain: %v, and the rest", fingerprint, c, kept)
		}
	}
}

func TestPendingCertificate(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	want := renewed("n", 2)
	must(t, s.AddCertificate(ctx, want, "print-n"))
	got, err := s.PendingCertificate(ctx, "id-n", want.KeyHash)
	must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, c := range []struct{ node, key string }{{"id-other", want.KeyHash}, {"id-n", "key-none"}, {"id-n", "key-n"}} {
		_, err := s.PendingCertificate(ctx, c.node, c.key)
		wantError(t, err, store.ErrNotFound)
	}
}

func TestBannedKey(t *testing.T) {
	s := enrolled(t, "good", "retired", "banned")
	ctx := t.Context()
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-retired", From: "enrolled", To: "retired", At: day()}))
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-banned", From: "enrolled", To: "retired", At: day(), Ban: true}))
	for _, c := range []struct {
		key  string
		want bool
	}{{"key-good", false}, {"key-retired", false}, {"key-banned", true}, {"key-none", false}} {
		got, err := s.BannedKey(ctx, c.key)
		if err != nil || got != c.want {
			t.Errorf("%s: got %v, %v; want %v", c.key, got, err, c.want)
		}
	}
}
