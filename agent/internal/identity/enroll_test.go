package identity_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/sign"
	"muster/agent/wire"
)

// bench is one machine that wants to enrol.
type bench struct {
	g         *gatewaytest.Gateway
	directory *identity.Directory
	cfg       identity.Enrolment
	log       bytes.Buffer
}

func newBench(t *testing.T, change func(*transport.Config)) *bench {
	t.Helper()
	b := &bench{g: gatewaytest.New(t)}
	pipe := gatewaytest.ServePipe(t, b.g, nil)
	cfg := transport.Config{Gateway: "http://" + gatewaytest.Host, Dial: pipe.Dial}
	if change != nil {
		change(&cfg)
	}
	client, err := transport.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	b.directory, err = identity.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.directory.Close() })
	credential, err := identity.ParseCredential(b.g.Token(t))
	if err != nil {
		t.Fatal(err)
	}
	b.cfg = identity.Enrolment{
		Client: client, Directory: b.directory, Credential: credential, Name: "gpu-1", Labels: map[string]string{"tier": "a"},
		Provider: "vast_ai", InstanceID: "7", Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
	}
	return b
}

func (b *bench) run(ctx context.Context) (identity.State, error) {
	state, err := b.directory.Load()
	if err != nil {
		return state, err
	}
	return identity.Enrol(ctx, state, b.cfg)
}

func TestEnrols(t *testing.T) {
	b := newBench(t, nil)
	b.g.Welcome = func(w *wire.Welcome) { w.Gateways = []string{"https://gw1", "http://gw2", "https://gw3"} }
	state, err := b.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	stored, err := b.directory.Load()
	if err != nil || stored.NodeID != gatewaytest.NodeID || stored.Current.Key != state.Current.Key || stored.Pending != "" ||
		stored.InstanceID != "7" || stored.Gateway.URL != "http://gateway.test" ||
		!slices.Equal(stored.Gateway.Gateways, []string{"https://gw1", "https://gw3"}) {
		t.Errorf("stored %+v, %v", stored, err)
	}
	var sent wire.RegisterRequest
	got := b.g.Requests(wire.PathRegister)
	if len(got) != 1 || json.Unmarshal(got[0].Body, &sent) != nil || sent.Name != "gpu-1" || sent.Labels["tier"] != "a" ||
		sent.Provider != "vast_ai" || sent.Protocol != wire.ProtocolVersion {
		t.Errorf("sent %+v in %d requests", sent, len(got))
	}
	if off := time.Until(state.Current.IssuedAt).Abs(); off > time.Minute {
		t.Errorf("issued %s away", off)
	}
}

// TestOneKeyForAllAttempts loses the gateway's answers in several ways, and then starts the agent again.
func TestOneKeyForAllAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		n := 0
		b.g.Tamper = func(_ gatewaytest.Request, r *gatewaytest.Reply) { // the gateway has recorded its answer by now
			n++
			switch n {
			case 1:
				r.Header["Content-Length"] = "100000" // cut off
			case 2:
				*r = gatewaytest.Reply{Status: 502, Body: []byte("<html>")}
			case 3:
				delete(r.Header, wire.HeaderProof)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		pending := ""
		b.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
			state, err := b.directory.Load()
			if err != nil || state.Pending == "" || pending != "" && state.Pending != pending {
				t.Errorf("while the request is under way the disk has %+v, %v", state, err)
			}
			pending = state.Pending
			return nil
		}
		if _, err := b.run(ctx); err == nil {
			t.Log("enrolled before the end") // possible where waits are short
		}
		state, err := b.run(context.Background()) // another start of the agent
		if err != nil || state.Current.Key != pending {
			t.Errorf("%+v, %v", state.Current, err)
		}
		keys := map[string]bool{}
		nonces := map[string]bool{}
		for _, r := range b.g.Requests(wire.PathRegister) {
			var request wire.RegisterRequest
			json.Unmarshal(r.Body, &request)
			nonces[request.Nonce] = true
			keys[gatewaytest.CSRKey(t, request.CSR)] = true
		}
		if len(keys) != 1 || len(nonces) < 4 {
			t.Errorf("%d keys and %d nonces in %d requests", len(keys), len(nonces), n)
		}
	})
}

