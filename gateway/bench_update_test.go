package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
)

const (
	updateNodes = 1000
	updateUsual = 4 * usualPace     // of heartbeats alone
	updateTime  = 260 * time.Second // to hear of a release (30 s), to wait for a share of the stagger (200 s), to fetch it, and to try it
	updateLate  = 2.0               // times the usual p99
)

// updates has all nodes of a channel update at once, while they and as many others go on reporting. The peer is the same gateway and the
// same others before the channel moved.
func (m *bench) updates(t *table) {
	nodes := min(updateNodes, m.mostNodes()/2)
	g := m.serve(filepath.Join(m.dir, "updates"))
	defer g.end()
	agent := m.version(0)
	g.promote(agent, "0.0.0")
	movers := m.reporters(g, nodes, m.politePlayer, "", "-update", "-program", digestOf(m, agent))
	others := m.reporters(g, nodes, m.player, "channel=still")
	together(settleTime, movers, others)
	before := together(updateUsual, movers, others)
	g.promote(m.version(1), "0.0.1")
	during := together(updateTime, movers, others)
	movers.leave()
	others.leave()
	layers := during[0]["layer"]
	usual := before[1]["heartbeat"]
	beats := during[1]["heartbeat"]
	info, err := os.Stat(agent)
	m.must(err)
	what := fmt.Sprintf("%d nodes update at once, a layer of %.1f MB each", nodes, float64(info.Size())/1e6)
	t.compare("heartbeats of others, p99, while "+what, " ms", pairs{[]float64{beats.P99}, []float64{usual.P99}}, "before the channel moved",
		limit{most: updateLate}, "it is one round. What the updating nodes do is on the same cores: it has the lowest priority, and the others "+
			"are a process of their own")
	t.note(fmt.Sprintf("the same, median; %d heartbeats, and %d before", beats.Count, usual.Count), amount(beats.P50)+" ms",
		amount(usual.P50)+" ms before the channel moved", "")
	own := during[0]["heartbeat"]
	t.note("the same of the updating nodes themselves, p99", amount(own.P99)+" ms",
		amount(before[0]["heartbeat"].P99)+" ms before the channel moved", "their TLS and SHA-256 are in the figure, and their low priority")
	t.note(fmt.Sprintf("the same, 99 of 100 of the %d layers that came, from the connection to the last byte", layers.Count),
		amount(layers.P99)+" ms", "median "+amount(layers.P50)+" ms", "")
	t.note("the same, the gateway's memory at its peak", amount(g.peak()/(1<<20))+" MiB", "-", "it is the peak since the gateway's start")
}

// reporters enrols nodes, with a label or none, and starts the swarm that plays them at the usual pace.
func (m *bench) reporters(g *served, nodes int, start func(string, ...string) *player, label string, more ...string) *player {
	m.Helper()
	var labels []string
	if label != "" {
		labels = []string{"--label", label}
	}
	keep := filepath.Join(m.dir, "updates-"+label+".json")
	m.run([]string{"MUSTER_TOKEN=" + g.credential(labels...)}, "-gateway", g.url(), "-nodes", decimal(nodes), "-duration", "0", "-keep", keep)
	rate := strconv.FormatFloat(float64(nodes)/usualPace.Seconds(), 'f', 1, 64)
	args := append([]string{"-nodes", decimal(nodes), "-keep", keep, "-transport", "mtls", "-insist", "-rate", rate}, more...)
	return start(g.url(), args...)
}

// together lets several swarms report at the same time.
func together(long time.Duration, players ...*player) []operations {
	for _, p := range players {
		p.begin("-duration", long.String())
	}
	var results []operations
	for _, p := range players {
		results = append(results, p.result())
	}
	return results
}

// version is an agent that differs from the others by a few bytes at its end.
func (m *bench) version(n int) string {
	m.Helper()
	content, err := os.ReadFile(m.idle.path)
	m.must(err)
	path := filepath.Join(m.dir, fmt.Sprintf("agent-version-%d", n))
	m.must(os.WriteFile(path, fmt.Appendf(content, "version %d", n), 0o700))
	return path
}

func digestOf(m *bench, path string) string {
	m.Helper()
	content, err := os.ReadFile(path)
	m.must(err)
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// promote pushes an agent by the gateway's own command, and lets all nodes of the default channel have it at once.
func (g *served) promote(agent, version string) {
	g.Helper()
	push := exec.Command(g.muster, "--data", g.data, "release", "push", agent, "--version", version)
	if text, err := push.CombinedOutput(); err != nil {
		g.Fatalf("release push: %v\n%s", err, text)
	}
	_, err := client.Send[api.Channel](g.Context(), g.bench.operator(g), "PATCH", api.At(api.PathChannel, wire.DefaultChannel),
		api.Promotion{Digest: version, Wave: api.AllAtOnce()})
	g.must(err)
}
