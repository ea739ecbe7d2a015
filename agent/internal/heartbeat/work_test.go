package heartbeat_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/sign"
	"muster/agent/wire"
)

// polls is a Work that waits at the gateway for as long as it may.
func (n *node) polls(t *testing.T) func(ctx context.Context, state identity.State, until time.Time) error {
	return func(ctx context.Context, state identity.State, until time.Time) error {
		seconds := int((time.Until(until) - 500*time.Millisecond) / time.Second)
		if seconds == 0 {
			<-ctx.Done()
		}
		if state.NodeID != gatewaytest.NodeID || time.Until(until) > 40*time.Second {
			t.Errorf("node %s, %v", state.NodeID, time.Until(until))
		}
		transportWait(ctx, seconds)
		return nil
	}
}

func transportWait(ctx context.Context, seconds int) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(seconds) * time.Second):
	}
}

// TestWorkBetweenReports: the loop does Work whenever nothing else is due, and reports at the same pace as without it.
func TestWorkBetweenReports(t *testing.T) {
	for _, interval := range []time.Duration{100 * time.Millisecond, 5 * time.Second, 30 * time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, true, nil)
			n.cfg.Interval = interval
			var worked time.Duration
			work := n.polls(t)
			n.cfg.Work = func(ctx context.Context, state identity.State, until time.Time) error {
				began := time.Now()
				defer func() { worked += time.Since(began) }()
				return work(ctx, state, until)
			}
			longest := time.Duration(0)
			last := time.Now()
			n.cfg.Progress = func(string) { longest = max(longest, time.Since(last)); last = time.Now() }
			length := 40 * interval
			n.run(t, length)
			beats := n.g.Requests("/heartbeat")
			if len(beats) < 38 || len(beats) > 48 || worked < length*9/10 || longest > time.Minute {
				t.Errorf("%v: %d heartbeats, %v of %v at work, silent for %v", interval, len(beats), worked, length, longest)
			}
			for i := range beats[2:] {
				if gap := beats[i+2].At.Sub(beats[i+1].At); gap > interval*11/10+10*time.Millisecond || gap < interval*9/10-1500*time.Millisecond {
					t.Errorf("%v: a gap of %v", interval, gap)
				}
			}
		})
	}
}

// TestWorkThatHangs: it is cut when the next report is due, and when there is news.
func TestWorkThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, true, nil)
		news := make(chan struct{}, 1)
		n.cfg.Wake = news
		cut := 0
		n.cfg.Work = func(ctx context.Context, _ identity.State, _ time.Time) error { <-ctx.Done(); cut++; return nil }
		time.AfterFunc(10*time.Second, func() { news <- struct{}{} })
		began := time.Now()
		n.run(t, 5*time.Minute)
		beats := n.g.Requests("/heartbeat")
		if len(beats) < 9 || cut < 9 {
			t.Errorf("%d heartbeats, %d cuts", len(beats), cut)
		}
		if at := beats[1].At.Sub(began); at > 10*time.Second+20*time.Millisecond && beats[2].At.Sub(began) > 10*time.Second+20*time.Millisecond {
			t.Errorf("the news went out after %v", at)
		}
	})
}

// TestWorkNeverBesideARenewal: whatever Work does has ended when the loop asks for a certificate.
func TestWorkNeverBesideARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		n.cfg.Interval = 5 * time.Minute
		var at atomic.Int32
		n.cfg.Work = func(ctx context.Context, _ identity.State, _ time.Time) error {
			at.Add(1)
			defer at.Add(-1)
			<-ctx.Done()
			return nil
		}
		beside := 0
		n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			if at.Load() != 0 {
				beside++
			}
			return nil
		}
		n.run(t, 17*time.Hour)
		if renewed := len(n.g.Requests("/renew")); renewed != 1 || beside != 0 {
			t.Errorf("%d renewals, %d requests beside Work", renewed, beside)
		}
	})
}

// TestNoWork: a node that the gateway does not hear, refuses or holds for a copy asks for none.
func TestNoWork(t *testing.T) {
	for name, script := range map[string]func(n *node) *gatewaytest.Reply{
		"away":    func(*node) *gatewaytest.Reply { return &gatewaytest.Reply{Hangup: true} },
		"refused": func(*node) *gatewaytest.Reply { return gatewaytest.Refusal(403, wire.CodeRetired) },
		"a copy": func(n *node) *gatewaytest.Reply {
			return n.g.JSON(200, wire.HeartbeatAnswer{State: wire.StateUnavailable, StateReasons: []string{wire.ReasonConflict}})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, true, nil)
			n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply { return script(n) }
			worked := 0
			n.cfg.Work = func(context.Context, identity.State, time.Time) error { worked++; return nil }
			n.run(t, time.Hour)
			if worked > 0 {
				t.Errorf("%s: it worked %d times", name, worked)
			}
		})
	}
}

// TestWorkWithAnUnknownKey: the loop fetches the newer trust set, and Work goes on with that at once.
func TestWorkWithAnUnknownKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, true, nil)
		key := sign.EncodeKey(gatewaytest.New(t).Trust.Public().(ed25519.PublicKey))
		first := setOf(n.g, 1, nil)
		n.cfg.State.Gateway.Trust = first
		began := time.Now()
		var known time.Duration
		n.g.Sets = append(n.g.Sets, first, setOf(n.g, 2, func(set *wire.TrustSet) { set.TaskKeys = []string{key} }))
		n.cfg.Work = func(ctx context.Context, state identity.State, _ time.Time) error {
			set, err := identity.Pinned(state.Gateway)
			if err == nil && len(set.TaskKeys) == 0 {
				return fmt.Errorf("%w of a task", identity.ErrUnknownKey)
			}
			if known == 0 {
				known = time.Since(began)
			}
			<-ctx.Done()
			return err
		}
		n.run(t, 5*time.Minute)
		if fetched := len(n.g.Requests(wire.PathTrust)); fetched != 1 || known > time.Second || identity.TrustNumber(n.saved(t).Gateway) != 2 {
			t.Errorf("fetched %d times, known after %v", fetched, known)
		}
	})
}
