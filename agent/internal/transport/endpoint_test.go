package transport_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

const (
	gw1 = "https://gw1.test"
	gw2 = "https://gw2.test"
	gw3 = "https://gw3.test"
)

// site is a gateway that several URLs lead to.
type site struct {
	g *gatewaytest.Gateway

	mu     sync.Mutex
	dialed []string                     // hosts, in the order of dialling
	down   map[string]bool              // hosts that refuse
	other  map[string]*gatewaytest.Pipe // what is at a host instead
	pipe   *gatewaytest.Pipe
}

func newSite(t *testing.T) *site {
	g := gatewaytest.New(t)
	return &site{g: g, pipe: gatewaytest.ServePipe(t, g, g.Serving(t)), down: map[string]bool{}, other: map[string]*gatewaytest.Pipe{}}
}

func (s *site) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	s.mu.Lock()
	s.dialed = append(s.dialed, host)
	down := s.down[host]
	to := s.pipe
	if other := s.other[host]; other != nil {
		to = other
	}
	s.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	return to.Dial(ctx, network, address)
}

// dials gives the hosts that were dialled since the last time.
func (s *site) dials() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(slices.Compact(s.dialed), " ")
	s.dialed = nil
	return all
}

func (s *site) fails(host string, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down[host] = down
}

// client is a node's that joined at a URL, with what it knows.
func (s *site) client(t *testing.T, home string, change func(*transport.Identity)) *transport.Client {
	t.Helper()
	client, err := transport.New(transport.Config{Gateway: home, Version: "1", Dial: s.dial,
		SystemRoots: gatewaytest.NewCA(t, time.Now()).Pool(),
		Timeout:     10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	id := s.g.Identity(t)
	id.Home = gw1
	id.Gateways = []string{gw2, gw1, gw3}
	if change != nil {
		change(&id)
	}
	client.Use(id)
	t.Cleanup(client.Close)
	return client
}

// TestNextGateway: after a network error all requests go to the next gateway, and prove themselves there as they did before.
func TestNextGateway(t *testing.T) {
	s := newSite(t)
	s.g.Sets = nil
	client := s.client(t, gw1, nil)
	good := func(through string) {
		t.Helper()
		for range 3 {
			if _, err := call(client); err != nil {
				t.Fatal(err)
			}
		}
		if client.Through() != through || client.Mode() != "mtls" || client.Gateway() != gw1 {
			t.Errorf("it talks to %q by %s, want %q", client.Through(), client.Mode(), through)
		}
	}
	fails := func(want string) {
		t.Helper()
		client.Close()
		_, err := call(client)
		if err == nil || !strings.Contains(err.Error(), "reach "+want) {
			t.Errorf("error %v, want one of %s", err, want)
		}
	}
	good("")
	s.fails("gw1.test", true)
	fails("gw1.test")
	s.dials()
	good(gw2)
	if _, err := client.FetchTrust(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := client.Do(t.Context(), transport.Request{Path: "/other", Kind: "x/y", Body: []byte("z")}); err != nil {
		t.Error(err)
	}
	if got := s.dials(); got != "gw2.test" {
		t.Errorf("dialled %s", got)
	}
	client.Use(s.g.Identity(t)) // a renewal, and the list is forgotten
	good(gw2)
	s.fails("gw2.test", true)
	fails("gw2.test")
	s.fails("gw1.test", false)
	good("")

	client.Follow([]string{gw3, "http://gw4.test", gw2})
	s.fails("gw1.test", true)
	fails("gw1.test")
	good(gw3)
	s.fails("gw3.test", true)
	fails("gw3.test")
	fails("gw2.test")
	fails("gw1.test")
	s.fails("gw3.test", false)
	good(gw3)
}

// TestAnswersMoveNobody: a verdict is no reason to try another gateway. What something between answers is no verdict.
func TestAnswersMoveNobody(t *testing.T) {
	for name, reply := range map[string]*gatewaytest.Reply{
		"banned":         gatewaytest.Refusal(403, wire.CodeBanned),
		"unknown":        gatewaytest.Refusal(401, wire.CodeUnknownCertificate),
		"gone":           gatewaytest.Refusal(410, wire.CodeRetired),
		"broken":         gatewaytest.Refusal(500, wire.CodeInternal),
		"busy":           gatewaytest.Refusal(503, wire.CodeUnavailable),
		"an edge's page": {Status: 403, Body: []byte("<html>"), Unproven: true},
		"a bad gateway":  {Status: 502, Body: []byte("<html>"), Unproven: true},
		"no proof":       {Status: 200, Body: []byte("{}"), Unproven: true},
		"too large":      {Status: 200, Body: []byte(strings.Repeat(" ", wire.MaxBody+1))},
	} {
		s := newSite(t)
		public := gatewaytest.NewCA(t, time.Now())
		edge := public.Server(t, time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 1), "gw1.test")
		s.other["gw1.test"] = gatewaytest.ServePipe(t, s.g, &edge)
		s.g.Script = func(gatewaytest.Request) *gatewaytest.Reply { return new(*reply) }
		client, err := transport.New(transport.Config{Gateway: gw1, Dial: s.dial, SystemRoots: public.Pool()})
		if err != nil {
			t.Fatal(err)
		}
		id := s.g.Identity(t)
		id.Gateways = []string{gw1, gw2}
		client.Use(id)
		for range 2 {
			if _, err := call(client); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		want := "gw1.test"
		if reply.Unproven {
			want = "gw1.test gw2.test"
		}
		if got := s.dials(); got != want || client.Through() != "" {
			t.Errorf("%s: dialled %s", name, got)
		}
		client.Close()
	}
}

// TestWhatIsANetworkError: silence, a cut connection and a certificate that is not believed are; what the caller ends is not.
func TestWhatIsANetworkError(t *testing.T) {
	silent := func(q gatewaytest.Request) *gatewaytest.Reply {
		<-q.Gone
		return &gatewaytest.Reply{Hangup: true}
	}
	cause := errors.New("the caller's own")
	limited := func(why error) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, why)
		}
	}
	for name, c := range map[string]struct {
		script  func(gatewaytest.Request) *gatewaytest.Reply
		foreign bool // the certificate is another CA's
		ctx     func(context.Context) (context.Context, context.CancelFunc)
		through string
	}{
		"cut": {script: func(gatewaytest.Request) *gatewaytest.Reply { return &gatewaytest.Reply{Hangup: true} }, through: gw2},
		"cut in the body": {script: func(gatewaytest.Request) *gatewaytest.Reply {
			return &gatewaytest.Reply{Status: 200, Body: []byte("{}"), Cut: 1}
		}, through: gw2},
		"silent":                             {script: silent, through: gw2},
		"not believed":                       {foreign: true, through: gw2},
		"the caller's time":                  {script: silent, ctx: limited(cause)},
		"silent for the time that there was": {script: silent, ctx: limited(transport.ErrSilent), through: gw2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				s.g.Script = c.script
				if c.foreign {
					now := time.Now()
					other := gatewaytest.NewCA(t, now).Server(t, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), "gw1.test")
					s.other["gw1.test"] = gatewaytest.ServePipe(t, s.g, &other)
				}
				client := s.client(t, gw1, nil)
				defer client.Close()
				ctx := t.Context()
				if c.ctx != nil {
					bounded, cancel := c.ctx(ctx)
					defer cancel()
					ctx = bounded
				}
				if _, err := client.Do(ctx, transport.Request{Path: beat}); err == nil {
					t.Error("no error")
				}
				if client.Through() != c.through {
					t.Errorf("it talks to %q, want %q", client.Through(), c.through)
				}
			})
		})
	}
}

