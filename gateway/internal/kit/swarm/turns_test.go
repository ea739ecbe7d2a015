package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// kept enrols nodes, and gives the file with their identities.
func (g *gateway) kept(nodes string) string {
	g.t.Helper()
	keep := filepath.Join(g.t.TempDir(), "keep.json")
	if code, _, said := g.swarm(g.token(100), "-nodes", nodes, "-duration=0", "-keep", keep); code != exitDone {
		g.t.Fatal(said)
	}
	g.taken()
	return keep
}

func TestTurns(t *testing.T) {
	for _, transport := range []string{"-transport=mtls", "-transport=signed"} {
		g := newGateway(t)
		args := []string{"-turns", "-nodes=4", "-conns=2", transport, "-duration=20s", "-keep", g.kept("4")}
		code, reports, said := g.turns("", "-beats 1\n-beats 3 -gpus 8\n-beats 1 -rate 1000\n", args...)
		if code != exitDone || len(reports) != 3 {
			t.Fatalf("exit %d, %d reports, %s", code, len(reports), said)
		}
		for i, want := range []int{4, 12, 4} {
			if got := reports[i]["heartbeat"].Count; got != want {
				t.Errorf("%s, turn %d: %d heartbeats, want %d", transport, i, got, want)
			}
			if got := reports[i]["reconnect"].Count; got != 0 {
				t.Errorf("%s, turn %d: %d connected again", transport, i, got)
			}
		}
		for line, want := range map[string]string{"-beats 1 x": "only flags", "-gpus 3": "1 or 8", "-nodes 5": "not defined"} {
			if code, _, said := g.turns("", line, args...); code != exitFailed || !strings.Contains(said, want) {
				t.Errorf("%q: exit %d, %q, want %q in it", line, code, said, want)
			}
		}
	}
}

// TestInsist has the gateway break connections: a node that insists reports in the end.
func TestInsist(t *testing.T) {
	g := newGateway(t)
	keep := g.kept("4")
	var heard atomic.Int64
	g.mu.Lock()
	g.spoil = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/heartbeat") && heard.Add(1)%5 == 0 {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	g.mu.Unlock()
	args := []string{"-nodes=4", "-conns=1", "-keep", keep, "-transport=mtls", "-duration=20s", "-beats=4"}
	code, report, said := g.swarm("", append(args, "-insist")...)
	if code != exitDone || report["heartbeat"].Count != 16 || len(report["heartbeat"].Refused) != 0 || report["reconnect"].Count != 3 {
		t.Errorf("exit %d, %+v, %s", code, report, said)
	}
	heard.Store(0)
	code, report, said = g.swarm("", args...)
	if code != exitFailed || report["heartbeat"].Refused[codeNetwork] != 3 {
		t.Errorf("without -insist: exit %d, %+v, %s", code, report, said)
	}
}

func TestNoop(t *testing.T) {
	g := newGateway(t)
	keep := g.kept("3")
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"-noop", "127.0.0.1:0"}, noEnv, strings.NewReader(""), write, io.Discard)
	}()
	url, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{"-transport=mtls", "-transport=signed"} {
		code, report, said := g.swarm("", "-gateway", strings.TrimSpace(url), "-peer", "-nodes=3", "-keep", keep, transport, "-duration=20s",
			"-beats=2")
		if code != exitDone || report["heartbeat"].Count != 6 {
			t.Errorf("%s: exit %d, %+v, %s", transport, code, report, said)
		}
	}
	if counts, _ := g.taken(); len(counts) != 0 {
		t.Errorf("the gateway took %v", counts)
	}
	stop()
	if code := <-done; code != exitDone {
		t.Errorf("exit %d", code)
	}
	if code := run(t.Context(), []string{"-noop", "nowhere"}, noEnv, strings.NewReader(""), io.Discard, io.Discard); code != exitFailed {
		t.Errorf("an address that cannot be: exit %d", code)
	}
}
