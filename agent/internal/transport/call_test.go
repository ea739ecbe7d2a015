package transport_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

const beat = "/nodes/n1/heartbeat"

// connect makes a client with an identity for a gateway on an in-memory network. certificate nil: plain HTTP.
func connect(t *testing.T, g *gatewaytest.Gateway, certificate *tls.Certificate, change func(*transport.Config)) *transport.Client {
	t.Helper()
	pipe := gatewaytest.ServePipe(t, g, certificate)
	cfg := transport.Config{Gateway: "http://" + gatewaytest.Host, Version: "1", Dial: pipe.Dial,
		SystemRoots: gatewaytest.NewCA(t, time.Now()).Pool()}
	if certificate != nil {
		cfg.Gateway = "https://" + gatewaytest.Host
	}
	if change != nil {
		change(&cfg)
	}
	client, err := transport.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client.Use(g.Identity(t))
	t.Cleanup(client.Close)
	return client
}

func call(client *transport.Client) (wire.HeartbeatAnswer, error) {
	var answer wire.HeartbeatAnswer
	err := client.Call(context.Background(), beat, wire.HeartbeatRequest{RunID: "r"}, &answer)
	return answer, err
}

func TestProvesItselfAsTheConnectionAllows(t *testing.T) {
	public := gatewaytest.NewCA(t, time.Now())
	now := time.Now()
	foreign := public.Server(t, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), gatewaytest.Host)
	g := gatewaytest.New(t)
	tests := []struct {
		name             string
		certificate      *tls.Certificate
		signed, withPeer []bool // per heartbeat
		mode             string
	}{
		{"plain http", nil, []bool{true, true, true, true}, []bool{false, false, false, false}, "signed"},
		{"an edge with a public certificate", &foreign, []bool{true, true, true, true}, []bool{false, false, false, false}, "signed"},
		{"the gateway's own TLS", g.Serving(t), []bool{true, true, false, false}, []bool{true, true, true, true}, "mtls"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := gatewaytest.New(t)
			if test.certificate != nil && test.certificate != &foreign {
				test.certificate = g.Serving(t)
			}
			client := connect(t, g, test.certificate, func(cfg *transport.Config) { cfg.SystemRoots = public.Pool() })
			for range 3 {
				if answer, err := call(client); err != nil || answer.State != "active" {
					t.Fatalf("call: %+v, %v", answer, err)
				}
			}
			got := g.Requests("/heartbeat")
			if len(got) != 4 { // the first one learns the epoch
				t.Fatalf("%d requests, want 4", len(got))
			}
			for i, r := range got {
				if (r.Signature != nil) != test.signed[i] || (r.Peer != nil) != test.withPeer[i] {
					t.Errorf("request %d: signed %t with certificate %t, want %t %t", i, r.Signature != nil, r.Peer != nil, test.signed[i],
						test.withPeer[i])
				}
			}
			if client.Mode() != test.mode {
				t.Errorf("mode %s, want %s", client.Mode(), test.mode)
			}
		})
	}
}