func TestNothingUnprovenIsBelieved(t *testing.T) {
	for name, tamper := range map[string]func(q gatewaytest.Request, r *gatewaytest.Reply){
		"no proof":     func(_ gatewaytest.Request, r *gatewaytest.Reply) { delete(r.Header, wire.HeaderProof) },
		"wrong proof":  func(_ gatewaytest.Request, r *gatewaytest.Reply) { r.Header[wire.HeaderProof] = "AAAA" },
		"other status": func(_ gatewaytest.Request, r *gatewaytest.Reply) { r.Status++ },
		"other body":   func(_ gatewaytest.Request, r *gatewaytest.Reply) { r.Body = append(r.Body, ' ') },
		"other nonce": func(q gatewaytest.Request, r *gatewaytest.Reply) {
			r.Header[wire.HeaderProof] = sign.WelcomeProof(make([]byte, 32), "AAAAAAAAAAAAAAAAAAAAAA==", r.Status, r.Body)
		},
		"a refusal in between": func(_ gatewaytest.Request, r *gatewaytest.Reply) {
			proof := r.Header
			*r = *gatewaytest.Refusal(403, wire.CodeBanned)
			r.Header = proof
		},
		"html": func(_ gatewaytest.Request, r *gatewaytest.Reply) {
			*r = gatewaytest.Reply{Status: 403, Body: []byte("<html><title>Blocked</title>")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				b.g.Tamper = tamper
				var reported error
				b.cfg.Report = func(err error) { reported = err }
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				if _, err := b.run(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v: the agent gave up or believed it", err)
				}
				var unproven *transport.Unproven
				if !errors.As(reported, &unproven) {
					t.Errorf("reported %v", reported)
				}
				if state, _ := b.directory.Load(); state.Current != nil || state.Pending == "" {
					t.Errorf("stored an identity %t, a pending key %t", state.Current != nil, state.Pending != "")
				}
				if n := len(b.g.Requests("")); n < 12 || n > 120 {
					t.Errorf("%d attempts in an hour", n)
				}
			})
		})
	}
}

func TestProvenRefusals(t *testing.T) {
	tests := []struct {
		code   string
		status int
		final  bool
	}{
		{wire.CodeTokenUsed, 409, true}, {wire.CodeTokenExpired, 403, true}, {wire.CodeTokenRevoked, 403, true},
		{wire.CodeNameInUse, 409, true}, {wire.CodeBanned, 403, true}, {wire.CodeBadName, 400, true}, {wire.CodeBadLabel, 400, true},
		{wire.CodeBadCSR, 400, true}, {wire.CodeTokenWrongRoute, 403, true}, {wire.CodeUnknownCredential, 401, true},
		{wire.CodeInternal, 500, false}, {wire.CodeUnavailable, 503, false}, {wire.CodeTooManyRequests, 429, false},
		{"", 500, false}, {"a_code_of_tomorrow", 403, true}, {wire.CodeClockSkew, 401, false}, {wire.CodeReplayed, 401, false},
	}
	for _, test := range tests {
		t.Run(test.code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				refuse := true
				b.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
					if refuse {
						return gatewaytest.Refusal(test.status, test.code)
					}
					return nil
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				_, err := b.run(ctx)
				var refusal *transport.Refusal
				if final := errors.As(err, &refusal); final != test.final {
					t.Fatalf("error %v", err)
				}
				n := len(b.g.Requests(""))
				if test.final && (n != 1 || !strings.Contains(err.Error(), "do something")) {
					t.Errorf("%d requests, error %v", n, err)
				}
				if !test.final && (n < 12 || n > 400) {
					t.Errorf("%d requests in an hour", n)
				}
				refuse = false
				if _, err := b.run(context.Background()); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

// TestFormerNodeIsSilentFirst: the gateway says when it may grant the request, and the node asks every pollPause until then.
func TestFormerNodeIsSilentFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		begin := time.Now()
		told := 0
		b.cfg.Report = func(error) { told++ }
		b.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
			if left := 95*time.Second - time.Since(begin); left > 0 {
				return gatewaytest.NotYet(int(left/time.Second) + 1)
			}
			return nil
		}
		if _, err := b.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		n := len(b.g.Requests(""))
		if took := time.Since(begin); n != 8 || told != 7 || took < 95*time.Second || took > 97*time.Second {
			t.Errorf("%d requests, told %d times, after %s", n, told, took)
		}
	})
}

