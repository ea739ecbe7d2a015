package fleet_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/fleet"
	"muster/store"
)

func (f *world) recover(name string, q api.RecoveryRequest) fleet.Node {
	f.t.Helper()
	n, err := f.AllowRecovery(f.t.Context(), "", name, q, operator)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

// stray is a proven request with a certificate, as the node API brings it.
func (f *world) stray(fingerprint string, purpose fleet.Purpose, p fleet.Proof) error {
	f.t.Helper()
	return f.Stray(f.t.Context(), f.identity(fingerprint), p, purpose)
}

// TestStray: what the use of a superseded certificate means depends on when its proof was made.
func TestStray(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name   string
		after  time.Duration // of the successor's first use: the request arrives
		made   time.Duration // after it: the proof was made
		opened time.Duration // after it: the connection was; 0: not known
		want   string        // for a heartbeat
		event  string
	}{
		{"in flight", second, -second, 0, wire.CodeSupersededRetry, ""},
		{"a minute later", 60 * second, 60 * second, 0, wire.CodeSupersededRetry, ""},
		{"signed before and held up for minutes", 5 * time.Minute, 30 * second, 0, wire.CodeSupersededRetry, ""},
		{"on a connection of before", 119 * second, 119 * second, -second, wire.CodeSupersededRetry, ""},
		{"on a connection of before, long after", 121 * second, 121 * second, -second, "ok", "identity.conflict"},
		{"on a connection of after", 61 * second, 61 * second, second, "ok", "identity.conflict"},
		{"a minute and a second later", 61 * second, 61 * second, 0, "ok", "identity.conflict"},
		{"hours later", 10 * time.Hour, 10 * time.Hour, 0, "ok", "identity.conflict"},
		{"expired, and could still be renewed", 24 * time.Hour, 24 * time.Hour, 0, wire.CodeExpired, "identity.conflict"},
		{"older than the window", 24*time.Hour + grace, 24*time.Hour + grace, 0, wire.CodeSupersededRetry, "identity.stray"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			ad := f.enrolled("box")
			f.beat(ad, 1, nil)
			old := ad.Certificate.Fingerprint
			next := f.renew(old)
			if err := f.stray(old, fleet.ForHeartbeat, fleet.Proof{At: f.clock.Now()}); err != nil {
				t.Fatalf("before the first use: %v", err)
			}
			f.clock.Forward(time.Hour)
			f.use(next.Fingerprint)
			used := f.clock.Now()
			f.clock.Forward(c.after)
			p := fleet.Proof{Address: address, At: used.Add(c.made)}
			if c.opened != 0 {
				p.Opened = used.Add(c.opened)
			}
			if err := f.stray(old, fleet.ForHeartbeat, p); code(err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			trips := c.event == "identity.conflict"
			if got := reasons(f.seen("box")); (got == wire.ReasonConflict) != trips {
				t.Errorf("got reasons %q", got)
			}
			for _, kind := range []string{"identity.conflict", "identity.stray"} {
				if got := len(f.events(kind)); (got == 1) != (kind == c.event) {
					t.Errorf("%d events %s", got, kind)
				}
			}
			for range 3 { // once is enough for a record
				_ = f.stray(old, fleet.ForHeartbeat, p)
			}
			if got := len(f.events("identity.stray")) + len(f.events("identity.conflict")); got > 1 {
				t.Errorf("%d events", got)
			}
		})
	}
}

// TestStrayThatHangsUp: the use of a superseded certificate is recorded also if its sender does not wait for the answer.
func TestStrayThatHangsUp(t *testing.T) {
	for event, after := range map[string]time.Duration{"identity.conflict": time.Hour, "identity.stray": 25*time.Hour + grace} {
		f := newFleet(t)
		ad := f.enrolled("box")
		f.beat(ad, 1, nil)
		f.use(f.renew(ad.Certificate.Fingerprint).Fingerprint)
		old := f.identity(ad.Certificate.Fingerprint)
		f.clock.Forward(after)
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		_ = f.Stray(gone, old, fleet.Proof{Address: address, At: f.clock.Now()}, fleet.ForHeartbeat)
		if got := len(f.events(event)); got != 1 {
			t.Errorf("%d events %s, want 1", got, event)
		}
	}
}

// TestStrayForSomethingElse: a request that is no heartbeat closes the node too, and is refused.
func TestStrayForSomethingElse(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, nil)
	next := f.renew(ad.Certificate.Fingerprint)
	f.use(next.Fingerprint)
	f.clock.Forward(time.Hour)
	err := f.stray(ad.Certificate.Fingerprint, fleet.ForRenewal, fleet.Proof{At: f.clock.Now()})
	if code(err) != wire.CodeIdentityConflict {
		t.Errorf("got %v", err)
	}
	if err := f.may(next.Fingerprint, fleet.ForRenewal); code(err) != wire.CodeIdentityConflict {
		t.Errorf("the newer one's renewal: got %v", err)
	}
	if err := f.may(next.Fingerprint, fleet.ForHeartbeat); err != nil {
		t.Errorf("the newer one's heartbeat: got %v", err)
	}
}

