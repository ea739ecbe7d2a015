package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"muster/agent/sign"
	"muster/gateway/internal/bootstrap"
	"muster/store"
)

const (
	benchRounds = 5 // of gateway and peer in turn: A B A B A B ...
	benchTime   = time.Second
	benchConns  = "64"  // requests in flight
	signedConns = "128" // of nodes that sign, which share these; 128 nodes on mTLS have one each
	benchEnrols = 1000  // nodes that enrol and renew in one round
	slowRounds  = 5     // of what takes long
)

// BenchmarkBudgets measures what the gateway and the agent cost, each figure beside a peer in the same run, and prints one
// table. It asserts nothing: a budget that is missed is said so in the table. Client and server share the machine.
func BenchmarkBudgets(b *testing.B) {
	r := &benchReport{}
	m := newBench(b)
	for _, part := range []struct {
		name string
		run  func(*bench, *benchReport)
	}{
		{"mtls", (*bench).overMTLS},
		{"signed", (*bench).signed},
		{"enrol", (*bench).enrolments},
		{"fleet", (*bench).fleet},
		{"agent", (*bench).agent},
	} {
		b.Run(part.name, func(b *testing.B) {
			if b.N > 1 {
				b.Skip("once is enough: -benchtime 1x")
			}
			with := *m
			with.B = b
			part.run(&with, r)
		})
	}
	r.print(os.Stdout)
}

// benchReport is the table.
type benchReport struct{ rows [][]string }

// pairs are what was measured by turns. The ratio is the median over the turns, so that a machine that is slower for a
// while, and slows both, does not change it.
type pairs struct{ ours, theirs []float64 }

func (p *pairs) add(ours, theirs float64) {
	p.ours, p.theirs = append(p.ours, ours), append(p.theirs, theirs)
}

func (p *pairs) ratio() float64 {
	ratios := make([]float64, len(p.ours))
	for i := range ratios {
		ratios[i] = p.ours[i] / p.theirs[i]
	}
	return median(ratios)
}

// inTurn measures a and b by turns.
func inTurn(a, b func() float64) (p pairs) {
	for range benchRounds {
		p.add(a(), b())
	}
	return p
}

// add judges a figure: with higher it must be at least limit times its peer, else at most. No limit is no budget.
func (r *benchReport) add(figure, unit string, p pairs, peerName string, limit float64, higher bool) {
	value, peer, ratio := median(p.ours), median(p.theirs), p.ratio()
	verdict, sign := "ok", "at most"
	if higher {
		sign = "at least"
	}
	if higher && ratio < limit || !higher && ratio > limit {
		verdict = "over"
	}
	budget := fmt.Sprintf("%s %.2f x", sign, limit)
	if limit == 0 {
		budget, verdict = "-", "no budget"
	}
	r.rows = append(r.rows, []string{figure, amount(value) + unit, amount(peer) + unit + " " + peerName, fmt.Sprintf("%.2f", ratio), budget, verdict})
}

// bound judges a figure that has a fixed limit it must not pass.
func (r *benchReport) bound(figure, unit string, value, limit float64, peer string) {
	verdict := "ok"
	if value > limit {
		verdict = "over"
	}
	r.rows = append(r.rows, []string{figure, amount(value) + unit, peer, fmt.Sprintf("%.2f", value/limit), "at most " + amount(limit) + unit, verdict})
}

func amount(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

func (r *benchReport) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s, %s/%s, %d cores, %s; medians of %d rounds or more\n\n", time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH,
		runtime.GOMAXPROCS(0), runtime.Version(), slowRounds)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tVALUE\tPEER\tRATIO\tBUDGET\tVERDICT")
	for _, row := range r.rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush()
	fmt.Fprintln(out)
}

// bench is a gateway under test in this process, and the load generator, which is a process of its own.
type bench struct {
	*testing.B
	*running
	swarm string // path of the program
	token string
	dir   string
	idle  idlers
}

func newBench(b *testing.B) *bench {
	m := &bench{B: b, dir: b.TempDir()}
	m.swarm = m.build("swarm", "muster/gateway/internal/swarm")
	m.running = m.open(filepath.Join(m.dir, "data"))
	m.token = m.mint()
	m.idle = m.startIdlers()
	return m
}

// build compiles a program as `make build` does.
func (m *bench) build(name, path string, more ...string) string {
	m.Helper()
	out := filepath.Join(m.dir, name)
	build := exec.Command("go", append(append([]string{"build", "-trimpath"}, more...), "-o", out, path)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		m.Fatalf("build %s: %v\n%s", path, err, text)
	}
	return out
}

