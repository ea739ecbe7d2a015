package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/fleet"
	"muster/store"
)

// heard is one heartbeat: of which run, with which counter, made so long before it arrives.
func (f *world) heard(ad fleet.Admission, run string, counter uint64, late time.Duration) fleet.State {
	f.t.Helper()
	b := &wire.HeartbeatRequest{RunID: "run0000" + run, Counter: counter, IntervalSeconds: pace.Seconds()}
	proof := fleet.Proof{Address: "198.51.100." + fmt.Sprint(len(run)+int(run[0])), At: f.clock.Now().Add(-late)}
	state, err := f.Beat(f.t.Context(), f.identity(ad.Certificate.Fingerprint), proof, report(b, "{}"))
	if err != nil {
		f.t.Fatal(err)
	}
	return state
}

// TestRuns plays heartbeats of one identity: a run and its counter, perhaps how late it is, or how long nothing comes.
func TestRuns(t *testing.T) {
	for _, c := range []struct {
		name  string
		beats string // "A1 30s B1 A2@20s": A's second was made 20 s before it arrives; "restart" of the gateway
		trips bool
	}{
		{"one run", "A1 30s A2 30s A3 30s A4", false},
		{"a restart", "A1 30s A2 30s B1 30s B2 30s B3", false},
		{"many restarts", "A1 1s B1 1s C1 1s D1 1s E1 1s F1 1s G1 1s H1 1s I1 1s J1 1s K1 1s K2", false},
		{"a restart, and a straggler of the run before", "A1 30s A2 30s B1 1s A3@5s 30s B2 30s B3 30s B4", false},
		{"one that was sent twice on its way", "A1 30s A2 30s B1 1s A3 1s A3 30s B2 30s B3 30s B4", false},
		{"stragglers that are older than what was seen", "A5 30s A6 30s B1 A4 A3 30s B2 A2 30s B3", false},
		{"two stragglers behind a proxy that held them, by their signatures", "A1 30s A2 30s B1 1s A3@40s 1s A4@10s 30s B2 30s B3", false},
		{"a straggler that the kernel sent after 100 s", "A1 30s A2 30s B1 30s B2 30s B3 30s B4 10s A3 20s B5 30s B6", false},
		{"the first heartbeat of a killed run comes after its successor's", "A1 30s A2 1s C1 1s B1@2s 30s C2 30s C3 30s C4", false},
		{"the same, unsigned, after a young successor", "C1 1s B1 30s C2 30s C3 30s C4", false},
		{"the gateway restarts meanwhile", "A1 30s A2 30s B1 restart A3@5s 30s B2 restart 30s B3 30s B4", false},

		{"a copy beside a machine that has run for long", "A1 5m A2 30s B1 15s A3 15s B2 15s A4", true},
		{"a copy that was heard once", "A1 5m A2 30s B1 30s A3 30s A4", true},
		{"a copy, and the original is heard once, long after", "A1 5m A2 30s B1 3m A3", true},
		{"two copies that start at once", "A1 1s B1 29s A2 1s B2 29s A3 1s B3", true},
		{"fast copies", "A1 200ms A2 50ms B1 150ms A3 50ms B2 150ms A4 50ms B3", true},
		{"three copies", "A1 1s B1 1s C1 28s A2 1s B2 1s C2 28s A3 1s B3", true},
		{"seven copies of one disk", "A1 1s B1 1s C1 1s D1 1s E1 1s F1 1s G1 24s A2 1s B2 1s C2 1s D2 1s E2 1s F2 1s G2 24s A3 1s B3",
			true},
		{"the gateway restarts meanwhile, and the copies go on", "A1 5m A2 30s B1 restart 15s A3 15s B2 restart 15s A4 15s B3 15s A5",
			true},
		{"the gateway restarts after every heartbeat", "A1 5m A2 30s B1 restart 15s A3 restart 15s B2 restart 15s A4 restart 15s B3", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			ad := f.enrolled("box")
			other := f.enrolled("other")
			f.play(ad, c.beats)
			f.heard(other, "Z", 1, 0)
			if got := reasons(f.seen("box")); (got == wire.ReasonConflict) != c.trips {
				t.Errorf("got reasons %q, want a conflict: %v", got, c.trips)
			}
			if got := f.seen("other"); got.State != "active" || len(got.Reasons) != 0 {
				t.Errorf("another node: got %s %v", got.State, got.Reasons)
			}
			if got := len(f.events("identity.conflict")); got > 1 || (got == 1) != c.trips {
				t.Errorf("%d events", got)
			}
		})
	}
}