// TestStrayThatWasNeverUsed: two copies renew, and the one whose certificate was replaced uses it.
func TestStrayThatWasNeverUsed(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, nil)
	mine := f.renew(ad.Certificate.Fingerprint)
	theirs := f.renew(ad.Certificate.Fingerprint)
	f.clock.Forward(time.Hour)
	now := func() fleet.Proof { return fleet.Proof{At: f.clock.Now()} }
	if err := f.stray(mine.Fingerprint, fleet.ForHeartbeat, now()); code(err) != wire.CodeSupersededRetry {
		t.Errorf("before the other's first use: got %v", err)
	}
	f.use(theirs.Fingerprint)
	if err := f.stray(mine.Fingerprint, fleet.ForHeartbeat, now()); code(err) != wire.CodeSupersededRetry {
		t.Errorf("soon after: got %v", err)
	}
	f.clock.Forward(61 * time.Second)
	if err := f.stray(mine.Fingerprint, fleet.ForHeartbeat, now()); err != nil || reasons(f.seen("box")) != wire.ReasonConflict {
		t.Errorf("got %v and %q, want a conflict", err, reasons(f.seen("box")))
	}
	f.use(mine.Fingerprint) // a heartbeat in conflict is the first use of nothing
	if id := f.identity(mine.Fingerprint); !id.Superseded() {
		t.Error("a superseded certificate came back")
	}
}

// TestChoose ends a conflict for one certificate, whichever it is.
func TestChoose(t *testing.T) {
	for _, chosen := range []string{"the old one", "the new one"} {
		t.Run(chosen, func(t *testing.T) {
			f := newFleet(t)
			ad := f.enrolled("box")
			f.beat(ad, 1, nil)
			old := ad.Certificate.Fingerprint
			next := f.renew(old).Fingerprint
			f.use(next)
			f.clock.Forward(time.Hour)
			if err := f.stray(old, fleet.ForHeartbeat, fleet.Proof{At: f.clock.Now()}); err != nil {
				t.Fatal(err)
			}
			good := old
			bad := next
			if chosen == "the new one" {
				good = next
				bad = old
			}
			if _, err := f.AllowRecovery(t.Context(), "", "box", api.RecoveryRequest{}, operator); code(err) != wire.CodeIllegalMove {
				t.Errorf("without saying which: got %v", err)
			}
			n := f.recover("box", api.RecoveryRequest{Fingerprint: strings.ToUpper(good[:12])})
			if n.State != "active" || len(n.Reasons) != 0 || n.Certificate.Fingerprint != good {
				t.Errorf("got %s %v with %s", n.State, n.Reasons, n.Certificate.Fingerprint)
			}
			for purpose := range 3 {
				if err := f.may(good, fleet.Purpose(purpose)); err != nil {
					t.Errorf("the good one: %v", err)
				}
				if err := f.may(bad, fleet.Purpose(purpose)); code(err) != wire.CodeRevoked {
					t.Errorf("the other: got %v, want revoked", err)
				}
			}
			third := f.renew(good)
			f.use(third.Fingerprint)
			if id := f.identity(third.Fingerprint); id.Generation < 2 {
				t.Errorf("generation %d", id.Generation)
			}
			n = f.recover("box", api.RecoveryRequest{Fingerprint: bad}) // the operator erred
			if err := f.may(bad, fleet.ForAnything); err != nil || n.Certificate.Fingerprint != bad {
				t.Errorf("the other one after all: %v", err)
			}
		})
	}
}

// TestChooseAmongRuns: while both machines hold one certificate, the copy closes the node again unless it was stopped.
func TestChooseAmongRuns(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.play(ad, "A1 5m A2 30s B1 30s A3 30s A4")
	f.recover("box", api.RecoveryRequest{Fingerprint: ad.Certificate.Fingerprint})
	f.play(ad, "30s A5 30s A6 30s A7 30s A8")
	if n := f.seen("box"); n.State != "active" || len(n.Reasons) != 0 {
		t.Errorf("the copy was stopped: got %s %v", n.State, n.Reasons)
	}
	f.play(ad, "2m B5 30s A9 30s A10")
	if n := f.seen("box"); reasons(n) != wire.ReasonConflict {
		t.Errorf("it was not: got %s %v", n.State, n.Reasons)
	}
}

