package transport_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

func TestFirstContact(t *testing.T) {
	now := time.Now()
	public := gatewaytest.NewCA(t, now)
	stranger := gatewaytest.NewCA(t, now)
	g := gatewaytest.New(t)
	own := g.Serving(t)
	foreign := public.Server(t, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), gatewaytest.Host)
	elsewhere := public.Server(t, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), "other.test")
	old := g.CA.Server(t, now.AddDate(-1, 0, 0), now.AddDate(0, -1, 0), gatewaytest.Host)
	evil := stranger.Server(t, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), gatewaytest.Host)
	evil.Certificate = append(evil.Certificate, g.CA.Root.Raw) // shows the pinned root, but is not signed by it
	withRoot := *own
	withRoot.Certificate = append([][]byte{}, own.Certificate...)
	withRoot.Certificate = append(withRoot.Certificate, g.CA.Root.Raw)
	pin := g.CA.Pin()
	tests := []struct {
		name        string
		certificate *tls.Certificate
		trust       bool
		pin         string
		good        bool
		requests    int // of any kind
	}{
		{"token, plain http", nil, false, "", true, 1},
		{"token, the gateway's own TLS", own, false, "", true, 1},
		{"token, anyone's TLS", &evil, false, "", true, 1},
		{"psk, plain http", nil, true, "", false, 0},
		{"psk, plain http and a pin", nil, true, pin, false, 0},
		{"psk, public TLS", &foreign, true, "", true, 1},
		{"psk, public TLS of another host", &elsewhere, true, "", false, 0},
		{"psk, the gateway's own TLS, no pin", own, true, "", false, 0},
		{"psk, the gateway's own TLS and its pin", own, true, pin, true, 2},
		{"psk, the root among the certificates", &withRoot, true, pin, true, 1},
		{"psk, dates are not relied on", &old, true, pin, true, 2},
		{"psk, the second of two pins", own, true, stranger.Pin() + " " + pin, true, 2},
		{"psk, two other pins", own, true, stranger.Pin() + " " + public.Pin(), false, 1},
		{"psk, another pin", own, true, stranger.Pin(), false, 1},
		{"psk, a chain that only shows the root", &evil, true, pin, false, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := &gatewaytest.Gateway{CA: g.CA, Now: time.Now, Script: func(q gatewaytest.Request) *gatewaytest.Reply {
				if q.Path == wire.PathRegister {
					return &gatewaytest.Reply{Status: 201, Unproven: true}
				}
				return nil
			}}
			pipe := gatewaytest.ServePipe(t, g, test.certificate)
			cfg := transport.Config{Gateway: "https://" + gatewaytest.Host, Dial: pipe.Dial, SystemRoots: public.Pool(),
				First: transport.FirstContact{NeedTrust: test.trust}}
			if test.certificate == nil {
				cfg.Gateway = "http://" + gatewaytest.Host
			}
			if test.pin != "" {
				cfg.First.Pins = pins(t, test.pin)
			}
			client, err := transport.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Register(context.Background(), "Muster x", nil, []byte("{}"))
			if (err == nil) != test.good || err == nil && answer.Status != 201 {
				t.Errorf("answer %d, error %v", answer.Status, err)
			}
			if err != nil && !errors.Is(err, transport.ErrUntrusted) {
				t.Errorf("error %v, want ErrUntrusted", err)
			}
			if n := len(g.Requests("")); n != test.requests {
				t.Errorf("%d requests, want %d", n, test.requests)
			}
			if !test.good && len(g.Requests(wire.PathRegister)) > 0 {
				t.Error("the request was sent to a gateway that proved nothing")
			}
		})
	}
}

// pins reads one or several root pins with blanks between them.
func pins(t *testing.T, text string) (all transport.Pins) {
	t.Helper()
	for one := range strings.FieldsSeq(text) {
		pin, err := transport.ParsePin(one)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, *pin)
	}
	return all
}

func TestParsePin(t *testing.T) {
	good := gatewaytest.NewCA(t, time.Now()).Pin()
	if pin, err := transport.ParsePin(" " + good + "\n"); err != nil || pin.String() != good {
		t.Errorf("%v, %v", pin, err)
	}
	for _, text := range []string{"", good[7:], "sha256:", good[:70], good + "00", "sha1:" + good[7:], good[:70] + "z"} {
		if _, err := transport.ParsePin(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestBackoffOfSeveral(t *testing.T) {
	var b transport.Backoff
	for i := range 12 {
		if wait, most := b.NextOf(3), 2*time.Second<<(i/3); wait < 200*time.Millisecond || wait > most {
			t.Errorf("wait %d is %s, want at most %s", i, wait, most)
		}
	}
}

func TestBackoff(t *testing.T) {
	var b transport.Backoff
	bound := 2 * time.Second
	longest := time.Duration(0)
	for i := range 5000 {
		wait := b.Next()
		if wait < 200*time.Millisecond || wait > bound {
			t.Fatalf("wait %d is %s, want at most %s", i, wait, bound)
		}
		bound = min(bound*2, transport.MaxWait)
		longest = max(longest, wait)
	}
	if longest < 4*time.Minute {
		t.Errorf("the longest wait is %s: no full jitter up to %s", longest, transport.MaxWait)
	}
	if b.Reset(); b.Next() > 2*time.Second {
		t.Error("a reset back-off does not begin anew")
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if transport.Sleep(ctx, time.Hour) {
		t.Error("slept on")
	}
	if !transport.Sleep(context.Background(), time.Nanosecond) {
		t.Error("woken")
	}
}
