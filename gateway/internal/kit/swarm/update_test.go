package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/artifact/executable"
	"muster/gateway/internal/release"
	"muster/store"
)

// agent puts an agent on record as a release, and gives the digest of its program: the least that is one, and the text in it.
func (g *gateway) agent(text string) (r api.Release, program string) {
	g.t.Helper()
	content := string(executable.Least(runtime.GOARCH, text))
	carried := fstest.MapFS{runtime.GOOS + "-" + runtime.GOARCH + "/muster-agent": {Data: []byte(content)}}
	sum := sha256.Sum256([]byte(content))
	program = "sha256:" + hex.EncodeToString(sum[:])
	return must(g.releases.Import(g.t.Context(), carried, "v-"+program[7:15]))(g.t), program
}

// point has the default channel point at a release, and lets all nodes in.
func (g *gateway) point(r api.Release) {
	g.t.Helper()
	must(g.releases.Point(g.t.Context(), wire.DefaultChannel, release.Promotion{Digest: r.Digest}, store.Actor{Name: "test"}))(g.t)
	if err := g.releases.Look(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
}

// running is how many nodes run the release of the default channel, and how many have said that they committed it.
func (g *gateway) running() (running, committed int) {
	g.t.Helper()
	s := must(g.releases.Status(g.t.Context(), wire.DefaultChannel))(g.t)
	events := must(g.store.Events(g.t.Context(), store.EventQuery{Kind: "release." + wire.UpdateCommitted, Limit: 100}))(g.t)
	return s.Counts.Running, len(events)
}

func TestUpdate(t *testing.T) {
	g := newGateway(t)
	keep := g.kept("5")
	_, old := g.agent(strings.Repeat("an agent", 1<<16)) // the channel's first release
	args := []string{"-nodes=5", "-conns=2", "-keep", keep, "-transport=mtls", "-update", "-program", old, "-trial=1ms", "-rate=1000",
		"-duration=20s"}
	code, report, said := g.swarm("", append(args, "-beats=3")...)
	if code != exitDone || report["heartbeat"].Count != 15 || report["layer"].Count != 0 {
		t.Fatalf("with what the channel says: exit %d, %+v, %s", code, report, said)
	}
	if running, _ := g.running(); running != 5 {
		t.Errorf("%d nodes run the first release", running)
	}
	next, _ := g.agent(strings.Repeat("a later agent", 1<<16))
	g.point(next)
	g.taken()
	code, report, said = g.swarm("", append(args, "-beats=40")...)
	if code != exitDone || report["layer"].Count != 5 || report["heartbeat"].Count < 5*(wire.TrialBeats+2) {
		t.Fatalf("after the channel has moved: exit %d, %+v, %s", code, report, said)
	}
	g.check(report)
	if running, committed := g.running(); running != 5 || committed != 5 {
		t.Errorf("%d nodes run the second release, %d committed it", running, committed)
	}
}

// TestUpdateFails has the gateway give something else than the layer.
func TestUpdateFails(t *testing.T) {
	for want, spoil := range map[string]http.HandlerFunc{
		"other content": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("something else")) },
		"not now":       func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not now", http.StatusServiceUnavailable) },
		"EOF":           func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(want, func(t *testing.T) {
			g := newGateway(t)
			keep := g.kept("1")
			g.agent(strings.Repeat("an agent", 1<<10))
			g.mu.Lock()
			g.spoil = func(w http.ResponseWriter, r *http.Request) bool {
				layer := strings.HasPrefix(r.URL.Path, wire.ReleaseBlobPath(""))
				if layer {
					spoil(w, r)
				}
				return layer
			}
			g.mu.Unlock()
			code, _, said := g.swarm("", "-nodes=1", "-keep", keep, "-transport=mtls", "-update", "-program", "sha256:"+strings.Repeat("0", 64),
				"-rate=1000", "-duration=20s", "-beats=1")
			if code != exitFailed || !strings.Contains(said, want) {
				t.Errorf("exit %d, %q", code, said)
			}
		})
	}
}
