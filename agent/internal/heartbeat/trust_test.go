package heartbeat_test

import (
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/sign"
	"muster/agent/wire"
)

// setOf is a trust set of the node's gateway.
func setOf(g *gatewaytest.Gateway, number int64, change func(*wire.TrustSet)) json.RawMessage {
	key := func(k ed25519.PrivateKey) string { return sign.EncodeKey(k.Public().(ed25519.PublicKey)) }
	set := wire.TrustSet{Number: number, IssuedAt: g.Now().UTC(), TrustDomain: gatewaytest.Domain, TrustKey: key(g.Trust),
		Roots: g.CA.RootPEM(), AnswerKeys: []string{key(g.Answer)}}
	if change != nil {
		change(&set)
	}
	return g.TrustSet(set)
}

// rotate gives the gateway another answer key, twice.
func rotate(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	g.Sets = []json.RawMessage{setOf(g, 1, nil)}
	for number := int64(2); number <= 3; number++ {
		g.Answer = gatewaytest.New(t).Answer
		g.Sets = append(g.Sets, setOf(g, number, nil))
	}
	g.Newest = 3
}

func (n *node) saved(t *testing.T) identity.State {
	t.Helper()
	state, err := n.cfg.Directory.Load()
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestKeyThatNobodyHeardOf: answers are signed with a key two rotations away. The node finds the key through the signed sets, saves them
// and goes on at once. A later start uses what was saved.
func TestKeyThatNobodyHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		rotate(t, n.g)
		n.run(t, 10*time.Second)
		if s := n.status(t); s.Phase != identity.PhaseOnline {
			t.Errorf("status %+v\n%s", s, n.log.String())
		}
		if got := identity.TrustNumber(n.saved(t).Gateway); got != 3 {
			t.Errorf("set %d is saved", got)
		}
		asked := len(n.g.Requests(wire.PathTrust))
		n.cfg.State = n.saved(t)
		n.run(t, 10*time.Minute)
		if again := len(n.g.Requests(wire.PathTrust)); asked != 1 || again != 1 {
			t.Errorf("the sets were fetched %d times, then %d", asked, again-asked)
		}
	})
}

// TestNumberAlone: over TLS nothing fails when keys change. The number in the answers makes the node fetch the set all the same.
func TestNumberAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, true, nil)
		rotate(t, n.g)
		n.run(t, time.Minute)
		got := identity.TrustNumber(n.saved(t).Gateway)
		if s := n.status(t); got != 3 || s.Phase != identity.PhaseOnline || s.Transport != "mtls" {
			t.Errorf("set %d, status %+v", got, s)
		}
	})
}

// TestAnotherRoot: the gateway shows a certificate under a root that the node has not heard of.
func TestAnotherRoot(t *testing.T) {
	for _, signed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, true, nil)
			before := gatewaytest.NewCA(t, n.g.Now()).RootPEM()
			first := setOf(n.g, 1, func(set *wire.TrustSet) { set.Roots = before })
			n.cfg.State.Gateway.Roots = before
			n.cfg.State.Gateway.Trust = first
			if err := n.cfg.Directory.Save(n.cfg.State); err != nil {
				t.Fatal(err)
			}
			if !signed {
				n.g.Trust = gatewaytest.New(t).Trust
			}
			n.g.Sets = []json.RawMessage{first, setOf(n.g, 2, nil)}
			n.run(t, time.Minute)
			got := n.saved(t).Gateway
			if online := n.status(t).Phase == identity.PhaseOnline; online != signed || (got.Roots != before) != signed {
				t.Errorf("signed %t: online %t, set %d\n%s", signed, online, identity.TrustNumber(got), n.log.String())
			}
		})
	}
}

// TestPagesBringNoSets: a page of a proxy never makes the node look for other keys.
func TestPagesBringNoSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			return &gatewaytest.Reply{Status: 403, Unproven: true, Body: []byte("<html>Just a moment...</html>"),
				Header: map[string]string{"Cf-Mitigated": "challenge"}}
		}
		n.run(t, time.Hour)
		if asked := len(n.g.Requests(wire.PathTrust)); asked != 0 {
			t.Errorf("the sets were fetched %d times", asked)
		}
	})
}

