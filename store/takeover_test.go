package store_test

import (
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/store"
)

// again is a second enrolment of the node that enrolment(.., name) made.
func again(name, suffix string) store.Enrolment {
	e := enrolment("mse_many", name+suffix)
	e.At = after(30 * time.Minute)
	e.Node.ID = "id-" + name
	e.Node.Name = name
	e.NewNode = false
	e.TakeOver = &store.TakeOver{EnrolmentID: "enrolment-" + name, State: "enrolled"}
	return e
}

func TestTakeOver(t *testing.T) {
	s := enrolled(t)
	ctx := t.Context()
	first := enrolment("mse_many", "n")
	first.CredentialLabels = map[string]string{"a": "1", "b": "1"}
	first.AgentLabels = map[string]string{"c": "1"}
	must(t, s.Enrol(ctx, first))
	must(t, s.SetLabels(ctx, "id-n", map[string]string{"mine": "kept"}, nil))
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-n", From: "enrolled", To: "enrolled", At: after(2 * time.Minute),
		AddReasons: []store.Reason{{Reason: "health"}, {Reason: "held", Person: true}}}))
	must(t, s.SaveBeats(ctx, []store.Beat{{NodeID: "id-n", At: after(5 * time.Minute), RunID: "r", Counter: 9, Interval: time.Minute,
		SkewMillis: 3, Hardware: `{"old":1}`}}, day()))
	allowRecovery(t, s, "n", after(time.Hour))
	must(t, s.AddCertificate(ctx, renewed("n", 2), "print-n"))

	e := again("n", "-2")
	e.Provider = "runpod"
	e.InstanceID = "x"
	e.Node.State = "drained"
	e.Node.GPUsExpected = 4
	e.CredentialLabels = map[string]string{"a": "2"}
	must(t, s.Enrol(ctx, e))

	got := node(t, s, "n")
	want := store.Node{ID: "id-n", Name: "n", Tenant: "default", Provider: "runpod", InstanceID: "x", State: "drained", StateSince: e.At,
		Reasons: []store.Reason{{Reason: "held", Person: true, Since: after(2 * time.Minute)}}, Labels: map[string]string{"a": "2",
			"mine": "kept"},
		CreatedAt: first.At, EnrolledAt: &e.At, EnrolmentID: e.ID, GPUsExpected: 4, LastSeen: pointer(after(5 * time.Minute)),
		Interval: time.Minute,
		Address:  "192.0.2.1", Agent: `{"version":"1.0"}`, Notices: []string{}, Hardware: `{"old":1}`,
		Certificate: store.Certificate{Fingerprint: "print-n-2", NotAfter: after(24 * time.Hour), Generation: 1, Status: "current"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, fingerprint := range []string{"print-n", "print-n/2"} {
		i, err := s.Identity(ctx, fingerprint)
		must(t, err)
		if c := i.Certificate; c.Status != store.CertificateRevoked || c.EndedAt == nil || !c.EndedAt.Equal(e.At) ||
			i.NodeEnrolmentID != e.ID {
			t.Errorf("%s: got %+v, want it revoked at %v", fingerprint, i, e.At)
		}
	}
	e = again("n", "-3")
	e.TakeOver.EnrolmentID, e.TakeOver.State, e.SameLabels = got.EnrolmentID, got.State, true
	must(t, s.Enrol(ctx, e))
	if labels := node(t, s, "n").Labels; !maps.Equal(labels, want.Labels) {
		t.Errorf("with a token that has no labels: got %v", labels)
	}
	e = again("n", "-4")
	e.TakeOver.EnrolmentID = "enrolment-n-3"
	must(t, s.Enrol(ctx, e))
	if labels := node(t, s, "n").Labels; len(labels) != 1 {
		t.Errorf("got %v, want those of the operator alone", labels)
	}
	if _, total := list(t, s, store.NodeQuery{Retired: true}); total != 1 {
		t.Errorf("got %d nodes, want 1: no ghosts", total)
	}
}

func TestTakeOverRefused(t *testing.T) {
	seen := after(10 * time.Minute)
	for _, c := range []struct {
		name   string
		change func(*store.Enrolment)
		want   error
	}{
		{"as it should be", nil, nil},
		{"enrolled again meanwhile", func(e *store.Enrolment) { e.TakeOver.EnrolmentID = "enrolment-before" }, store.ErrConflict},
		{"moved meanwhile", func(e *store.Enrolment) { e.TakeOver.State = "active" }, store.ErrConflict},
		{"heard from meanwhile", func(e *store.Enrolment) { e.TakeOver.LastSeenAtMost = pointer(seen.Add(-time.Millisecond)) },
			store.ErrConflict},
		{"not heard from meanwhile", func(e *store.Enrolment) { e.TakeOver.LastSeenAtMost = &seen }, nil},
		{"recovery open", func(e *store.Enrolment) { e.TakeOver.UseRecovery = true }, nil},
		{"recovery over", func(e *store.Enrolment) {
			e.TakeOver.UseRecovery = true
			e.At = after(40 * time.Minute)
		}, store.ErrConflict},
		{"signed by the key that it has", func(e *store.Enrolment) { e.TakeOver.SignedBy = "print-n" }, nil},
		{"signed by the next key", func(e *store.Enrolment) { e.TakeOver.SignedBy = "print-n/2" }, nil},
		{"signed by a key that ended meanwhile", func(e *store.Enrolment) { e.TakeOver.SignedBy = "print-n/1" }, store.ErrConflict},
		{"signed by another node's key", func(e *store.Enrolment) { e.TakeOver.SignedBy = "print-other" }, store.ErrConflict},
		{"a reason that it does not have", func(e *store.Enrolment) { e.TakeOver.Without = "another" }, nil},
		{"a reason that came meanwhile", func(e *store.Enrolment) { e.TakeOver.Without = "sick" }, store.ErrConflict},
		{"another tenant", func(e *store.Enrolment) { e.Node.Tenant = "other" }, store.ErrConflict},
		{"no such node", func(e *store.Enrolment) { e.Node.ID = "id-none" }, store.ErrConflict},
		{"a retired node", func(e *store.Enrolment) {
			e.Node.ID = "id-gone"
			e.TakeOver = &store.TakeOver{EnrolmentID: "enrolment-gone", State: "retired"}
		}, store.ErrConflict},
		{"the key that it had", func(e *store.Enrolment) { e.KeyHash = "key-n" }, store.ErrConflict},
		{"token used up", func(e *store.Enrolment) { e.Credential = "mse_none" }, store.ErrConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := enrolled(t, "n", "gone", "other")
			ctx := t.Context()
			must(t, s.AddCertificate(ctx, renewed("n", 1), "print-n")) // the next one replaces it
			must(t, s.AddCertificate(ctx, renewed("n", 2), "print-n"))
			must(t, s.MoveNode(ctx, store.Move{NodeID: "id-n", From: "enrolled", To: "enrolled", At: day(),
				AddReasons: []store.Reason{{Reason: "sick"}}}))
			must(t, s.MoveNode(ctx, store.Move{NodeID: "id-gone", From: "enrolled", To: "retired", At: after(time.Minute)}))
			must(t, s.SaveBeats(ctx, []store.Beat{{NodeID: "id-n", At: seen}}, day()))
			allowRecovery(t, s, "n", after(40*time.Minute))
			e := again("n", "-2")
			if c.change != nil {
				c.change(&e)
			}
			wantError(t, s.Enrol(ctx, e), c.want)
			i, err := s.Identity(ctx, "print-n")
			must(t, err)
			if got := i.Certificate.Status == store.CertificateCurrent; got != (c.want != nil) {
				t.Errorf("the old certificate is %s", i.Certificate.Status)
			}
		})
	}
}