func TestNothingUnprovenIsBelieved(t *testing.T) {
	other := gatewaytest.New(t)
	far := time.Now().Add(100 * time.Hour).UTC()
	tests := map[string]func(q gatewaytest.Request, r *gatewaytest.Reply){
		"no proof":      func(_ gatewaytest.Request, r *gatewaytest.Reply) { delete(r.Header, wire.HeaderAnswer) },
		"empty proof":   func(_ gatewaytest.Request, r *gatewaytest.Reply) { r.Header[wire.HeaderAnswer] = "" },
		"garbage proof": func(_ gatewaytest.Request, r *gatewaytest.Reply) { r.Header[wire.HeaderAnswer] = "AAAA" },
		"other status":  func(_ gatewaytest.Request, r *gatewaytest.Reply) { r.Status = 202 },
		"other body": func(_ gatewaytest.Request, r *gatewaytest.Reply) {
			r.Body = other.JSON(200, wire.Error{Time: &far}).Body
		},
		"other nonce": func(q gatewaytest.Request, r *gatewaytest.Reply) {
			q.Signature.Nonce = "another.0123456789abcdef"
			gatewaytest.Prove(other.Answer, q, r)
		},
		"other key": func(q gatewaytest.Request, r *gatewaytest.Reply) { gatewaytest.Prove(other.Answer, q, r) },
		"a proven refusal's body under no proof": func(_ gatewaytest.Request, r *gatewaytest.Reply) {
			*r = *gatewaytest.Refusal(403, wire.CodeRevoked)
			r.Header = nil
		},
	}
	for name, tamper := range tests {
		t.Run(name, func(t *testing.T) {
			g := gatewaytest.New(t)
			g.Tamper = tamper
			client := connect(t, g, nil, nil)
			_, err := call(client)
			var unproven *transport.Unproven
			if !errors.As(err, &unproven) || !strings.HasPrefix(err.Error(), "something between this machine and the gateway answered "+
				"instead of it: ") {
				t.Errorf("error %v, want an Unproven", err)
			}
			if client.Offset() != 0 {
				t.Errorf("the clock was moved by %s", client.Offset())
			}
		})
	}
}

func TestUnprovenAnswersAreDescribed(t *testing.T) {
	html := []byte("<html><head><title>Just a\x1b[31m moment</title></head></html>")
	tests := []struct {
		name  string
		reply gatewaytest.Reply
		want  []string
	}{
		{"edge challenge", gatewaytest.Reply{Status: 403, Body: html,
			Header: map[string]string{"Cf-Mitigated": "challenge", "Server": "cloudflare"}},
			[]string{"HTTP 403", "an HTML page", "moment", "cf-mitigated", "cloudflare"}},
		{"maintenance page", gatewaytest.Reply{Status: 503, Body: html, Header: map[string]string{"Content-Type": "text/html"}},
			[]string{"HTTP 503", "an HTML page"}},
		{"tunnel down", gatewaytest.Reply{Status: 530, Body: []byte("error code: 1033")},
			[]string{"HTTP 530", "without the gateway's proof"}},
		{"redirect", gatewaytest.Reply{Status: 302, Header: map[string]string{"Location": "https://portal.test/login"}},
			[]string{"a redirect to https://portal.test/login"}},
		{"claim", gatewaytest.Reply{Status: 401, Body: gatewaytest.Refusal(401, "revoked").Body},
			[]string{`the error "revoked" without the gateway's signature`}},
		{"empty", gatewaytest.Reply{Status: 200}, []string{"empty body"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := gatewaytest.New(t)
			g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
				reply := test.reply
				reply.Unproven = true
				return &reply
			}
			_, err := call(connect(t, g, nil, nil))
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q in it", err, want)
				}
			}
			if err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("control characters in %q", err)
			}
			if n := len(g.Requests("")); n != 1 {
				t.Errorf("%d requests, want 1: nothing is followed", n)
			}
		})
	}
}

func TestClockIsCorrectedFromProvenAnswers(t *testing.T) {
	for _, off := range []time.Duration{-30 * 24 * time.Hour, -3 * time.Hour, -10 * time.Second, 3 * time.Hour, 87600 * time.Hour} {
		for _, secure := range []bool{false, true} {
			t.Run(off.String(), func(t *testing.T) {
				g := gatewaytest.New(t)
				var certificate *tls.Certificate
				if secure {
					certificate = g.Serving(t) // good for a month: the dates fail by the node's clock
				}
				client := connect(t, g, certificate, func(cfg *transport.Config) {
					cfg.Now = func() time.Time { return time.Now().Add(off) }
				})
				for range 2 {
					if _, err := call(client); err != nil {
						t.Fatal(err)
					}
				}
				if got := client.Offset() + off; got.Abs() > 2*time.Second {
					t.Errorf("offset %s for a clock that is off by %s", client.Offset(), off)
				}
				if want := map[bool]string{true: "mtls", false: "signed"}[secure]; client.Mode() != want {
					t.Errorf("mode %s, want %s", client.Mode(), want)
				}
			})
		}
	}
}