// TestSetsThatDoNotHelp: a gateway answers with a strange key and has no set for it. The node asks it as often as after any failure. A
// higher number without a set makes the node fetch the sets every few minutes at most.
func TestSetsThatDoNotHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, true, func(g *gatewaytest.Gateway) { g.Newest = 9 })
		n.run(t, time.Hour)
		if asked := len(n.g.Requests(wire.PathTrust)); asked < 5 || asked > 13 {
			t.Errorf("the sets were fetched %d times in an hour", asked)
		}
		if s := n.status(t); s.Phase != identity.PhaseOnline || s.Transport != "mtls" {
			t.Errorf("status %+v", s)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		n.g.Answer = gatewaytest.New(t).Answer
		n.run(t, time.Hour)
		asked := len(n.g.Requests(wire.PathTrust))
		if beats := len(n.g.Requests("/heartbeat")); asked == 0 || asked > beats || beats > 100 {
			t.Errorf("the sets were fetched %d times with %d heartbeats", asked, beats)
		}
	})
}

// TestSetsOnAFullDisk: the node does not use sets that it cannot save.
func TestSetsOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		rotate(t, n.g)
		gatewaytest.Block(t, n.cfg.Directory.Path(), "identity.json")
		n.run(t, time.Minute)
		if s := n.status(t); s.Phase == identity.PhaseOnline || identity.TrustNumber(n.saved(t).Gateway) != 1 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestRenewedUnderAnotherRoot: behind a proxy that ends TLS, the node first sees a new root in its renewed certificate.
func TestRenewedUnderAnotherRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		first := setOf(n.g, 1, nil)
		n.cfg.Interval = 5 * time.Minute
		n.g.CA = gatewaytest.NewCA(t, n.g.Now())
		n.g.Sets = []json.RawMessage{first, setOf(n.g, 2, nil)}
		n.run(t, 17*time.Hour)
		if state := n.saved(t); state.Current.Generation < 2 || identity.TrustNumber(state.Gateway) != 2 ||
			strings.Contains(n.log.String(), "not renewed") {
			t.Errorf("generation %d, set %d\n%s", state.Current.Generation, identity.TrustNumber(state.Gateway), n.log.String())
		}
	})
}

// TestAdopted: a gateway that was restored takes the certificate over, and the node counts its generations on from the gateway's number.
func TestAdopted(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(*gatewaytest.Gateway) *gatewaytest.Reply
		phase  string
	}{
		"taken": {func(g *gatewaytest.Gateway) *gatewaytest.Reply {
			return g.JSON(200, wire.AdoptAnswer{Generation: 7, Time: g.Now().UTC()})
		}, identity.PhaseOnline},
		"refused": {func(*gatewaytest.Gateway) *gatewaytest.Reply {
			return gatewaytest.Refusal(401, wire.CodeUnknownCertificate)
		}, identity.PhaseRefused},
		"an older gateway": {func(*gatewaytest.Gateway) *gatewaytest.Reply { return &gatewaytest.Reply{Status: 404, Unproven: true} },
			identity.PhaseRefused},
		"somebody between": {func(*gatewaytest.Gateway) *gatewaytest.Reply {
			return &gatewaytest.Reply{Status: 200, Unproven: true, Body: []byte(`{"generation":9}`)}
		}, identity.PhaseRefused},
		"taken, yet unknown": {func(g *gatewaytest.Gateway) *gatewaytest.Reply { return g.JSON(200, wire.AdoptAnswer{Generation: 1}) },
			identity.PhaseRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, false, nil)
				taken := false
				n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
					if !strings.HasSuffix(q.Path, "/adopt") {
						if taken {
							return nil
						}
						return gatewaytest.Refusal(401, wire.CodeUnknownCertificate)
					}
					var shown wire.AdoptRequest
					if json.Unmarshal(q.Body, &shown) != nil || shown.Certificate != n.cfg.State.Current.Certificate ||
						shown.Generation != 1 {
						t.Errorf("the node shows %+v", shown)
					}
					taken = name == "taken"
					return c.answer(n.g)
				}
				n.run(t, time.Minute)
				if s := n.status(t); s.Phase != c.phase {
					t.Errorf("status %+v\n%s", s, n.log.String())
				}
				if shown := len(n.g.Requests("/adopt")); shown != 1 {
					t.Errorf("the certificate was shown %d times", shown)
				}
				if state := n.saved(t); (state.Current.Generation == 7) != taken {
					t.Errorf("generation %d", state.Current.Generation)
				}
			})
		})
	}
}
