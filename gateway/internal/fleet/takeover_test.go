package fleet_test

import (
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/store"
)

// takeOvers has every rule for a name that a live node has.
var takeOvers = []struct {
	name  string
	apply func(f *world, holder fleet.Admission) fleet.Applicant
	want  string
	why   string
}{
	{"a node that is online, with a newer token", func(f *world, _ fleet.Admission) fleet.Applicant {
		return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
	}, wire.CodeNameInUse, ""},
	{"three intervals of silence are not stale yet", func(f *world, _ fleet.Admission) fleet.Applicant {
		f.clock.Forward(3 * pace)
		return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
	}, wire.CodeNameInUse, ""},
	{"a stale node, with a newer token", func(f *world, _ fleet.Admission) fleet.Applicant {
		f.clock.Forward(3*pace + time.Second)
		return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
	}, "ok", "the node was silent and the token is newer"},
	{"a stale node, with a token minted before it was last heard", func(f *world, holder fleet.Admission) fleet.Applicant {
		token := f.token("mse_b001", nil)
		f.clock.Forward(time.Second)
		f.beat(holder, 2, nil)
		f.clock.Forward(10 * time.Minute)
		return f.applicant(token, "box", newKey(f.t))
	}, wire.CodeNameInUse, ""},
	{"a stale node, heard last in what waits in memory", func(f *world, holder fleet.Admission) fleet.Applicant {
		f.clock.Forward(10 * time.Minute)
		f.beat(holder, 2, nil)
		return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
	}, wire.CodeNameInUse, ""},
	{"a stale node, with the PSK", func(f *world, _ fleet.Admission) fleet.Applicant {
		f.clock.Forward(10 * time.Minute)
		psk := f.psk()
		psk.Tenant = "platform"
		return f.applicant(psk, "box", newKey(f.t))
	}, wire.CodeNameInUse, ""},
	{"a stale node of another tenant", func(f *world, _ fleet.Admission) fleet.Applicant {
		f.clock.Forward(10 * time.Minute)
		return f.applicant(f.token("mse_b001", func(s *store.Token) { s.Tenant = "rival" }), "box", newKey(f.t))
	}, wire.CodeNameInUse, ""},
	{"an online node that signs with its own key", func(f *world, holder fleet.Admission) fleet.Applicant {
		a := f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
		a.Identity = f.identity(holder.Certificate.Fingerprint)
		return a
	}, "ok", "signed by the node's own key"},
	{"the PSK, and the node's own key", func(f *world, holder fleet.Admission) fleet.Applicant {
		psk := f.psk()
		psk.Tenant = "platform"
		a := f.applicant(psk, "box", newKey(f.t))
		a.Identity = f.identity(holder.Certificate.Fingerprint)
		return a
	}, "ok", "signed by the node's own key"},
	{"the key of another node", func(f *world, _ fleet.Admission) fleet.Applicant {
		a := f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
		a.Identity = f.identity(f.enrolled("neighbour").Certificate.Fingerprint)
		return a
	}, wire.CodeNameInUse, ""},
	{"its own key, but a token of another tenant", func(f *world, holder fleet.Admission) fleet.Applicant {
		a := f.applicant(f.token("mse_b001", func(s *store.Token) { s.Tenant = "rival" }), "box", newKey(f.t))
		a.Identity = f.identity(holder.Certificate.Fingerprint)
		return a
	}, wire.CodeNameInUse, ""},
	{"an operator allowed it", func(f *world, holder fleet.Admission) fleet.Applicant {
		f.allow(holder, 10*time.Minute)
		return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
	}, "ok", "the operator allowed recovery"},
	{"an operator allowed it, too long ago", func(f *world, holder fleet.Admission) fleet.Applicant {
		f.allow(holder, time.Second)
		f.clock.Forward(time.Second)
		return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
	}, wire.CodeNameInUse, ""},
	{"an operator allowed it, for another tenant's token", func(f *world, holder fleet.Admission) fleet.Applicant {
		f.allow(holder, 10*time.Minute)
		return f.applicant(f.token("mse_b001", func(s *store.Token) { s.Tenant = "rival" }), "box", newKey(f.t))
	}, wire.CodeNameInUse, ""},
	{"a token that is bound to the node", func(f *world, holder fleet.Admission) fleet.Applicant {
		return f.applicant(f.token("msb_b001", func(s *store.Token) { s.NodeID = holder.Node.ID }), "another-name", newKey(f.t))
	}, "ok", "a token bound to this node"},
}

func TestTakeOver(t *testing.T) {
	for _, c := range takeOvers {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			holder := f.enrolled("box")
			f.beat(holder, 1, nil)
			f.flush()
			got, err := f.Enrol(t.Context(), c.apply(f, holder))
			if c.want != "ok" {
				f.wantRefusal(err, c.want)
				if strings.Contains(err.Error(), "platform") || strings.Contains(err.Error(), holder.Node.ID) {
					t.Errorf("%v names more than the name", err)
				}
				if err := f.may(holder.Certificate.Fingerprint, fleet.ForAnything); err != nil {
					t.Errorf("the holder: got %v, want its identity untouched", err)
				}
				return
			}
			f.wantTakenOver(err, holder, got, c.why)
		})
	}
}