func TestExpiredServingCertificateIsNoProof(t *testing.T) {
	g := gatewaytest.New(t)
	now := time.Now()
	expired := g.CA.Server(t, now.AddDate(0, -2, 0), now.AddDate(0, -1, 0), gatewaytest.Host)
	client := connect(t, g, &expired, nil)
	for range 3 {
		if _, err := call(client); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range g.Requests("/heartbeat") {
		if r.Signature == nil {
			t.Errorf("request %d went unsigned over a certificate that has expired", i)
		}
	}
	g.Tamper = func(_ gatewaytest.Request, r *gatewaytest.Reply) { delete(r.Header, wire.HeaderAnswer) }
	if _, err := call(client); err == nil {
		t.Error("an answer was believed by an expired certificate alone")
	}
}

func TestSignsAgainWhenAsked(t *testing.T) {
	tests := []struct {
		name  string
		codes []string // of the first answers
		more  int      // requests beyond those
		fails bool
	}{
		{"stale nonce", []string{wire.CodeStaleNonce}, 1, false},
		{"replayed twice", []string{wire.CodeReplayed, wire.CodeReplayed}, 1, false},
		{"for ever", []string{"replayed", "replayed", "replayed", "replayed", "replayed", "replayed"}, 0, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := gatewaytest.New(t)
			n := 0
			g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
				if n++; n > len(test.codes) {
					return nil
				}
				return g.JSON(401, wire.Error{Error: wire.ErrorDetail{Code: test.codes[n-1]}, Epoch: g.Epoch})
			}
			_, err := call(connect(t, g, nil, nil))
			if (err != nil) != test.fails {
				t.Fatalf("error %v", err)
			}
			var refusal *transport.Refusal
			if errors.As(err, &refusal) {
				t.Errorf("%v counts as a refusal", err)
			}
			got := g.Requests("/heartbeat")
			if want := min(len(test.codes), 4) + test.more; len(got) != want {
				t.Errorf("%d requests, want %d", len(got), want)
			}
			seen := map[string]bool{}
			for _, r := range got {
				if seen[r.Signature.Nonce] {
					t.Error("a nonce was used twice")
				}
				seen[r.Signature.Nonce] = true
			}
		})
	}
}

func TestEpochOfARestartedGateway(t *testing.T) {
	g := gatewaytest.New(t)
	client := connect(t, g, nil, nil)
	for _, epoch := range []string{"epoch1", "epoch2"} {
		g.Epoch = epoch
		before := len(g.Requests(""))
		if _, err := call(client); err != nil {
			t.Fatal(err)
		}
		if n := len(g.Requests("")) - before; n != 2 {
			t.Errorf("%d requests with a new epoch, want 2", n)
		}
	}
}

func TestUnsignedOnlyWhileTheCertificateArrives(t *testing.T) {
	g := gatewaytest.New(t)
	client := connect(t, g, g.Serving(t), nil)
	for range 2 {
		if _, err := call(client); err != nil {
			t.Fatal(err)
		}
	}
	blind := true
	g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
		if blind && q.Signature == nil {
			return gatewaytest.Refusal(401, wire.CodeNoIdentity)
		}
		return nil
	}
	before := len(g.Requests(""))
	if _, err := call(client); err != nil {
		t.Fatal(err)
	}
	got := g.Requests("")[before:]
	if len(got) != 2 || got[0].Signature != nil || got[1].Signature == nil {
		t.Errorf("%d requests, want an unsigned and then a signed one", len(got))
	}
}

func TestMutualTLSRequired(t *testing.T) {
	g := gatewaytest.New(t)
	g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
		if q.Signature != nil {
			return gatewaytest.Refusal(403, wire.CodeMTLSRequired)
		}
		return nil
	}
	if _, err := call(connect(t, g, g.Serving(t), nil)); err != nil {
		t.Error(err)
	}
	_, err := call(connect(t, g, nil, nil))
	var refusal *transport.Refusal
	if !errors.As(err, &refusal) || refusal.Code != wire.CodeMTLSRequired {
		t.Errorf("over plain HTTP: %v", err)
	}
}