// TestOneStepForAll: calls that fail together go on together, and one that fails late at a gateway from before moves nobody.
func TestOneStepForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			<-q.Gone
			return &gatewaytest.Reply{Hangup: true}
		}
		client := s.client(t, gw1, nil)
		var late, all sync.WaitGroup
		fails := func(timeout time.Duration) {
			if _, err := client.Do(t.Context(), transport.Request{Path: beat, Timeout: timeout}); err == nil {
				t.Error("no error")
			}
		}
		late.Go(func() { fails(9 * time.Second) })
		synctest.Wait()
		for _, want := range []string{gw2, gw3} {
			for range 5 {
				all.Go(func() { fails(time.Second) })
			}
			all.Wait()
			if client.Through() != want {
				t.Errorf("it talks to %q, want %q", client.Through(), want)
			}
		}
		late.Wait()
		if client.Through() != gw3 {
			t.Errorf("it talks to %q", client.Through())
		}
		client.Close()
	})
}

// TestBeginsWhereItWasHeard: a new client begins where the node was heard last, if it is for the gateway that the node has joined.
func TestBeginsWhereItWasHeard(t *testing.T) {
	for name, c := range map[string]struct {
		home, last string
		want       string
	}{
		"nowhere yet":           {gw1, "", ""},
		"at another one":        {gw1, gw3, gw3},
		"at one that is gone":   {gw1, "https://gw9.test", ""},
		"with another URL":      {"https://moved.test", gw3, ""},
		"with a URL of no use":  {gw1, "http://gw3.test", ""},
		"at the own one itself": {gw1, gw1, ""},
	} {
		s := newSite(t)
		client := s.client(t, c.home, func(id *transport.Identity) { id.Last = c.last })
		if _, err := call(client); err != nil || client.Through() != c.want {
			t.Errorf("%s: it talks to %q, want %q (%v)", name, client.Through(), c.want, err)
		}
		client.Close()
	}
}

// TestWithoutTLS: a node that joined without TLS keeps to its URL, though others are known.
func TestWithoutTLS(t *testing.T) {
	g := gatewaytest.New(t)
	pipe := gatewaytest.ServePipe(t, g, (*tls.Certificate)(nil))
	down := true
	pipe.Down = func() bool { return down }
	client, err := transport.New(transport.Config{Gateway: "http://gw1.test", Dial: pipe.Dial})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	id := g.Identity(t)
	id.Gateways = []string{gw1, gw2}
	id.Home = "http://gw1.test"
	id.Last = gw2
	client.Use(id)
	for range 3 {
		if _, err := call(client); err == nil || client.Through() != "" {
			t.Errorf("it talks to %q, %v", client.Through(), err)
		}
	}
	down = false
	if _, err := call(client); err != nil {
		t.Error(err)
	}
}

// TestNextGatewayThroughCurl: the same through curl, which verifies the certificate of each gateway.
func TestNextGatewayThroughCurl(t *testing.T) {
	g := gatewaytest.New(t)
	at := gatewaytest.Listen(t, g, g.Serving(t))
	nobody := at[:strings.LastIndex(at, ":")] + ":1"
	client := curlClient(t, nobody, nil, nil)
	id := g.Identity(t)
	id.Gateways = []string{nobody, at}
	client.Use(id)
	if _, err := call(client); err == nil || client.Through() != at {
		t.Errorf("it talks to %q, %v", client.Through(), err)
	}
	if _, err := call(client); err != nil || client.Mode() != "curl" {
		t.Errorf("by %s: %v", client.Mode(), err)
	}
}
