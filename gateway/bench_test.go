package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/httpserver/daemon"
	"muster/store"
)

const (
	benchRounds = 5 // of each side: A B A B A B ...
	benchTime   = 2 * time.Second
	benchNodes  = 15_000
	spareFiles  = 1000 // descriptors of a process beside those of its connections
)

// BenchmarkBudgets measures what the gateway and the agent cost, each figure beside a peer in the same run where there is one, and
// prints one table. It asserts nothing: the table says which budgets are missed.
func BenchmarkBudgets(b *testing.B) {
	if b.N > 1 {
		b.Skip("once is enough: -benchtime 1x")
	}
	t := &table{}
	m := newBench(b)
	for _, part := range []struct {
		name string
		run  func(*bench, *table)
	}{
		{"enrol", (*bench).enrolments},
		{"mtls", (*bench).overMTLS},
		{"signed", (*bench).signed},
		{"pace", (*bench).atPace},
		{"tasks", (*bench).tasks},
		{"pull", (*bench).pulls},
		{"blobs", (*bench).blobs},
		{"sessions", (*bench).sessions},
		{"fleet", (*bench).fleet},
		{"placement", (*bench).placement},
		{"providers", (*bench).providers},
		{"page", (*bench).page},
		{"history", (*bench).history},
		{"shared", (*bench).shared},
		{"agent", (*bench).agent},
	} {
		b.Run(part.name, func(b *testing.B) {
			if b.N > 1 {
				b.Skip("once is enough: -benchtime 1x")
			}
			with := *m
			with.B = b
			part.run(&with, t)
		})
	}
	t.print(os.Stdout)
}

// bench has the programs that are measured, and a gateway in this process for what needs its inside.
type bench struct {
	*testing.B
	*running
	dir    string
	muster string // paths of the programs
	swarm  string
	token  string // of the gateway in this process
	idle   idlers
	crowd  *crowd
}

func newBench(b *testing.B) *bench {
	m := &bench{B: b, dir: b.TempDir(), crowd: &crowd{}}
	m.muster = m.build("muster", "muster/gateway")
	m.swarm = m.build("swarm", "muster/gateway/internal/kit/swarm")
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

// running is a gateway that serves in this process.
type running struct {
	*gateway
	stop func()
}

// open starts a gateway in this process, with the parts and the order of serve.
func (m *bench) open(dir string, more ...string) *running {
	m.Helper()
	s, err := parseSettings(append([]string{"--data", dir, "--listen", "127.0.0.1:0"}, more...), func(string) string { return "" }, io.Discard)
	m.must(err)
	s.agents = fstest.MapFS{} // else the agents would go over to the release that this gateway carries, and run beside a launcher
	ctx, cancel := context.WithCancel(context.Background())
	quiet := slog.New(slog.DiscardHandler)
	g, err := open(ctx, s, quiet, func(string) string { return "" }, io.Discard)
	m.must(err)
	l, err := openListeners(g)
	m.must(err)
	done := make(chan error, 1)
	go func() { done <- daemon.Run(ctx, g.work(l, daemon.Notifier{Logger: quiet})...) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			m.Error(err)
		}
		g.close()
	})
	m.Cleanup(stop)
	return &running{gateway: g, stop: stop}
}

func (m *bench) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (r *running) url() string { return "https://" + r.tls.Addr().String() }

func (m *bench) mint() string {
	m.Helper()
	token, _, err := m.bootstrap.MintToken(m.Context(), api.TokenRequest{Uses: 100}, store.Actor{Name: "bench"})
	m.must(err)
	return token.Reveal()
}

func (m *bench) newKey() *ecdsa.PrivateKey {
	m.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	m.must(err)
	return key
}

// crowd is benchNodes nodes that are enrolled with one gateway: its data directory, and the file with their identities.
type crowd struct {
	nodes      int
	data, keep string
	bare       float64 // KiB that a connection costs the no-op server; 0: not measured
}

// nodes enrols the crowd on first use. It is smaller where a process may not have so many connections.
func (m *bench) nodes() *crowd {
	m.Helper()
	c := m.crowd
	if c.nodes > 0 {
		return c
	}
	c.nodes = min(benchNodes, m.mostNodes())
	c.data = filepath.Join(m.dir, "crowd")
	c.keep = filepath.Join(m.dir, "crowd.json")
	g := m.serve(c.data)
	m.play(g, "-nodes", decimal(c.nodes), "-duration", "0", "-keep", c.keep)
	g.end()
	return c
}

// mostNodes is how many nodes may each have a connection of their own in one process.
func (m *bench) mostNodes() int {
	m.Helper()
	var files syscall.Rlimit
	m.must(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	return int(min(files.Cur, 1<<20)) - spareFiles
}