func TestRefusalsAreHandedOn(t *testing.T) {
	g := gatewaytest.New(t)
	g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
		reply := gatewaytest.Refusal(429, wire.CodeTooManyRequests)
		reply.Header = map[string]string{"Retry-After": "86400"}
		return reply
	}
	_, err := call(connect(t, g, nil, nil))
	var refusal *transport.Refusal
	if !errors.As(err, &refusal) || refusal.Code != wire.CodeTooManyRequests || refusal.RetryAfter != 300 || refusal.Status != 429 {
		t.Fatalf("%#v", err)
	}
	if want := "the gateway refuses (too_many_requests): because of too_many_requests (do something)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

func TestTLSThatNobodyVouchesFor(t *testing.T) {
	now := time.Now()
	public := gatewaytest.NewCA(t, now)
	foreign := public.Server(t, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), gatewaytest.Host)
	elsewhere := public.Server(t, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), "other.test")
	for name, test := range map[string]struct {
		certificate tls.Certificate
		system      *gatewaytest.CA
	}{"unknown root": {foreign, gatewaytest.NewCA(t, now)}, "another host": {elsewhere, public}} {
		t.Run(name, func(t *testing.T) {
			g := gatewaytest.New(t)
			client := connect(t, g, &test.certificate, func(cfg *transport.Config) { cfg.SystemRoots = test.system.Pool() })
			if _, err := call(client); !errors.Is(err, transport.ErrUntrusted) {
				t.Errorf("error %v", err)
			}
			if n := len(g.Requests("")); n != 0 {
				t.Errorf("%d requests arrived", n)
			}
		})
	}
}

func TestBodiesAreBounded(t *testing.T) {
	g := gatewaytest.New(t)
	g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
		return &gatewaytest.Reply{Status: 200, Body: make([]byte, wire.MaxBody+1)}
	}
	if _, err := call(connect(t, g, nil, nil)); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("error %v", err)
	}
}

// TestLongTrustChain: a gateway adds a set per rotation, so that the chain of an old one is larger than other answers.
func TestLongTrustChain(t *testing.T) {
	for size, fits := range map[int]bool{wire.MaxBody + 1: true, 8<<20 + 1: false} {
		g := gatewaytest.New(t)
		g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			if q.Path != wire.PathTrust {
				return nil
			}
			return &gatewaytest.Reply{Status: 200, Body: make([]byte, size)}
		}
		document, err := connect(t, g, nil, nil).FetchTrust(t.Context())
		if (err == nil) != fits || fits && len(document) != size {
			t.Errorf("%d bytes: got %d, %v", size, len(document), err)
		}
	}
}

func TestHangingGatewayIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gatewaytest.New(t)
		g.Script = func(gatewaytest.Request) *gatewaytest.Reply { time.Sleep(10 * time.Minute); return nil }
		started := time.Now()
		_, err := call(connect(t, g, nil, nil))
		if err == nil || time.Since(started) != transport.DefaultTimeout {
			t.Errorf("error %v after %s", err, time.Since(started))
		}
		time.Sleep(time.Hour)
	})
}

// TestNoTLSOnATLSPort: a server that wants TLS answers 400. It often breaks the answer off, because it does not read the request's body.
func FuzzUnproven(f *testing.F) {
	f.Add(403, "text/html", []byte("<title>no</title>"))
	f.Add(401, "application/json", []byte(`{"error":{"code":"revoked","message":"x"}}`))
	f.Add(200, "", []byte("\x1b]0;title\x07\u202e"))
	f.Add(502, "text/html", []byte("</title><title>\xff"))
	f.Fuzz(func(t *testing.T, status int, kind string, body []byte) {
		a := transport.Answer{Status: status, Header: http.Header{"Content-Type": {kind}, "Server": {kind}, "Location": {kind}}, Body: body}
		text := a.Unproven().Error()
		if len(text) > 1500 || strings.ContainsAny(text, "\x00\x07\x1b\r\n\u202e") {
			t.Errorf("%q", text)
		}
	})
}