func TestRecoveryIsSpent(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	allowRecovery(t, s, "n", after(time.Hour))
	var won atomic.Int64
	var all sync.WaitGroup
	for _, suffix := range []string{"-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h"} {
		all.Go(func() {
			e := again("n", suffix)
			e.TakeOver.UseRecovery = true
			if s.Enrol(ctx, e) == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d takeovers with one recovery, want 1", won.Load())
	}
	e := again("n", "-later")
	e.TakeOver.EnrolmentID = node(t, s, "n").EnrolmentID
	e.TakeOver.UseRecovery = true
	wantError(t, s.Enrol(ctx, e), store.ErrConflict)
}

// TestTakeOverCreated enrols a node that an operator created before.
func TestTakeOverCreated(t *testing.T) {
	s := enrolled(t)
	ctx := t.Context()
	must(t, s.CreateNode(ctx, store.Node{ID: "id-n", Name: "n", Tenant: "default", CreatedAt: day()}, map[string]string{"zone": "a"}))
	e := again("n", "-1")
	e.TakeOver = &store.TakeOver{State: store.StateReady}
	must(t, s.Enrol(ctx, e))
	got := node(t, s, "n")
	if got.State != "enrolled" || got.EnrolmentID != e.ID || got.Labels["zone"] != "a" || got.Certificate.Fingerprint != "print-n-1" {
		t.Errorf("got %+v", got)
	}
}

// allowRecovery lets a node be taken over once, or its expired certificate be renewed, until then.
func allowRecovery(t *testing.T, s *store.Store, name string, until time.Time) {
	t.Helper()
	n := node(t, s, name)
	must(t, s.MoveNode(t.Context(), store.Move{NodeID: n.ID, From: n.State, To: n.State, At: day(), RecoveryUntil: &until}))
}