func TestChooseRefuses(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	other := f.enrolled("other")
	f.enrolled("gone")
	f.apply("gone", fleet.Retire)
	if err := f.store.CreateNode(t.Context(), store.Node{ID: "n-1", Name: "waits", Tenant: "platform", CreatedAt: start}, nil); err != nil {
		t.Fatal(err)
	}
	good := ad.Certificate.Fingerprint
	for _, c := range []struct {
		node string
		q    api.RecoveryRequest
		want string
	}{
		{"nowhere", api.RecoveryRequest{}, wire.CodeNotFound},
		{"gone", api.RecoveryRequest{}, wire.CodeIllegalMove},
		{"waits", api.RecoveryRequest{}, wire.CodeIllegalMove},
		{"box", api.RecoveryRequest{For: api.Duration(time.Second)}, wire.CodeBadRequest},
		{"box", api.RecoveryRequest{For: api.Duration(8 * 24 * time.Hour)}, wire.CodeBadRequest},
		{"box", api.RecoveryRequest{For: api.Duration(-time.Hour)}, wire.CodeBadRequest},
		{"box", api.RecoveryRequest{Fingerprint: good[:7]}, wire.CodeBadRequest},
		{"box", api.RecoveryRequest{Fingerprint: "not hex at all"}, wire.CodeBadRequest},
		{"box", api.RecoveryRequest{Fingerprint: good + "00"}, wire.CodeBadRequest},
		{"box", api.RecoveryRequest{Fingerprint: other.Certificate.Fingerprint}, wire.CodeBadRequest},
	} {
		_, err := f.AllowRecovery(t.Context(), "", c.node, c.q, operator)
		if code(err) != c.want || hint(err) == "" {
			t.Errorf("%s %+v: got %v, want %s with a hint", c.node, c.q, err, c.want)
		}
	}
	if _, err := f.AllowRecovery(t.Context(), "rival", "box", api.RecoveryRequest{}, operator); code(err) != wire.CodeNotFound {
		t.Errorf("another tenant's operator: got %v", err)
	}
	f.recover("box", api.RecoveryRequest{Fingerprint: "sha256:" + good, For: api.Duration(2 * time.Hour)})
	if e := f.events("node.recovery_allowed")[0]; !e.Security || e.Actor != operator.Name || e.Detail["fingerprint"] != good ||
		e.Detail["until"] != "2026-11-21T14:00:00Z" {
		t.Errorf("got event %+v", e)
	}
}

// TestRecoveryBeyondTheGrace: an operator's word opens a window in which a certificate renews however old it is; its first
// use closes the window.
func TestRecoveryBeyondTheGrace(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, nil)
	f.clock.Forward(authority.DefaultTTL + grace + time.Second)
	old := ad.Certificate.Fingerprint
	may := func() string { return code(f.may(old, fleet.ForRenewal)) }
	if err := f.may(old, fleet.ForRenewal); code(err) != wire.CodeExpired || !strings.Contains(hint(err),
		"muster node allow-recovery box") {
		t.Errorf("got %v, want certificate_expired and the way out", err)
	}
	f.recover("box", api.RecoveryRequest{For: api.Duration(time.Hour)})
	f.clock.Forward(time.Hour)
	if got := may(); got != wire.CodeExpired {
		t.Errorf("after the window: got %s", got)
	}
	f.recover("box", api.RecoveryRequest{})
	if err := f.may(old, fleet.ForHeartbeat); code(err) != wire.CodeExpired {
		t.Errorf("a heartbeat in the window: got %v", err)
	}
	next := f.renew(old)
	if n := f.seen("box"); n.Recoveries != 1 || n.RecoveryUntil == nil {
		t.Errorf("got %d recoveries, until %v", n.Recoveries, n.RecoveryUntil)
	}
	if got := may(); got != "ok" {
		t.Errorf("a retry: got %s", got)
	}
	f.use(next.Fingerprint)
	if n := f.seen("box"); n.Recoveries != 1 || n.RecoveryUntil != nil {
		t.Errorf("after the first use: got %d recoveries, until %v", n.Recoveries, n.RecoveryUntil)
	}
	if e := f.events("certificate.recovered"); len(e) != 1 || !e[0].Security || e[0].Detail["expired"] == "" {
		t.Errorf("got events %+v", e)
	}
}

// TestNoGrace: with a grace of nothing, nothing expired renews, but what an operator allows.
func TestNoGrace(t *testing.T) {
	f := newFleet(t)
	r, err := fleet.Open(t.Context(), fleet.Config{Store: f.store, Now: f.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	f.Fleet = r
	ad := f.enrolled("box")
	f.beat(ad, 1, nil)
	f.clock.Forward(authority.DefaultTTL)
	if err := f.may(ad.Certificate.Fingerprint, fleet.ForRenewal); err != nil {
		t.Errorf("in its last second: got %v", err)
	}
	f.clock.Forward(time.Second)
	if err := f.may(ad.Certificate.Fingerprint, fleet.ForRenewal); code(err) != wire.CodeExpired {
		t.Errorf("a second later: got %v", err)
	}
	f.recover("box", api.RecoveryRequest{})
	if err := f.may(ad.Certificate.Fingerprint, fleet.ForRenewal); err != nil {
		t.Errorf("allowed: got %v", err)
	}
}
