package heartbeat_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// steps are what a clock can do: by seconds, minutes, hours and years, either way.
var steps = []time.Duration{3 * time.Second, 3 * time.Minute, 10 * time.Hour, 30 * day, 10 * year}

func bothWays() (all []time.Duration) {
	for _, by := range steps {
		all = append(all, by, -by)
	}
	return all
}

// setting is a clock that can be set while time goes on.
type setting struct{ off atomic.Int64 }

func (s *setting) now() time.Time       { return time.Now().Round(0).Add(time.Duration(s.off.Load())) }
func (s *setting) set(by time.Duration) { s.off.Add(int64(by)) }

// newClocks is a node whose own clock, and whose gateway's, can be set.
func newClocks(t *testing.T, secure bool) (n *node, own, gateway *setting) {
	t.Helper()
	own = &setting{}
	gateway = &setting{}
	n = newNode(t, secure, nil)
	n.g.Now = gateway.now
	client, err := transport.New(transport.Config{Gateway: n.cfg.Client.Gateway(), Dial: n.pipe.Dial, Now: own.now})
	if err != nil {
		t.Fatal(err)
	}
	n.cfg.Client = client
	n.cfg.Interval = 5 * time.Minute
	n.cfg.Status.Since = own.now().UTC().Truncate(time.Second)
	return n, own, gateway
}

// gaps gives the longest time between two requests of a kind. Requests before a given moment do not count.
func (n *node) gap(suffix string, since time.Time) (longest time.Duration) {
	last := since
	for _, r := range n.g.Requests(suffix) {
		if at := r.Came; at.After(since) {
			longest = max(longest, at.Sub(last))
			last = at
		}
	}
	return max(longest, time.Since(last))
}

// TestOwnClockIsSet: whatever happens to this machine's clock, the node reports at its pace and renews in time, but not without need. No
// time in its status lies in the future.
func TestOwnClockIsSet(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, by := range bothWays() {
			t.Run(fmt.Sprint(by, " secure ", secure), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					n, own, _ := newClocks(t, secure)
					began := time.Now()
					for i := range 6 {
						time.AfterFunc(time.Duration(i)*7*time.Hour+11*time.Minute, func() { own.set(by) })
						time.AfterFunc(time.Duration(i)*7*time.Hour+3*time.Hour, func() { own.set(-by) })
					}
					n.run(t, 40*time.Hour)
					if gap := n.gap("/heartbeat", began); gap > 6*time.Minute {
						t.Errorf("no heartbeat for %s", gap)
					}
					if renewals := len(n.g.Requests("/renew")); renewals < 2 || renewals > 3 {
						t.Errorf("%d renewals in 40 hours", renewals)
					}
					s := n.status(t)
					if s.Phase != identity.PhaseOnline || s.Since.After(own.now()) || s.LastContact.After(own.now().Add(time.Minute)) {
						t.Errorf("at %v: status %+v", own.now(), s)
					}
				})
			})
		}
	}
}

// TestStartWithAWrongClock: the clock was set while the agent was not at work.
func TestStartWithAWrongClock(t *testing.T) {
	t.Parallel()
	for _, by := range bothWays() {
		synctest.Test(t, func(t *testing.T) {
			n, own, _ := newClocks(t, true)
			n.run(t, time.Hour)
			own.set(by)
			n.reload(t)
			began := time.Now()
			n.run(t, 20*time.Hour)
			if gap := n.gap("/heartbeat", began); gap > 6*time.Minute || n.status(t).Phase != identity.PhaseOnline {
				t.Errorf("by %s: no heartbeat for %s, status %+v", by, gap, n.status(t))
			}
			// One that seems to have ended is renewed at once.
			if n.reload(t); n.cfg.State.Current.Generation < 2 || n.cfg.State.Current.Generation > 3 {
				t.Errorf("by %s: generation %d", by, n.cfg.State.Current.Generation)
			}
		})
	}
}

// TestGatewaysClockIsSet: the gateway's clock is wrong for ten seconds or for hours, and then right again.
func TestGatewaysClockIsSet(t *testing.T) {
	for _, by := range bothWays() {
		for _, length := range []time.Duration{10 * time.Second, 5 * time.Hour} {
			t.Run(fmt.Sprint(by, " for ", length), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					n, _, gateway := newClocks(t, true)
					began := time.Now()
					time.AfterFunc(9*time.Hour, func() { gateway.set(by) })
					time.AfterFunc(9*time.Hour+length, func() { gateway.set(-by) })
					n.run(t, 30*time.Hour)
					if gap := n.gap("/heartbeat", began); gap > 6*time.Minute || n.status(t).Phase != identity.PhaseOnline {
						t.Errorf("no heartbeat for %s, status %+v", gap, n.status(t))
					}
					if gap := n.gap("/renew", began); gap > 17*time.Hour {
						t.Errorf("no renewal for %s", gap)
					}
				})
			})
		}
	}
}