func TestWrongClock(t *testing.T) {
	for _, off := range []time.Duration{-20 * 365 * 24 * time.Hour, -3 * time.Hour, 26 * time.Hour} {
		b := newBench(t, func(cfg *transport.Config) { cfg.Now = func() time.Time { return time.Now().Add(off) } })
		state, err := b.run(context.Background())
		if err != nil || time.Until(state.Current.IssuedAt).Abs() > time.Minute {
			t.Errorf("%s: %v", off, err)
		}
		if n := len(b.g.Requests("")); n != 2 {
			t.Errorf("%s: %d requests, want 2", off, n)
		}
	}
}

// TestSignsAsItsNode: a machine that is a node signs its enrolment too. It hears the gateway's epoch by that, and asks again at once.
func TestSignsAsItsNode(t *testing.T) {
	b := newBench(t, nil)
	was := b.g.Node(t)
	if was.SignerAs("another") != nil || (identity.State{}).SignerAs("") != nil {
		t.Error("a machine signs for a node that it is not")
	}
	b.cfg.Node = was.SignerAs(was.Name)
	if _, err := b.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	asked := b.g.Requests("")
	if len(asked) != 2 || asked[1].Signature == nil || asked[1].Signature.Fingerprint != b.cfg.Node.Fingerprint ||
		asked[1].Signature.Epoch != b.g.Epoch {
		t.Fatalf("%d requests", len(asked))
	}
}

func TestKeyInUseMakesOneNewKey(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		b := newBench(t, nil)
		n := 0
		b.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
			if n++; n == 1 || stubborn {
				return gatewaytest.Refusal(409, wire.CodeKeyInUse)
			}
			return nil
		}
		_, err := b.run(context.Background())
		if (err != nil) != stubborn || n != 2 {
			t.Errorf("stubborn %t: %d requests, %v", stubborn, n, err)
		}
		keys := map[string]bool{}
		for _, r := range b.g.Requests("") {
			var request wire.RegisterRequest
			json.Unmarshal(r.Body, &request)
			keys[gatewaytest.CSRKey(t, request.CSR)] = true
		}
		if len(keys) != 2 {
			t.Errorf("%d keys", len(keys))
		}
	}
}

