package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/fleet"
)

func (f *world) sweep() {
	f.t.Helper()
	if err := f.Sweep(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// TestSweep follows a certificate whose renewal does not come, and what cures it.
func TestSweep(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, nil)
	f.enrolled("gone")
	f.apply("gone", fleet.Retire)
	overdue := wire.RenewAfter(authority.DefaultTTL) + wire.RenewSpread(authority.DefaultTTL)
	for _, c := range []struct {
		at      time.Duration
		events  int
		state   string
		reasons string
	}{
		{0, 0, "active", ""},
		{overdue, 0, "active", ""},
		{overdue + time.Second, 1, "active", ""},
		{overdue + time.Hour, 1, "active", ""},
		{authority.DefaultTTL, 1, "active", ""},
		{authority.DefaultTTL + time.Second, 1, "unavailable", wire.ReasonExpired},
		{authority.DefaultTTL + time.Hour, 1, "unavailable", wire.ReasonExpired},
	} {
		f.clock.Forward(start.Add(c.at).Sub(f.clock.Now()))
		f.sweep()
		n := f.seen("box")
		if got := len(f.events("renewal.overdue")); got != c.events || (n.Certificate.OverdueAt != nil) != (c.events > 0) ||
			n.State != c.state || reasons(n) != c.reasons {
			t.Errorf("after %v: got %d events, overdue %v, %s %s; want %+v", c.at, got, n.Certificate.OverdueAt, n.State, reasons(n), c)
		}
	}
	if e := f.events("renewal.overdue")[0]; e.NodeName != "box" || e.Tenant != "platform" || e.Detail["generation"] != "1" ||
		e.Actor != "gateway" ||
		e.Detail["fingerprint"] != ad.Certificate.Fingerprint || e.Detail["not_after"] != "2026-11-22T12:00:00Z" {
		t.Errorf("got event %+v", e)
	}
	next := f.renew(ad.Certificate.Fingerprint)
	f.use(next.Fingerprint)
	ad.Certificate = next
	if state := f.beat(ad, 2, health(wire.HealthGPUCountDropped)); state != fleet.Unavailable ||
		reasons(f.seen("box")) != wire.HealthGPUCountDropped {
		t.Errorf("renewed, but ill: got %s %s", state, reasons(f.seen("box")))
	}
	if state := f.beat(ad, 3, nil); state != fleet.Active {
		t.Errorf("renewed and well: got %s", state)
	}
	f.sweep()
	if n := f.seen("box"); n.Certificate.OverdueAt != nil || len(f.events("renewal.overdue")) != 1 {
		t.Errorf("got %+v", n.Certificate)
	}
}

// TestSweepOfMany: if all renewals of a large fleet stop, every node gets its event.
func TestSweepOfMany(t *testing.T) {
	f := newFleet(t)
	const nodes = 520 // more than one write holds
	for i := range nodes {
		f.enrolled(fmt.Sprintf("box%d", i))
	}
	f.clock.Forward(20 * time.Hour)
	f.sweep()
	if got := len(f.events("renewal.overdue")); got != nodes {
		t.Errorf("%d events, want %d", got, nodes)
	}
}

// TestSweepAfterAStart: nodes could not renew while the gateway was away, so they get time to come back.
func TestSweepAfterAStart(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, nil)
	f.flush()
	f.clock.Forward(48 * time.Hour)
	f.restart()
	f.sweep()
	if n := f.seen("box"); n.State != "active" || len(f.events("renewal.overdue")) != 0 {
		t.Errorf("right after a start: got %s", n.State)
	}
	f.clock.Forward(6 * time.Minute)
	f.sweep()
	if n := f.seen("box"); n.State != "unavailable" || len(f.events("renewal.overdue")) != 1 {
		t.Errorf("minutes later: got %s", n.State)
	}
}

// TestSweepWithoutADatabase says so.
func TestSweepWithoutADatabase(t *testing.T) {
	f := newFleet(t)
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Sweep(t.Context()); err == nil {
		t.Error("got no error from a closed store")
	}
}