func (f *world) play(ad fleet.Admission, beats string) {
	f.t.Helper()
	for _, word := range strings.Fields(beats) {
		if pause, err := time.ParseDuration(word); err == nil {
			f.clock.Forward(pause)
			continue
		}
		if word == "restart" {
			f.flush()
			f.restart()
			continue
		}
		word, late, _ := strings.Cut(word, "@")
		delay, _ := time.ParseDuration(late)
		var counter uint64
		if _, err := fmt.Sscan(word[1:], &counter); err != nil {
			f.t.Fatal(err)
		}
		f.heard(ad, word[:1], counter, delay)
	}
}

// TestRunsOfBefore: a run from before the database kept runs counts as older than all others.
func TestRunsOfBefore(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	seen := store.Beat{NodeID: ad.Node.ID, At: f.clock.Now(), RunID: "run0000A", Counter: 7, Interval: pace}
	if err := f.store.SaveBeats(t.Context(), []store.Beat{seen}, f.clock.Now()); err != nil {
		t.Fatal(err)
	}
	f.restart()
	f.play(ad, "5s B1 5s A7 5s B2 5s A8 5s")
	if got := reasons(f.seen("box")); got != "" {
		t.Errorf("after one return: got %q", got)
	}
	f.play(ad, "B3 5s A9")
	if got := reasons(f.seen("box")); got != wire.ReasonConflict {
		t.Errorf("after two: got %q", got)
	}
}

// TestConflict: the node is closed but for heartbeats, and says what was seen.
func TestConflict(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.play(ad, "A1 5m A2 30s B1 30s A3 30s A4")
	if n := f.seen("box"); n.State != "unavailable" || n.Status != "online" {
		t.Errorf("got %s %s, want unavailable and online", n.State, n.Status)
	}
	e := f.events("identity.conflict")[0]
	if !e.Security || e.Address != "198.51.100.66" || e.Detail["other_address"] != "198.51.100.67" || e.Detail["run"] != "run0000A" ||
		e.Detail["other_run"] != "run0000B" || e.Detail["fingerprint"] != ad.Certificate.Fingerprint || e.Detail["to"] != "unavailable" {
		t.Errorf("got event %+v", e)
	}
	for purpose, want := range map[fleet.Purpose]string{
		fleet.ForHeartbeat: "ok", fleet.ForRenewal: wire.CodeIdentityConflict, fleet.ForAnything: wire.CodeIdentityConflict,
	} {
		if err := f.may(ad.Certificate.Fingerprint, purpose); code(err) != want {
			t.Errorf("purpose %v: got %v, want %s", purpose, err, want)
		}
	}
	f.clock.Forward(time.Second)
	if state := f.heard(ad, "B", 9, 0); state != fleet.Unavailable {
		t.Errorf("a heartbeat: got %s", state)
	}
	detail, err := f.Detail(t.Context(), "", "box")
	if err != nil || len(detail.Runs) != 2 || len(detail.Certificates) != 1 || detail.Runs[0].ID != "run0000B" ||
		detail.Runs[0].Counter != 9 {
		t.Errorf("got runs %+v, %d certificates, %v", detail.Runs, len(detail.Certificates), err)
	}
	if _, err := f.Apply(t.Context(), "", "box", fleet.Resume, operator); code(err) != wire.CodeIllegalMove || !strings.Contains(hint(err),
		"allow-recovery box") {
		t.Errorf("resume: got %v", err)
	}
	if got := f.apply("box", fleet.Retire); got.State != "retired" {
		t.Errorf("retire: got %s", got.State)
	}
}

