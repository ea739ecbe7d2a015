package heartbeat_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

func TestRenewsAtTwoThirds(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Minute, time.Hour, 24 * time.Hour} {
		for _, secure := range []bool{false, true} {
			t.Run(ttl.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, secure, func(g *gatewaytest.Gateway) { g.TTL = ttl })
					n.cfg.Interval = ttl / 100
					started := time.Now()
					n.run(t, ttl*15/10)
					got := n.g.Requests("/renew")
					if len(got) != 2 {
						t.Fatalf("%d renewals", len(got))
					}
					last := started
					for i, r := range got {
						least := wire.RenewAfter(ttl) - wire.RenewSpread(ttl) - time.Second
						most := wire.RenewAfter(ttl) + time.Second // a certificate has whole seconds
						if at := r.At.Sub(last); at < least || at > most {
							t.Errorf("renewal %d after %s, want %s to %s", i, at, least, most)
						}
						last = r.At
					}
					if state, err := n.cfg.Directory.Load(); err != nil || state.Current.Generation != 3 ||
						state.Previous.Generation != 2 || state.Pending != "" {
						t.Errorf("%v", err)
					}
					checkUse(t, n)
				})
			})
		}
	}
}

// checkUse checks that each heartbeat was made with the newest certificate, that the first use came at once, and that the
// old connection was not used again.
func checkUse(t *testing.T, n *node) {
	t.Helper()
	renewed := time.Time{}
	prints := map[string]bool{}
	for _, r := range n.g.Requests("") {
		if strings.HasSuffix(r.Path, "/renew") {
			renewed = r.At
			continue
		}
		if !renewed.IsZero() && !r.At.Equal(renewed) {
			t.Errorf("the first use came %s after the renewal", r.At.Sub(renewed))
		}
		renewed = time.Time{}
		if r.Peer != nil {
			prints[identity.Fingerprint(r.Peer)] = true
		} else {
			prints[r.Signature.Fingerprint] = true
		}
	}
	if len(prints) != 3 {
		t.Errorf("%d certificates in use, want 3", len(prints))
	}
}

func TestRenewalIsTriedAgainWithTheSameKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		failures := 0
		n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			if !strings.HasSuffix(q.Path, "/renew") {
				return nil
			}
			state, err := n.cfg.Directory.Load()
			if err != nil || state.Pending == "" {
				t.Errorf("the key is not on the disk: %v", err)
			}
			if failures++; failures < 5 {
				return []*gatewaytest.Reply{{Hangup: true}, gatewaytest.Refusal(500, wire.CodeInternal), {Status: 502, Unproven: true},
					{Hangup: true}}[failures-1]
			}
			return nil
		}
		n.cfg.Interval = 5 * time.Minute
		n.run(t, 20*time.Hour)
		keys := map[string]bool{}
		for _, r := range n.g.Requests("/renew") {
			var request wire.RenewRequest
			json.Unmarshal(r.Body, &request)
			keys[gatewaytest.CSRKey(t, request.CSR)] = true
		}
		if state, _ := n.cfg.Directory.Load(); len(keys) != 1 || state.Current.Generation != 2 {
			t.Errorf("%d keys, generation %d", len(keys), state.Current.Generation)
		}
		noticed := false
		for _, r := range n.g.Requests("/heartbeat") {
			noticed = noticed || strings.Contains(strings.Join(decode(t, r).Notices, ""), "could not be renewed")
		}
		if !noticed && !strings.Contains(n.log.String(), "certificate not renewed") {
			t.Error("nobody was told")
		}
	})
}

func TestWrongCertificatesAreNotTaken(t *testing.T) {
	for name, change := range map[string]func(n *node, a *wire.RenewAnswer){
		"an older generation": func(_ *node, a *wire.RenewAnswer) { a.Generation = 1 },
		"the current one":     func(n *node, a *wire.RenewAnswer) { a.Certificate = n.cfg.State.Current.Certificate },
		"nothing":             func(_ *node, a *wire.RenewAnswer) { a.Certificate = "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, false, nil)
				n.g.Tamper = func(q gatewaytest.Request, r *gatewaytest.Reply) {
					if strings.HasSuffix(q.Path, "/renew") {
						var answer wire.RenewAnswer
						json.Unmarshal(r.Body, &answer)
						change(n, &answer)
						r.Body, _ = json.Marshal(answer)
						gatewaytest.Prove(n.g.Answer, q, r)
					}
				}
				n.cfg.Interval = 5 * time.Minute
				n.run(t, 20*time.Hour)
				if state, err := n.cfg.Directory.Load(); err != nil || state.Current.Generation != 1 {
					t.Errorf("%v", err)
				}
				if tries := len(n.g.Requests("/renew")); tries < 30 || tries > 500 {
					t.Errorf("%d renewals in four hours", tries)
				}
			})
		})
	}
}

func TestExpiredWhileSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, true, nil)
		time.Sleep(30 * time.Hour)
		n.run(t, time.Minute)
		got := n.g.Requests("")
		if len(got) == 0 || !strings.HasSuffix(got[0].Path, "/renew") {
			t.Error("the expired certificate was used for something else first")
		}
		if s := n.status(t); s.Phase != identity.PhaseOnline || s.Generation != 2 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestToldThatItExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		renewed := false
		n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			if renewed = renewed || strings.HasSuffix(q.Path, "/renew"); renewed {
				return nil
			}
			return gatewaytest.Refusal(403, wire.CodeExpired)
		}
		n.run(t, 10*time.Second)
		if s := n.status(t); s.Phase != identity.PhaseOnline {
			t.Errorf("status %+v", s)
		}
	})
}

func TestPairBeforeIsUsedOnlyForAForgetfulGateway(t *testing.T) {
	for _, forgets := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, false, nil)
			first := gatewaytest.Leaf(t, n.cfg.State.Current.Certificate)
			n.cfg.Interval = 5 * time.Minute
			n.run(t, 17*time.Hour) // renewed once
			state, err := n.cfg.Directory.Load()
			if err != nil || state.Current.Generation != 2 {
				t.Fatalf("%v", err)
			}
			if n.cfg.State = state; forgets {
				n.g.Forget(first) // as after a restore
			} else {
				n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
					return &gatewaytest.Reply{Status: 401, Body: gatewaytest.Refusal(401, wire.CodeUnknownCertificate).Body, Unproven: true}
				}
			}
			n.run(t, 20*time.Second)
			got, err := n.cfg.Directory.Load()
			want := map[bool]int{true: 3, false: 2}[forgets] // the first pair is due for renewal by then
			if err != nil || got.Current.Generation != want && !(forgets && got.Current.Generation == 1) {
				t.Errorf("forgets %t: generation %d, %v", forgets, got.Current.Generation, err)
			}
			if s := n.status(t); forgets && s.Phase != identity.PhaseOnline {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// TestForwardAgain: a gateway does not know the newer certificate for a moment, and later asks for it. The node uses it again without a
// restart.
func TestForwardAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		n.cfg.Interval = 5 * time.Minute
		n.run(t, 17*time.Hour) // renewed once
		state, err := n.cfg.Directory.Load()
		if err != nil || state.Current.Generation != 2 {
			t.Fatalf("%v", err)
		}
		n.cfg.State = state
		said := []string{wire.CodeUnknownCertificate, wire.CodeSupersededRetry}
		n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			if len(said) == 0 || !strings.HasSuffix(q.Path, "/heartbeat") {
				return nil
			}
			code := said[0]
			said = said[1:]
			return gatewaytest.Refusal(401, code)
		}
		n.run(t, time.Minute)
		got, err := n.cfg.Directory.Load()
		if err != nil || got.Current.Generation < 2 || len(said) > 0 {
			t.Errorf("generation %d, %v, still to be said: %v", got.Current.Generation, err, said)
		}
		if s := n.status(t); s.Phase != identity.PhaseOnline {
			t.Errorf("status %+v", s)
		}
	})
}

// TestLostAdoption: the gateway took the newer certificate over, which revokes the older one, and its answer was lost. The node comes
// back with the newer one, also if it has been changed to the older one by an earlier run.
func TestLostAdoption(t *testing.T) {
	for _, name := range []string{"at once", "after a restart"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, false, nil)
				n.cfg.Interval = 5 * time.Minute
				n.run(t, 17*time.Hour) // renewed once
				n.cfg.State = n.saved(t)
				first := identity.Fingerprint(gatewaytest.Leaf(t, n.cfg.State.Previous.Certificate))
				adopted := name != "at once"
				if adopted {
					n.cfg.State.Current, n.cfg.State.Previous = n.cfg.State.Previous, n.cfg.State.Current
				}
				n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
					switch {
					case strings.HasSuffix(q.Path, "/adopt"):
						adopted = true
						return &gatewaytest.Reply{Status: 502, Unproven: true}
					case !adopted:
						return gatewaytest.Refusal(401, wire.CodeUnknownCertificate)
					case q.Signature.Fingerprint == first:
						return gatewaytest.Refusal(403, wire.CodeRevoked)
					}
					return nil
				}
				n.run(t, time.Minute)
				if s := n.status(t); s.Phase != identity.PhaseOnline || n.saved(t).Current.Generation < 2 {
					t.Errorf("generation %d, status %+v\n%s", n.saved(t).Current.Generation, s, n.log.String())
				}
			})
		})
	}
}

// TestDamagedPairIsNotUsed: where the pair before cannot be read, the node keeps the pair that it has.
func TestDamagedPairIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		n.cfg.Interval = 5 * time.Minute
		n.run(t, 17*time.Hour) // renewed once
		n.cfg.State = n.saved(t)
		n.cfg.State.Previous.Key = "damaged"
		n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
			return gatewaytest.Refusal(401, wire.CodeUnknownCertificate)
		}
		n.run(t, time.Minute)
		if got := n.saved(t).Current.Generation; got != 2 {
			t.Errorf("generation %d is the current one", got)
		}
	})
}
