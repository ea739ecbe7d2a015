package nodeapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/httpserver/origin"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/nodeapi"
	"muster/gateway/internal/reply"
	"muster/store"
)

// shortLife is that of a node's certificate here: it is renewed about every 12 s. What is left then is for a machine that is busy.
const shortLife = 18 * time.Second

// TestLongCallsBesideRenewals is the short form of TestLongCallsForMinutes.
func TestLongCallsBesideRenewals(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes its time")
	}
	longCalls(t, 2)
}

// longCalls has agents make calls of seconds in both directions, on every way to the gateway, while their certificates are renewed.
// None may be refused, or lost, and no node may be taken for two machines.
func longCalls(t *testing.T, generation int) {
	g := newLively(t)
	program := filepath.Join(t.TempDir(), "longcalls")
	// go test runs this anew when a file that the test looked at has changed.
	_ = filepath.WalkDir("../../../agent", func(string, fs.DirEntry, error) error { return nil })
	if out, err := exec.Command("go", "test", "-c", "-o", program, "muster/agent/internal/heartbeat").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	proxied := "https://" + proxiedHost
	proxy := "https_proxy=" + g.proxy(t)
	var group sync.WaitGroup
	defer group.Wait()
	for _, way := range []struct {
		name, url, transport, proxy, mode string
	}{
		{"mtls", g.tls.URL, "direct", "", "mtls"},
		{"mtls through a proxy", proxied, "direct", proxy, "mtls"},
		{"signed", g.plain.URL, "direct", "", "signed"},
		{"curl", g.tls.URL, "curl", "", "curl"},
		{"curl through a proxy", proxied, "curl", proxy, "curl"},
	} {
		name := strings.ReplaceAll(way.name, " ", "-")
		result := filepath.Join(t.TempDir(), "tally.json")
		command := exec.Command(program, "-test.run", "^TestLongCalls$", "-test.timeout", "0")
		command.Env = append(os.Environ(), "MUSTER_TOKEN="+g.token(t), "NAME="+name, "GATEWAY="+way.url, "WAY="+way.transport,
			"GENERATION="+strconv.Itoa(generation), "LONG_CALLS="+result, way.proxy)
		group.Go(func() {
			said, err := command.CombinedOutput()
			out, unread := os.ReadFile(result)
			var tally tally
			if err != nil || unread != nil || json.Unmarshal(out, &tally) != nil {
				t.Errorf("%s: %v\n%s%s", way.name, errors.Join(err, unread), out, said)
				return
			}
			t.Logf("%s: %s", way.name, bytes.TrimSpace(out))
			if tally.Generation < generation || tally.Modes[way.mode] == 0 {
				t.Errorf("%s: generation %d, want at least %d; or no call by %s\n%s", way.name, tally.Generation, generation, way.mode, said)
			}
			if tally.Done["wait"] == 0 || tally.Done["upload"] == 0 || tally.Done["download"] == 0 || len(tally.Refused)+len(tally.Lost) > 0 {
				t.Errorf("%s: %s\n%s", way.name, out, said)
			}
			g.unharmed(t, name)
		})
	}
	group.Wait()
	if refused := g.refused(); len(refused) > 0 {
		t.Errorf("the gateway refused %v", refused)
	}
}

// tally is what TestLongCalls of muster/agent/internal/heartbeat counts.
type tally struct {
	Modes      map[string]int
	Generation int
	Done       map[string]int
	Cut        int
	Refused    map[string]int
	Lost       []string
}

// lively is a gateway's node API with everything real behind it, the time as well.
type lively struct {
	store     *store.Store
	fleet     *fleet.Fleet
	bootstrap *bootstrap.Bootstrap
	tls       *httptest.Server
	plain     *httptest.Server

	mu    sync.Mutex
	codes []string
}