// running is a gateway that serves.
type running struct {
	*gateway
	listeners *listeners
	stop      func()
}

// open starts a gateway in this process, with the parts and the order of serve.
func (m *bench) open(dir string) *running {
	m.Helper()
	s, err := parseSettings([]string{"--data", dir, "--listen", "127.0.0.1:0", "--plain-listen", "127.0.0.1:0"}, func(string) string { return "" }, io.Discard)
	m.must(err)
	g := &gateway{settings: s, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.Background())
	m.must(g.open(ctx, func(string) string { return "" }, io.Discard))
	l, err := g.listen()
	m.must(err)
	done := make(chan error, 1)
	go func() { done <- g.run(ctx, l) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			m.Error(err)
		}
		g.close()
	})
	m.Cleanup(stop)
	return &running{gateway: g, listeners: l, stop: stop}
}

func (m *bench) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (r *running) url() string      { return "https://" + r.listeners.tls.Addr().String() }
func (r *running) plainURL() string { return "http://" + r.listeners.plain.Addr().String() }

func (m *bench) mint() string {
	m.Helper()
	token, _, err := m.bootstrap.MintToken(m.Context(), bootstrap.TokenRequest{Uses: 100_000}, store.Actor{Name: "bench"})
	m.must(err)
	return token.Reveal()
}

// play runs the swarm and gives how many of each operation the server took per second.
func (m *bench) play(args ...string) map[string]float64 {
	m.Helper()
	swarm := exec.Command(m.swarm, append([]string{"-json", "-conns", benchConns}, args...)...)
	swarm.Env = append(os.Environ(), "MUSTER_TOKEN="+m.token)
	var stderr bytes.Buffer
	swarm.Stderr = &stderr
	out, err := swarm.Output()
	if err != nil {
		m.Fatalf("swarm %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	var report struct {
		Operations []struct {
			Operation string  `json:"operation"`
			PerSecond float64 `json:"per_second"`
		} `json:"operations"`
	}
	m.must(json.Unmarshal(out, &report))
	rates := map[string]float64{}
	for _, o := range report.Operations {
		rates[o.Operation] = o.PerSecond
	}
	return rates
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	if len(sorted) == 0 {
		return 0
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// overMTLS compares heartbeats with a handler that reads the same bytes over the same TLS and does nothing.
func (m *bench) overMTLS(r *benchReport) {
	keep := filepath.Join(m.dir, "mtls.json")
	m.play("-gateway", m.url(), "-nodes", "128", "-duration", "0", "-keep", keep)
	noop := m.noop()
	for _, gpus := range []string{"1", "8"} {
		args := []string{"-nodes", "128", "-keep", keep, "-transport", "mtls", "-gpus", gpus, "-duration", benchTime.String()}
		measured := inTurn(
			func() float64 { return m.play(append(args, "-gateway", m.url())...)["heartbeat"] },
			func() float64 { return m.play(append(args, "-gateway", noop, "-peer")...)["heartbeat"] },
		)
		r.add("heartbeats, mTLS keep-alive, GPUs: "+gpus, "/s", measured, "no-op handler", 0.5, true)
	}
}

// noop is a net/http server with the gateway's own TLS configuration.
func (m *bench) noop() (url string) {
	m.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	m.must(err)
	server := m.server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		_, _ = w.Write([]byte("{}\n"))
	}))
	go server.Serve(tls.NewListener(l, m.tlsConfig())) //nolint:errcheck // ends with Close
	m.Cleanup(func() { server.Close() })
	return "https://" + l.Addr().String()
}

// signed compares signed heartbeats with the two signatures that each cannot do without, on all cores.
func (m *bench) signed(r *benchReport) {
	keep := filepath.Join(m.dir, "signed.json")
	m.play("-gateway", m.url(), "-nodes", "512", "-duration", "0", "-keep", keep)
	args := []string{"-nodes", "512", "-conns", signedConns, "-keep", keep, "-transport", "signed", "-duration", benchTime.String()}
	m.play(append(args, "-gateway", m.url(), "-beats", "1")...) // the first use of an identity is a write of its own
	measured := inTurn(
		func() float64 { return m.play(append(args, "-gateway", m.plainURL())...)["heartbeat"] },
		func() float64 { return m.proofs() },
	)
	r.add("heartbeats, signed", "/s", measured, "P-256 verify + Ed25519 sign", 0.4, true)
	verified, bare := m.verifications()
	r.add("request signatures verified, a core", "/s", inTurn(verified, bare), "P-256 verify alone", 0, true)
}

