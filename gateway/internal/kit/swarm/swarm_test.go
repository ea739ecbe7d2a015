package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/nodeapi"
	"muster/gateway/internal/reply"
	"muster/store"
)

// gateway is the real node API on a real store, which counts what it takes.
type gateway struct {
	t     *testing.T
	url   string
	plain string
	token func(uses int) string

	start   func(epoch string) // anew, as after a restart
	serving atomic.Pointer[http.Handler]

	mu     sync.Mutex
	counts map[string]int // answers of success by operation
	direct map[string]int // of these, over mTLS
	spoil  func(w http.ResponseWriter, r *http.Request) bool
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	ctx := t.Context()
	s := kit.Store(t, nil)
	a := must(authority.Open(ctx, authority.Config{Store: s}))(t)
	serving := must(authority.NewServing(ctx, a, []string{"127.0.0.1"}))(t)
	r := must(fleet.Open(ctx, fleet.Config{Store: s}))(t)
	b := bootstrap.New(bootstrap.Config{Store: s})
	g := &gateway{t: t, counts: map[string]int{}, direct: map[string]int{}}
	g.start = func(epoch string) {
		info := &reply.Info{Epoch: epoch}
		mux := http.NewServeMux()
		nodes := nodeapi.New(nodeapi.Config{
			Fleet: r, Bootstrap: b, Authority: a, Issuer: a, Store: s, Info: info,
			Address: func(r *http.Request) string { return r.RemoteAddr }, Interval: 30_000_000_000,
		})
		nodes.Routes(mux)
		handler := nodes.Guard(info.Strict(mux), nodeapi.Doors{})
		g.serving.Store(&handler)
	}
	g.start("epoch")
	handler := g.counting(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*g.serving.Load()).ServeHTTP(w, r) }))
	server := httptest.NewUnstartedServer(handler)
	plain := httptest.NewServer(handler)
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true, GetCertificate: serving.GetCertificate}
	server.StartTLS()
	server.TLS.Certificates = nil // httptest puts its own there
	g.url = server.URL
	g.plain = plain.URL
	g.token = func(uses int) string {
		token, _, err := b.MintToken(context.WithoutCancel(ctx), api.TokenRequest{Uses: uses}, store.Actor{Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return token.Reveal()
	}
	t.Cleanup(func() { server.Close(); plain.Close() })
	return g
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// counting counts successes by the last element of the path.
func (g *gateway) counting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		spoil := g.spoil
		g.mu.Unlock()
		if spoil != nil && spoil(w, r) {
			return
		}
		seen := &seen{ResponseWriter: w}
		next.ServeHTTP(seen, r)
		operation := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		g.mu.Lock()
		defer g.mu.Unlock()
		if seen.status < 300 {
			g.counts[operation]++
		}
		if seen.status < 300 && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			g.direct[operation]++
		}
	})
}

type seen struct {
	http.ResponseWriter
	status int
}

func (s *seen) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (s *seen) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// taken gives what the gateway counted since it was last asked.
func (g *gateway) taken() (counts, direct map[string]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	counts = g.counts
	direct = g.direct
	g.counts = map[string]int{}
	g.direct = map[string]int{}
	return counts, direct
}

// swarm runs the program and gives its exit code, its report by operation, and what it said.
func (g *gateway) swarm(token string, args ...string) (code int, report map[string]result, said string) {
	g.t.Helper()
	code, reports, said := g.turns(token, "", args...)
	if len(reports) == 0 {
		return code, map[string]result{}, said
	}
	return code, reports[0], said
}

// turns is swarm with lines on standard input, and gives a report for each.
func (g *gateway) turns(token, lines string, args ...string) (code int, reports []map[string]result, said string) {
	g.t.Helper()
	var stdout, stderr bytes.Buffer
	env := func(name string) string { return map[string]string{"MUSTER_TOKEN": token}[name] }
	code = run(g.t.Context(), append([]string{"-gateway", g.url}, args...), env, strings.NewReader(lines), &stdout, &stderr)
	for decoder := json.NewDecoder(&stdout); decoder.More(); {
		var all summary
		if err := decoder.Decode(&all); err != nil {
			g.t.Fatal(err)
		}
		report := map[string]result{}
		for _, r := range all.Operations {
			sum := report[r.Operation]
			sum.Count += r.Count
			sum.Refused = r.Refused
			report[r.Operation] = sum
		}
		reports = append(reports, report)
	}
	return code, reports, stderr.String()
}

// check wants the report to say what the gateway saw.
func (g *gateway) check(report map[string]result) map[string]int {
	g.t.Helper()
	counts, direct := g.taken()
	for operation, got := range map[string]int{
		"register": report["register"].Count, "renew": report["renew"].Count,
		"heartbeat": report["heartbeat"].Count + report["first use"].Count,
	} {
		if got != counts[operation] {
			g.t.Errorf("%s: reported %d, the gateway took %d", operation, got, counts[operation])
		}
	}
	return direct
}