func TestWelcomesThatDoNotHoldTogether(t *testing.T) {
	other := gatewaytest.New(t)
	set := func(g *gatewaytest.Gateway, w *wire.Welcome, change func(*wire.TrustSet)) {
		s := wire.TrustSet{Number: 1, TrustDomain: gatewaytest.Domain, TrustKey: w.TrustKey, Roots: w.Roots,
			AnswerKeys: []string{w.AnswerKey}}
		change(&s)
		w.Trust = g.TrustSet(s)
	}
	for name, change := range map[string]func(g *gatewaytest.Gateway, w *wire.Welcome){
		"no certificate":      func(_ *gatewaytest.Gateway, w *wire.Welcome) { w.Certificate = "" },
		"another node's":      func(_ *gatewaytest.Gateway, w *wire.Welcome) { w.NodeID = "n999" },
		"a path as node id":   func(_ *gatewaytest.Gateway, w *wire.Welcome) { w.NodeID = "../n1" },
		"no node id":          func(_ *gatewaytest.Gateway, w *wire.Welcome) { w.NodeID = "" },
		"another key's":       func(g *gatewaytest.Gateway, w *wire.Welcome) { w.Certificate = other.Node(t).Current.Certificate },
		"no trust key":        func(_ *gatewaytest.Gateway, w *wire.Welcome) { w.TrustKey = "" },
		"no trust set":        func(_ *gatewaytest.Gateway, w *wire.Welcome) { w.Trust = nil },
		"a foreign trust set": func(_ *gatewaytest.Gateway, w *wire.Welcome) { set(other, w, func(*wire.TrustSet) {}) },
		"unknown answer key": func(g *gatewaytest.Gateway, w *wire.Welcome) {
			set(g, w, func(s *wire.TrustSet) { s.AnswerKeys = nil })
		},
		"another answer key":   func(_ *gatewaytest.Gateway, w *wire.Welcome) { w.AnswerKey = w.TrustKey },
		"an answer key of air": func(g *gatewaytest.Gateway, w *wire.Welcome) { w.AnswerKey = "x"; set(g, w, func(*wire.TrustSet) {}) },
		"another domain": func(g *gatewaytest.Gateway, w *wire.Welcome) {
			set(g, w, func(s *wire.TrustSet) { s.TrustDomain = "x" })
		},
		"an unsigned root": func(_ *gatewaytest.Gateway, w *wire.Welcome) { w.Roots += other.CA.RootPEM() },
		"no roots":         func(_ *gatewaytest.Gateway, w *wire.Welcome) { w.Roots = "" },
		"foreign roots": func(g *gatewaytest.Gateway, w *wire.Welcome) {
			w.Roots = other.CA.RootPEM()
			set(g, w, func(*wire.TrustSet) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.g.Welcome = func(w *wire.Welcome) { change(b.g, w) }
			if _, err := b.run(context.Background()); err == nil || !strings.Contains(err.Error(), "not usable") {
				t.Errorf("error %v", err)
			}
			if state, err := b.directory.Load(); err != nil || state.Current != nil || state.Pending == "" {
				t.Errorf("stored %+v, %v", state, err)
			}
		})
	}
}

func TestRootPinIsEnforced(t *testing.T) {
	b := newBench(t, nil)
	b.cfg.Pins = transport.PinsOf(gatewaytest.NewCA(t, time.Now()).RootPEM())
	_, err := b.run(context.Background())
	if !errors.Is(err, identity.ErrOtherRoot) || !strings.Contains(err.Error(), b.cfg.Pins.String()) ||
		!strings.Contains(err.Error(), b.g.CA.Pin()) ||
		!strings.Contains(err.Error(), "muster ca show") {
		t.Errorf("another root: %v", err)
	}
	b.cfg.Pins = append(b.cfg.Pins, transport.PinsOf(b.g.CA.RootPEM())...)
	if _, err := b.run(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestPreSharedKeyNeedsTrust(t *testing.T) {
	b := newBench(t, func(cfg *transport.Config) { cfg.First.NeedTrust = true })
	if _, err := b.run(context.Background()); !errors.Is(err, transport.ErrUntrusted) || len(b.g.Requests("")) != 0 {
		t.Errorf("%v after %d requests", err, len(b.g.Requests("")))
	}
	psk := "correct horse battery staple"
	credential, err := identity.ParseCredential(psk)
	if err != nil || !credential.Shared {
		t.Fatalf("%+v, %v", credential, err)
	}
	b.g.PSK(t, psk)
	b.cfg.Credential = credential
	certificate := b.g.CA.Server(t, time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 1), gatewaytest.Host)
	b.cfg.Pins = transport.PinsOf(b.g.CA.RootPEM())
	b.cfg.Client = pinnedClient(t, b, &certificate)
	if _, err := b.run(context.Background()); err != nil {
		t.Error(err)
	}
}

func pinnedClient(t *testing.T, b *bench, certificate *tls.Certificate) *transport.Client {
	pipe := gatewaytest.ServePipe(t, b.g, certificate)
	client, err := transport.New(transport.Config{
		Gateway: "https://" + gatewaytest.Host, Dial: pipe.Dial, First: transport.FirstContact{NeedTrust: true, Pins: b.cfg.Pins},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestUnwritableStateIsSaidBeforeAnythingIsAsked(t *testing.T) {
	b := newBench(t, nil)
	gatewaytest.FillDisk(t, b.directory.Path())
	if _, err := b.run(context.Background()); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("error %v", err)
	}
	if n := len(b.g.Requests("")); n != 0 {
		t.Errorf("%d requests", n)
	}
}