// verifications gives two rates a core: of request signatures read and verified whole, and of their ECDSA alone.
func (m *bench) verifications() (whole, bare func() float64) {
	key, cores := m.newKey(), float64(runtime.GOMAXPROCS(0))
	request, err := http.NewRequest(http.MethodPost, "https://gw.example/nodes/n-0123456789abcdef/heartbeat", nil)
	m.must(err)
	signer := sign.Signer{Key: key, Fingerprint: strings.Repeat("0f", sha256.Size)}
	_, err = signer.Sign(request, []byte("{}"), "0123456789abcdef", time.Now())
	m.must(err)
	sum := sha256.Sum256([]byte("x"))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	m.must(err)
	whole = func() float64 {
		return m.everyCore(func() {
			if s, err := sign.ParseRequest(request); err != nil || s.Verify(request, &key.PublicKey) != nil {
				m.Error("a good request does not verify")
			}
		}) / cores
	}
	bare = func() float64 {
		return m.everyCore(func() {
			if !ecdsa.VerifyASN1(&key.PublicKey, sum[:], signature) {
				m.Error("a good signature does not verify")
			}
		}) / cores
	}
	return whole, bare
}

// proofs is how many times a second all cores together verify a P-256 signature and make an Ed25519 one.
func (m *bench) proofs() float64 {
	key := m.newKey()
	_, answer, err := ed25519.GenerateKey(nil)
	m.must(err)
	message := []byte(strings.Repeat("x", 400))
	sum := sha256.Sum256(message)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	m.must(err)
	return m.everyCore(func() {
		sum := sha256.Sum256(message)
		if !ecdsa.VerifyASN1(&key.PublicKey, sum[:], signature) {
			m.Error("a good signature does not verify")
		}
		ed25519.Sign(answer, message)
	})
}

// everyCore runs work on all cores for a while and gives its rate.
func (m *bench) everyCore(work func()) float64 {
	counts := make([]int, runtime.GOMAXPROCS(0))
	var wait sync.WaitGroup
	started := time.Now()
	for core := range counts {
		wait.Go(func() {
			n := 0
			for time.Since(started) < benchTime {
				work()
				n++
			}
			counts[core] = n
		})
	}
	wait.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / time.Since(started).Seconds()
}

func (m *bench) newKey() *ecdsa.PrivateKey {
	m.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	m.must(err)
	return key
}

// enrolments compares enrolments and renewals with step-ca, or where there is none with certificates alone. Neither side's
// clock covers making keys, certificate requests, tokens or MACs, nor opening connections.
func (m *bench) enrolments(r *benchReport) {
	var enrolled, renewed pairs
	ca := m.stepCA()
	certificate := m.certificate()
	for range slowRounds {
		// Two heartbeats each lie between: a node that renews has reported for hours, so its identity is in memory, and the
		// write that an identity's first use takes is no part of a renewal.
		rates := m.play("-gateway", m.url(), "-nodes", fmt.Sprint(benchEnrols), "-duration", "1m", "-beats", "2", "-transport", "mtls", "-renew")
		if ca == nil {
			made := m.everyCore(certificate)
			enrolled.add(rates["register"], made)
			renewed.add(rates["renew"], made)
			continue
		}
		signs, renews := ca.round()
		enrolled.add(rates["register"], signs)
		renewed.add(rates["renew"], renews)
	}
	const enrolments, renewals = "enrolments (MAC, durable, certificate)", "renewals"
	if ca == nil {
		fmt.Fprintln(os.Stderr, "no step-ca to compare with: set MUSTER_STEP_CA to its binary, or put it into PATH")
		r.add(enrolments, "/s", enrolled, "x509.CreateCertificate, no step-ca found", 0, true)
		r.add(renewals, "/s", renewed, "x509.CreateCertificate, no step-ca found", 0, true)
		return
	}
	r.add(enrolments, "/s", enrolled, "step-ca signs (JWK token)", 2, true)
	r.add(renewals, "/s", renewed, "step-ca renews", 1, true)
}

// certificate makes one leaf a call.
func (m *bench) certificate() func() {
	key := m.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node"}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	return func() {
		if _, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key); err != nil {
			m.Error(err)
		}
	}
}
