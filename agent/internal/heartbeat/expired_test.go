package heartbeat_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// wall is a machine's clock that is wrong, and can be set while the agent runs.
type wall struct {
	mu  sync.Mutex
	off time.Duration
}

func (w *wall) set(off time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.off = off
}

func (w *wall) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.off)
}

// withClock gives the node a clock of its own.
func (n *node) withClock(t *testing.T, off time.Duration) *wall {
	t.Helper()
	w := &wall{off: off}
	scheme := "http://"
	if n.secure {
		scheme = "https://"
	}
	client, err := transport.New(transport.Config{Gateway: scheme + gatewaytest.Host, Dial: n.pipe.Dial, Now: w.Now})
	if err != nil {
		t.Fatal(err)
	}
	n.cfg.Client = client
	return w
}

// TestExpiredForGood: the node asks for nothing but the renewal, every few minutes, until an operator allows it.
func TestExpiredForGood(t *testing.T) {
	for _, secure := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, secure, nil)
			time.Sleep(30 * time.Hour)
			var allowed atomic.Bool
			n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
				if !allowed.Load() {
					return gatewaytest.Refusal(403, wire.CodeExpired)
				}
				return nil
			}
			n.run(t, 3*time.Hour)
			got := n.g.Requests("")
			if len(got) < 18 || len(got) > 37 {
				t.Errorf("%d requests in three hours", len(got))
			}
			for i, r := range got {
				if !strings.HasSuffix(r.Path, "/renew") {
					t.Errorf("request %d is for %s", i, r.Path)
				}
				if i > 0 && r.At.Sub(got[i-1].At) < 5*time.Minute {
					t.Errorf("request %d after %s", i, r.At.Sub(got[i-1].At))
				}
			}
			s := n.status(t)
			if s.Phase != identity.PhaseRefused || !strings.Contains(s.LastError, wire.CodeExpired) || len(s.Notices) == 0 {
				t.Errorf("status %+v", s)
			}
			if k := strings.Count(n.log.String(), "level=ERROR"); k != 1 {
				t.Errorf("said %d times:\n%s", k, n.log.String())
			}
			time.AfterFunc(time.Minute, func() { allowed.Store(true) })
			n.run(t, 12*time.Minute)
			if s := n.status(t); s.Phase != identity.PhaseOnline || s.Generation != 2 || len(s.Notices) != 0 {
				t.Errorf("status %+v after an operator allowed it", s)
			}
		})
	}
}

// TestExpiresAtOnce: a gateway whose certificates have expired when they arrive does not make the agent ask without a pause.
func TestExpiresAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			if strings.HasSuffix(q.Path, "/renew") {
				return nil
			}
			return gatewaytest.Refusal(403, wire.CodeExpired)
		}
		n.run(t, time.Hour)
		if got := len(n.g.Requests("")); got > 60 {
			t.Errorf("%d requests in an hour", got)
		}
	})
}

// TestRenewalInConflict: the heartbeats go on, and say why the renewal does not.
func TestRenewalInConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			if strings.HasSuffix(q.Path, "/renew") {
				return gatewaytest.Refusal(403, wire.CodeIdentityConflict)
			}
			return nil
		}
		n.cfg.Interval = time.Minute
		n.run(t, 20*time.Hour)
		renewals := n.g.Requests("/renew")
		beats := n.g.Requests("/heartbeat")
		if len(renewals) < 20 || len(renewals) > 60 {
			t.Errorf("%d renewals in four to five hours", len(renewals))
		}
		for i := 1; i < len(renewals); i++ {
			if gap := renewals[i].At.Sub(renewals[i-1].At); gap < 5*time.Minute {
				t.Errorf("renewal %d after %s", i, gap)
			}
		}
		if len(beats) < 1100 {
			t.Errorf("%d heartbeats in 20 hours", len(beats))
		}
		if notices := strings.Join(decode(t, beats[len(beats)-1]).Notices, ""); !strings.Contains(notices, wire.CodeIdentityConflict) {
			t.Errorf("the heartbeats say %q", notices)
		}
		if s := n.status(t); s.Phase != identity.PhaseOnline {
			t.Errorf("status %+v", s)
		}
	})
}

// TestClocks: whatever this machine's clock says, and however it is changed meanwhile, renewals come at their time.
func TestClocks(t *testing.T) {
	for name, test := range map[string]struct {
		start, later time.Duration
		needless     int // renewals at the start, by a clock that says the certificate is over
	}{
		"right":                {0, 0, 0},
		"seventeen hours on":   {17 * time.Hour, 17 * time.Hour, 0},
		"hours behind":         {-5 * time.Hour, -5 * time.Hour, 0},
		"a year ahead":         {365 * 24 * time.Hour, 365 * 24 * time.Hour, 1},
		"years behind":         {-10 * 365 * 24 * time.Hour, -10 * 365 * 24 * time.Hour, 0},
		"set hours on":         {0, 17 * time.Hour, 0},
		"set hours back":       {0, -5 * time.Hour, 0},
		"set years on":         {0, 365 * 24 * time.Hour, 0},
		"set years back":       {0, -10 * 365 * 24 * time.Hour, 0},
		"set right from years": {-10 * 365 * 24 * time.Hour, 0, 0},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, secure, nil)
					w := n.withClock(t, test.start)
					time.AfterFunc(5*time.Hour+7*time.Second, func() { w.set(test.later) })
					n.cfg.Interval = 10 * time.Minute
					started := time.Now()
					n.run(t, 30*time.Hour)
					state, err := n.cfg.Directory.Load()
					if err != nil || n.status(t).Phase != identity.PhaseOnline {
						t.Fatalf("status %+v, %v", n.status(t), err)
					}
					if got := state.Current.Generation - 1; got < 1 || got > 2+test.needless {
						t.Errorf("renewed %d times in 30 hours", got)
					}
					for _, r := range n.g.Requests("/renew") {
						if at := r.At.Sub(started); test.needless == 0 && at < 14*time.Hour {
							t.Errorf("a renewal after %s", at)
						}
					}
					late := 0
					for _, r := range n.g.Requests("/heartbeat") {
						if r.At.After(started.Add(24 * time.Hour)) {
							late++
						}
					}
					if late < 30 {
						t.Errorf("%d heartbeats in the last six hours", late)
					}
				})
			})
		}
	}
}