func (f *world) wantTakenOver(err error, holder, got fleet.Admission, why string) {
	f.t.Helper()
	if err != nil || got.New || got.Node.ID != holder.Node.ID {
		f.t.Fatalf("got %+v, %v, want node %s taken over", got, err, holder.Node.ID)
	}
	if n := f.seen("box"); n.State != "enrolled" || n.Tenant != "platform" || n.EnrolmentID == holder.Node.EnrolmentID {
		f.t.Errorf("got %+v, want the node enrolled anew", n)
	}
	if err := f.may(holder.Certificate.Fingerprint, fleet.ForAnything); code(err) != wire.CodeSuperseded {
		f.t.Errorf("the old certificate: got %v, want superseded", err)
	}
	if err := f.may(got.Certificate.Fingerprint, fleet.ForAnything); err != nil {
		f.t.Errorf("the new certificate: got %v", err)
	}
	events := f.events("node.enrolled")
	if events[0].Detail["took_over"] != why {
		f.t.Errorf("got event %+v, want the reason %q", events[0], why)
	}
}

func (f *world) allow(ad fleet.Admission, d time.Duration) {
	f.t.Helper()
	n := f.stored(ad.Node.Name)
	until := f.clock.Now().Add(d)
	move := store.Move{NodeID: n.ID, From: n.State, To: n.State, At: f.clock.Now(), RecoveryUntil: &until}
	if err := f.store.MoveNode(f.t.Context(), move); err != nil {
		f.t.Fatal(err)
	}
}

func TestRecoveryIsSpent(t *testing.T) {
	f := newFleet(t)
	holder := f.enrolled("box")
	f.beat(holder, 1, nil)
	f.allow(holder, time.Hour)
	if _, err := f.Enrol(t.Context(), f.applicant(f.token("mse_b001", nil), "box", newKey(t))); err != nil {
		t.Fatal(err)
	}
	_, err := f.Enrol(t.Context(), f.applicant(f.token("mse_b002", nil), "box", newKey(t)))
	f.wantRefusal(err, wire.CodeNameInUse)
}

// TestNeverHeard: a node that enrolled and was never heard counts from its enrolment.
func TestNeverHeard(t *testing.T) {
	f := newFleet(t)
	f.enrolled("box")
	f.clock.Forward(time.Minute)
	_, err := f.Enrol(t.Context(), f.applicant(f.token("mse_b001", nil), "box", newKey(t)))
	f.wantRefusal(err, wire.CodeNameInUse)
	f.clock.Forward(time.Minute)
	if _, err := f.Enrol(t.Context(), f.applicant(f.token("mse_b002", nil), "box", newKey(t))); err != nil {
		t.Errorf("got %v, want the silent node taken over", err)
	}
}

// TestWaitingNode: only its own token can enrol a node that waits for its bootstrap.
func TestWaitingNode(t *testing.T) {
	f := newFleet(t)
	if err := f.store.CreateNode(t.Context(), store.Node{ID: "n-1", Name: "box", Tenant: "platform", CreatedAt: start}, nil); err != nil {
		t.Fatal(err)
	}
	f.clock.Forward(time.Hour)
	a := f.applicant(f.token("mse_b001", nil), "box", newKey(t))
	for range 2 { // ready, then deploying
		_, err := f.Enrol(t.Context(), a)
		f.wantRefusal(err, wire.CodeNameInUse)
		f.apply("box", fleet.Fetch)
	}
	got, err := f.Enrol(t.Context(), f.applicant(f.token("msb_b001", func(s *store.Token) { s.NodeID = "n-1" }), "box", newKey(t)))
	if err != nil || got.Node.ID != "n-1" || got.New {
		t.Errorf("got %+v, %v, want the waiting node", got, err)
	}
}

// TestTakeOverKeepsWhatAPersonDecided: drained and suspended nodes stay so, and what the machine reported goes.
func TestTakeOverKeepsWhatAPersonDecided(t *testing.T) {
	for _, c := range []struct {
		verb fleet.Verb
		want string
	}{{fleet.Drain, "drained"}, {fleet.Suspend, "unavailable"}, {fleet.Heartbeat, "enrolled"}} {
		f := newFleet(t)
		holder := f.enrolled("box")
		f.beat(holder, 1, nil)
		f.apply("box", c.verb)
		f.beat(holder, 2, health(wire.HealthGPUCountDropped))
		f.clock.Forward(time.Hour)
		if _, err := f.Enrol(t.Context(), f.applicant(f.token("mse_b001", nil), "box", newKey(t))); err != nil {
			t.Fatal(err)
		}
		n := f.seen("box")
		suspended := len(n.Reasons) == 1 && n.Reasons[0].Reason == "suspended"
		if n.State != c.want || suspended != (c.verb == fleet.Suspend) || !suspended && len(n.Reasons) > 0 {
			t.Errorf("%s: got %s %v, want %s", c.verb, n.State, n.Reasons, c.want)
		}
	}
}

// TestTakeOverDropsOldReports: what the earlier machine sent last does not count for the new one.
func TestTakeOverDropsOldReports(t *testing.T) {
	f := newFleet(t)
	holder := f.enrolled("box")
	f.beat(holder, 1, hardware(`{"cpus":1}`))
	a := f.applicant(f.token("mse_b001", nil), "box", newKey(t))
	a.Identity = f.identity(holder.Certificate.Fingerprint)
	a.Hardware = decoded[wire.Hardware](`{"cpus":2}`)
	if _, err := f.Enrol(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n := f.seen("box"); n.Hardware != written(`{"cpus":2}`) || n.RunID != "" {
			t.Errorf("got hardware %s of run %q, want the new machine's", n.Hardware, n.RunID)
		}
		f.flush()
	}
}