// TestCertificateOfTomorrow: the node takes a certificate that was issued while the gateway's clock was ahead. It counts the time that
// passes, and renews by that.
func TestCertificateOfTomorrow(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{10 * time.Hour, 10 * year} {
		synctest.Test(t, func(t *testing.T) {
			n, _, gateway := newClocks(t, true)
			n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply { // ahead when it issues
				if strings.HasSuffix(q.Path, "/renew") && len(n.g.Requests("/renew")) == 1 {
					gateway.set(ahead)
				}
				return nil
			}
			n.g.Tamper = func(q gatewaytest.Request, r *gatewaytest.Reply) {
				if strings.HasSuffix(q.Path, "/renew") && len(n.g.Requests("/renew")) == 1 {
					gateway.set(-ahead)
				}
			}
			n.run(t, 18*time.Hour)
			n.reload(t)
			leaf, err := n.cfg.State.Leaf()
			if err != nil || n.cfg.State.Current.Generation != 2 || !leaf.NotBefore.After(time.Now()) {
				t.Fatalf("got generation %d from %v, %v", n.cfg.State.Current.Generation, leaf.NotBefore, err)
			}
			n.run(t, 17*time.Hour)
			if renewals := len(n.g.Requests("/renew")); renewals != 2 || n.status(t).Phase != identity.PhaseOnline {
				t.Errorf("%d renewals, status %+v", renewals, n.status(t))
			}
		})
	}
}

// TestAfterSleep: the machine slept. Meanwhile its timers stood still, and its clock went on.
func TestAfterSleep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		slept time.Duration
		down  bool // the gateway is away when it wakes up
	}{{20 * time.Minute, false}, {20 * time.Hour, false}, {20 * time.Hour, true}} {
		synctest.Test(t, func(t *testing.T) {
			n, own, gateway := newClocks(t, true)
			var woke atomic.Pointer[time.Time] // nil: not yet
			n.pipe.Down = func() bool {
				at := woke.Load()
				return c.down && at != nil && time.Since(*at) < time.Minute
			}
			time.AfterFunc(time.Hour+7*time.Second, func() {
				own.set(c.slept)
				gateway.set(c.slept)
				woke.Store(new(time.Now()))
			})
			n.run(t, 2*time.Hour)
			for _, r := range n.g.Requests("/renew") {
				if wait := r.Came.Sub(*woke.Load()); wait > 31*time.Second && !c.down || wait > 3*time.Minute {
					t.Errorf("slept %s, renewed %s later", c.slept, wait)
				}
			}
			if renewals := len(n.g.Requests("/renew")); (renewals == 1) != (c.slept > 16*time.Hour) {
				t.Errorf("slept %s: %d renewals", c.slept, renewals)
			}
			if got := strings.Count(n.log.String(), "this machine's clock was set, or the machine slept"); got != 1 {
				t.Errorf("slept %s: said %d times", c.slept, got)
			}
			if n.status(t).Phase != identity.PhaseOnline {
				t.Errorf("status %+v", n.status(t))
			}
		})
	}
}

// TestBackOffDoesNotHangOnTheClock: the gateway is away and comes back while the clock is wrong.
func TestBackOffDoesNotHangOnTheClock(t *testing.T) {
	t.Parallel()
	for _, by := range bothWays() {
		synctest.Test(t, func(t *testing.T) {
			n, own, _ := newClocks(t, false)
			began := time.Now()
			away := func() bool { return time.Since(began) > time.Hour && time.Since(began) < 2*time.Hour }
			n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
				if away() {
					return gatewaytest.Refusal(503, wire.CodeUnavailable)
				}
				return nil
			}
			time.AfterFunc(90*time.Minute, func() { own.set(by) })
			n.run(t, 2*time.Hour+6*time.Minute)
			if n.status(t).Phase != identity.PhaseOnline {
				t.Errorf("by %s: status %+v", by, n.status(t))
			}
		})
	}
}
