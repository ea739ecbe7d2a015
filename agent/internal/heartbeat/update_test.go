package heartbeat_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// TestUpdatesAreReportedAndHeard: each report says what Update gives, and Heard is told of each one that was accepted, with the answer.
func TestUpdatesAreReportedAndHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		refused := 0
		n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			if beat := decode(t, q); beat.Counter == 2 {
				refused++
				return gatewaytest.Refusal(503, wire.CodeUnavailable)
			}
			return n.g.JSON(200, wire.HeartbeatAnswer{Release: "sha256:wanted", Channel: "edge", ChannelSequence: 7})
		}
		made := 0
		var heard []string
		n.cfg.Update = func() *wire.Update { made++; return &wire.Update{Channel: "stable", Sequence: int64(made)} }
		n.cfg.Heard = func(state identity.State, said *wire.Update, answer wire.HeartbeatAnswer) {
			heard = append(heard, fmt.Sprint(state.NodeID, said.Sequence, answer.Release, answer.Channel, answer.ChannelSequence))
		}
		n.run(t, 3*time.Minute)
		if len(heard) < 4 || refused != 1 || len(heard) != made-1 {
			t.Fatalf("%d reports made, %d refused, heard of %q", made, refused, heard)
		}
		for i, text := range heard {
			number := i + 1
			if i > 0 {
				number++ // the second one was refused
			}
			if want := fmt.Sprint(gatewaytest.NodeID, int64(number), "sha256:wanted", "edge", int64(7)); text != want {
				t.Errorf("heard %q, want %q", text, want)
			}
		}
		for i, r := range n.g.Requests("/heartbeat") {
			if beat := decode(t, r); beat.Update == nil || beat.Update.Channel != "stable" || beat.Update.Sequence != int64(i+1) {
				t.Errorf("report %d says %+v", i, beat.Update)
			}
		}
	})
}

// TestTrialPace: a version on trial reports at its pace, also where the gateway refuses it. Afterwards the usual pace counts, and the one
// that the reports name was never another.
func TestTrialPace(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, false, nil)
			if refuses {
				n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply { return gatewaytest.Refusal(503, wire.CodeUnavailable) }
			}
			began := time.Now()
			n.cfg.Pace = func() time.Duration {
				if time.Since(began) < 5*time.Minute {
					return wire.TrialBeat
				}
				return 0
			}
			n.run(t, 20*time.Minute)
			trial := 0
			all := n.g.Requests("/heartbeat")
			for _, r := range all {
				if r.At.Sub(began) < 5*time.Minute {
					trial++
				}
				if beat := decode(t, r); beat.IntervalSeconds != 30 {
					t.Errorf("a report names %v s", beat.IntervalSeconds)
				}
			}
			if trial < 27 || trial > 40 && !refuses || len(all)-trial > 40 {
				t.Errorf("refused: %t, %d reports on trial, %d after it", refuses, trial, len(all)-trial)
			}
		})
	}
}
