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
		n.cfg.Fill = func(r *wire.HeartbeatRequest) {
			made++
			r.Update = &wire.Update{Channel: "stable", Sequence: int64(made)}
		}
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

// TestTrialPace: a version on trial reports at its pace, also if the gateway refuses it. Afterwards the usual pace counts, and the one
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

// TestTrialAfterAnOutage: a version on trial is heard within half its pace after the gateway has come back, however long that was away, and
// whatever it asked for. Not all nodes come in one moment.
func TestTrialAfterAnOutage(t *testing.T) {
	waits := map[time.Duration]bool{}
	for _, wants := range []string{"", "300"} {
		for _, away := range []time.Duration{80 * time.Second, 85 * time.Second, 14 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, false, nil)
				back := time.Now().Add(away)
				n.cfg.Pace = func() time.Duration { return wire.TrialBeat }
				n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
					if !time.Now().Before(back) {
						return nil
					}
					if wants == "" {
						return &gatewaytest.Reply{Hangup: true}
					}
					reply := gatewaytest.Refusal(503, wire.CodeUnavailable)
					reply.Header = map[string]string{"Retry-After": wants}
					return reply
				}
				heard := time.Duration(-1)
				n.cfg.Heard = func(identity.State, *wire.Update, wire.HeartbeatAnswer) {
					if heard < 0 {
						heard = time.Since(back)
					}
				}
				n.run(t, away+time.Minute)
				if heard < 0 || heard > wire.TrialBeat/2+time.Second {
					t.Errorf("away for %v, Retry-After %q: heard %v after that", away, wants, heard)
				}
				all := n.g.Requests("/heartbeat")
				for i := 2; i < len(all) && all[i].At.Before(back); i++ {
					waits[all[i].At.Sub(all[i-1].At).Truncate(100*time.Millisecond)] = true
				}
			})
		}
	}
	if len(waits) < 10 {
		t.Errorf("the waits are %v", waits)
	}
}

// TestTrialIntoSilence: if nothing answers at all, a version on trial does not wait for one answer until its trial is over.
func TestTrialIntoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		back := time.Now().Add(80 * time.Second)
		n.cfg.Pace = func() time.Duration { return wire.TrialBeat }
		n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			if time.Now().Before(back) {
				<-q.Gone
			}
			return nil
		}
		heard := time.Duration(-1)
		n.cfg.Heard = func(identity.State, *wire.Update, wire.HeartbeatAnswer) {
			if heard < 0 {
				heard = time.Since(back)
			}
		}
		n.run(t, 3*time.Minute)
		if heard < 0 || heard > wire.TrialBeat*3/2+time.Second {
			t.Errorf("heard %v after the gateway came back", heard)
		}
	})
}

// TestTrialSpares: on trial, a gateway that asks to be left alone is left alone for as long as the trial has time to spare.
func TestTrialSpares(t *testing.T) {
	for spare, most := range map[time.Duration]int{0: 100, time.Minute: 15, 20 * time.Second: 20} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, false, nil)
			n.cfg.Pace = func() time.Duration { return wire.TrialBeat }
			n.cfg.Spare = func() time.Duration { return spare }
			n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
				reply := gatewaytest.Refusal(503, wire.CodeUnavailable)
				reply.Header = map[string]string{"Retry-After": "30"}
				return reply
			}
			n.run(t, 5*time.Minute)
			all := n.g.Requests("/heartbeat")
			if len(all) > most || spare == 0 && len(all) < 50 || len(all) < 5 {
				t.Errorf("with %v to spare: %d reports", spare, len(all))
			}
			for i := 1; i < len(all); i++ {
				if wait := all[i].At.Sub(all[i-1].At); wait < min(spare, 30*time.Second) {
					t.Errorf("with %v to spare: %v between two reports", spare, wait)
				}
			}
		})
	}
}