func TestSwarm(t *testing.T) {
	g := newGateway(t)
	keep := filepath.Join(t.TempDir(), "keep.json")
	code, report, said := g.swarm(g.token(20), "-nodes=20", "-conns=6", "-duration=20s", "-beats=2", "-renew", "-keep", keep, "-verify")
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, said)
	}
	if report["register"].Count != 20 || report["renew"].Count != 20 || report["first use"].Count != 20 || report["heartbeat"].Count < 20 {
		t.Errorf("got %+v", report)
	}
	if report["connect"].Count != 20 { // ten nodes, before and after the renewal
		t.Errorf("connected %d times", report["connect"].Count)
	}
	direct := g.check(report)
	if direct["renew"] != 10 || direct["heartbeat"] == 0 || direct["heartbeat"] >= report["heartbeat"].Count+20 {
		t.Errorf("over mTLS: %v of %+v", direct, report)
	}
	if info, err := os.Stat(keep); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the identities' file: %v, %v", info, err)
	}
	// The kept identities go on without a token, fewer of them, and over the other transport.
	for _, args := range [][]string{
		{"-nodes=10", "-transport=signed", "-beats=3", "-gpus=8"},
		{"-nodes=20", "-transport=mtls", "-beats=2", "-rate=1000"},
		{"-nodes=20", "-transport=signed", "-beats=2", "-rate=1000", "-gateway", g.plain},
	} {
		code, report, said = g.swarm("", append([]string{"-keep", keep, "-duration=20s"}, args...)...)
		if want := map[string]int{"-nodes=10": 30, "-nodes=20": 40}[args[0]]; code != exitDone || report["heartbeat"].Count != want {
			t.Errorf("%q: exit %d, %+v, %s", args, code, report, said)
		}
		g.check(report)
	}
}

func TestRefused(t *testing.T) {
	g := newGateway(t)
	code, report, said := g.swarm(g.token(3), "-nodes=8", "-duration=20s", "-beats=2")
	if code != exitFailed || report["register"].Count != 3 || report["register"].Refused["token_used"] != 5 || report["heartbeat"].Count != 6 ||
		!strings.Contains(said, "token_used") {
		t.Errorf("exit %d, %+v, %s", code, report, said)
	}
	g.check(report)
}

// TestRestarted starts the gateway anew amid heartbeats that were signed beforehand.
func TestRestarted(t *testing.T) {
	for _, transport := range []string{"-transport=signed", "-transport=mixed"} {
		g := newGateway(t)
		keep := filepath.Join(t.TempDir(), "keep.json")
		if code, _, said := g.swarm(g.token(4), "-nodes=4", "-duration=0", "-keep", keep); code != exitDone {
			t.Fatal(said)
		}
		g.taken()
		var heard atomic.Int64
		g.mu.Lock()
		g.spoil = func(http.ResponseWriter, *http.Request) bool {
			if heard.Add(1) == 30 {
				g.start("later")
			}
			return false
		}
		g.mu.Unlock()
		code, report, said := g.swarm("", "-nodes=4", "-conns=2", "-keep", keep, transport, "-duration=20s", "-beats=25")
		if code != exitDone || len(report["heartbeat"].Refused) != 0 || report["heartbeat"].Count < 90 {
			t.Errorf("exit %d, %+v, %s", code, report, said)
		}
		g.check(report)
	}
}

// TestUnproven has answers changed on their way: a signing node must not believe them.
func TestUnproven(t *testing.T) {
	g := newGateway(t)
	keep := filepath.Join(t.TempDir(), "keep.json")
	if code, _, said := g.swarm(g.token(2), "-nodes=2", "-duration=0", "-keep", keep); code != exitDone {
		t.Fatal(said)
	}
	g.mu.Lock()
	g.spoil = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/heartbeat") {
			return false
		}
		_, _ = w.Write([]byte(`{"interval_seconds":5}`))
		return true
	}
	g.mu.Unlock()
	args := []string{"-nodes=2", "-keep", keep, "-transport=signed", "-duration=20s", "-beats=3"}
	code, report, said := g.swarm("", append(args, "-verify")...)
	if code != exitFailed || report["heartbeat"].Refused[codeUnproven] != 6 {
		t.Errorf("exit %d, %+v, %s", code, report, said)
	}
	if code, report, said = g.swarm("", append(args, "-peer")...); code != exitDone || report["heartbeat"].Count != 6 {
		t.Errorf("a peer proves nothing: exit %d, %+v, %s", code, report, said)
	}
}

func TestCannotStart(t *testing.T) {
	g := newGateway(t)
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	foreign := filepath.Join(dir, "foreign")
	for path, text := range map[string]string{broken: "{", foreign: `{"answer_key":"x"}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for _, c := range []struct {
		token string
		args  []string
		want  string
	}{
		{"", nil, "set MUSTER_TOKEN"},
		{"mse_abcdefghijkl_short", nil, "mistyped"},
		{"", []string{"-keep", broken}, "not a file that -keep wrote"},
		{"", []string{"-keep", foreign}, "answer key"},
		{"", []string{"-keep", filepath.Join(dir, "none"), "-peer"}, "has 0 nodes"},
		{"", []string{"-gateway", other.URL, "-transport=signed"}, "no muster gateway"},
	} {
		code, _, said := g.swarm(c.token, append([]string{"-nodes=1", "-duration=0"}, c.args...)...)
		if code != exitFailed || !strings.Contains(said, c.want) {
			t.Errorf("%q: exit %d, %q, want %q in it", c.args, code, said, c.want)
		}
	}
}

// TestPattern wants the heartbeats to be what the encoder would write, and of the size that the budgets speak of.
func TestPattern(t *testing.T) {
	for gpus, most := range map[int]int{1: 2200, 8: 12_000} {
		p, err := newPattern(gpus)
		if err != nil {
			t.Fatal(err)
		}
		n := &node{}
		n.newRun()
		body := p.appendTo(nil, n, 42)
		var got struct {
			RunID    string `json:"run_id"`
			Counter  uint64 `json:"counter"`
			Hardware struct {
				GPUs []any `json:"gpus"`
			} `json:"hardware"`
		}
		if err := json.Unmarshal(body, &got); err != nil || got.RunID != n.runID || got.Counter != 42 || len(got.Hardware.GPUs) != gpus {
			t.Errorf("%d GPUs: %v in %s", gpus, err, body)
		}
		if len(body) > most || len(body) < most/2 {
			t.Errorf("%d GPUs: %d bytes", gpus, len(body))
		}
	}
}