// TestConflictOfADrainedNode: it stays where the operator put it, and resuming it does not end the conflict.
func TestConflictOfADrainedNode(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.heard(ad, "A", 1, 0)
	f.apply("box", fleet.Drain)
	f.play(ad, "5m A2 30s B1 30s A3 30s A4")
	if n := f.seen("box"); n.State != "drained" || reasons(n) != wire.ReasonConflict {
		t.Errorf("got %s %s", n.State, reasons(n))
	}
	if _, err := f.Apply(t.Context(), "", "box", fleet.Resume, operator); code(err) != wire.CodeIllegalMove {
		t.Errorf("resume: got %v", err)
	}
	if err := f.may(ad.Certificate.Fingerprint, fleet.ForRenewal); code(err) != wire.CodeIdentityConflict {
		t.Errorf("renewal: got %v", err)
	}
	n := f.recover("box", api.RecoveryRequest{Fingerprint: ad.Certificate.Fingerprint})
	if n.State != "drained" || len(n.Reasons) != 0 {
		t.Errorf("got %s %v", n.State, n.Reasons)
	}
}

// TestTakeOverInConflict: only a credential that is bound to the node ends it.
func TestTakeOverInConflict(t *testing.T) {
	for _, c := range []struct {
		name  string
		apply func(*world, fleet.Admission) fleet.Applicant
		want  string
	}{
		{"a newer token, the node silent", func(f *world, _ fleet.Admission) fleet.Applicant {
			f.clock.Forward(time.Hour)
			return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
		}, wire.CodeNameInUse},
		{"its own key", func(f *world, ad fleet.Admission) fleet.Applicant {
			a := f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
			a.Identity = f.identity(ad.Certificate.Fingerprint)
			return a
		}, wire.CodeNameInUse},
		{"what an operator allowed before", func(f *world, ad fleet.Admission) fleet.Applicant {
			f.allow(ad, time.Hour)
			return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
		}, wire.CodeNameInUse},
		{"a token bound to the node", func(f *world, ad fleet.Admission) fleet.Applicant {
			return f.applicant(f.token("msb_b001", func(s *store.Token) { s.NodeID = ad.Node.ID }), "box", newKey(f.t))
		}, "ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			ad := f.enrolled("box")
			f.play(ad, "A1 5m A2 30s B1 30s A3 30s A4")
			got, err := f.Enrol(t.Context(), c.apply(f, ad))
			if c.want != "ok" {
				f.wantRefusal(err, c.want)
				if !strings.Contains(hint(err), "muster node allow-recovery box --fingerprint") {
					t.Errorf("the hint is %q", hint(err))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := f.seen("box"); n.State != "enrolled" || len(n.Reasons) != 0 {
				t.Errorf("got %s %v", n.State, n.Reasons)
			}
			f.clock.Forward(time.Second)
			f.play(got, "C1 30s C2 30s C3")
			if n := f.seen("box"); n.State != "active" {
				t.Errorf("got %s %v", n.State, n.Reasons)
			}
		})
	}
}

// TestClashesAtOnce: many heartbeats of two runs at the same moment make one event.
func TestClashesAtOnce(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.play(ad, "A1 5m A2 30s B1 30s A3 30s B2")
	id := f.identity(ad.Certificate.Fingerprint)
	parallel(8, func(i int) string {
		b := &wire.HeartbeatRequest{RunID: "run0000A", Counter: uint64(10 + i), IntervalSeconds: 30}
		if i%2 == 0 {
			b.RunID = "run0000B"
		}
		_, err := f.Beat(context.Background(), id, fleet.Proof{At: f.clock.Now()}, report(b, "{}"))
		return code(err)
	})
	if n := f.seen("box"); reasons(n) != wire.ReasonConflict {
		t.Errorf("got %s", reasons(n))
	}
}