func newLively(t *testing.T) *lively {
	t.Helper()
	g := &lively{}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	var err error
	g.store = kit.Store(t, nil)
	ca, err := authority.Open(t.Context(), authority.Config{Store: g.store, TrustDomain: "test", CertTTL: shortLife})
	must(err)
	g.fleet, err = fleet.Open(t.Context(), fleet.Config{Store: g.store, RenewGrace: grace})
	must(err)
	g.bootstrap = bootstrap.New(bootstrap.Config{Store: g.store})
	serving, err := authority.NewServing(t.Context(), ca, nil)
	must(err)
	api := nodeapi.New(nodeapi.Config{
		Fleet: g.fleet, Bootstrap: g.bootstrap, Authority: ca, Issuer: ca, Store: g.store, BodyTime: time.Minute,
		Info:    &reply.Info{Epoch: epoch, Now: time.Now, Logger: slog.New(slog.DiscardHandler)},
		Address: origin.Resolver{}.Address, Interval: 30 * time.Second, Version: "v1", More: slowRoutes(),
	})
	mux := http.NewServeMux()
	api.Routes(mux)
	handler := g.watched(httpserver.New(httpserver.Config{Limits: httpserver.Limits{Body: time.Minute}}).Handler(api.Guard(mux, nodeapi.Doors{})))
	g.plain = httptest.NewServer(handler)
	t.Cleanup(g.plain.Close)
	g.tls = httptest.NewUnstartedServer(handler)
	g.tls.Config.ConnContext = api.Connected
	g.tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	g.tls.Listener = tls.NewListener(g.tls.Listener, &tls.Config{
		GetCertificate: serving.GetCertificate, ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true,
	})
	g.tls.Start()
	g.tls.URL = strings.Replace(g.tls.URL, "http:", "https:", 1)
	t.Cleanup(g.tls.Close)
	return g
}

// slowRoutes are what a later gateway has: a long poll, and large bodies in both directions.
func slowRoutes() []nodeapi.Route {
	route := func(method, name string, node func(context.Context, nodeapi.Call) (any, error)) nodeapi.Route {
		return nodeapi.Route{Method: method, Path: "/test/{id}/" + name, Proof: nodeapi.Identity, MaxBody: 4 << 20, Node: node}
	}
	return []nodeapi.Route{
		route(http.MethodGet, "wait", func(ctx context.Context, _ nodeapi.Call) (any, error) {
			select {
			case <-ctx.Done():
			case <-time.After(1500 * time.Millisecond):
			}
			return struct{}{}, nil
		}),
		route(http.MethodPost, "upload", func(ctx context.Context, c nodeapi.Call) (any, error) {
			select {
			case <-ctx.Done():
			case <-time.After(1500 * time.Millisecond):
			}
			sum := sha256.Sum256(c.Body)
			return hex.EncodeToString(sum[:]), nil
		}),
		route(http.MethodGet, "download", func(context.Context, nodeapi.Call) (any, error) {
			return strings.Repeat("x", 2<<20), nil
		}),
	}
}

func (g *lively) token(t *testing.T) string {
	t.Helper()
	secret, _, err := g.bootstrap.MintToken(t.Context(), api.TokenRequest{Tenant: "platform"}, store.Actor{Name: "operator:socket"})
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

// unharmed checks that the gateway takes a node for one machine.
func (g *lively) unharmed(t *testing.T, name string) {
	node, err := g.fleet.Node(t.Context(), "", name)
	if err != nil || node.State != wire.StateActive || len(node.Reasons) > 0 {
		t.Errorf("%s: state %s, reasons %v, error %v", name, node.State, node.Reasons, err)
	}
}

// refusal notes the code of an answer.
type refusal struct {
	http.ResponseWriter
	g      *lively
	status int
	asker  context.Context // done when nobody reads the answer: the agent has cut the call
}

func (r *refusal) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *refusal) Write(body []byte) (int, error) {
	var said wire.Error
	if r.status >= 400 && r.asker.Err() == nil && json.Unmarshal(body, &said) == nil {
		r.g.mu.Lock()
		r.g.codes = append(r.g.codes, said.Error.Code)
		r.g.mu.Unlock()
	}
	return r.ResponseWriter.Write(body)
}

// Unwrap lets an http.ResponseController through.
func (r *refusal) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (g *lively) watched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&refusal{ResponseWriter: w, g: g, asker: r.Context()}, r)
	})
}

// refused lists the codes of refusals. It leaves out two: a call that is cut ends with bad_request, and the first request learns the
// epoch from stale_nonce.
func (g *lively) refused() (codes []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, code := range g.codes {
		switch code {
		case wire.CodeStaleNonce, wire.CodeBadRequest:
		default:
			codes = append(codes, code)
		}
	}
	return codes
}

// proxiedHost is a name that nothing but the proxy knows.
const proxiedHost = "gateway.test"

// proxy starts a proxy for CONNECT. It leads to the gateway's own TLS listener, and refuses every other host than proxiedHost.
func (g *lively) proxy(t *testing.T) string {
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != proxiedHost+":443" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		far, err := net.Dial("tcp", g.tls.Listener.Addr().String())
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer far.Close()
		w.WriteHeader(http.StatusOK)
		near, rest, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer near.Close()
		done := make(chan struct{})
		go func() { defer close(done); _, _ = io.Copy(near, far); near.Close() }()
		_, _ = io.Copy(far, rest)
		far.Close()
		<-done
	}))
	t.Cleanup(p.Close)
	return p.URL
}
