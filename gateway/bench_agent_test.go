package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	agentPace   = 100 * time.Millisecond // the fastest that the agent takes, for its processor time; the budget speaks of usualPace
	idlePace    = 5 * time.Second
	usualPace   = 30 * time.Second
	agentSettle = 5 * time.Second
	agentWatch  = 10 * time.Second
)

// fakeSMI stands for nvidia-smi, so that the agent's side of a probe is measured too.
const fakeSMI = `#!/bin/sh
case "$*" in
*--help-query-gpu*) for f in index uuid name pci.bus_id driver_version memory.total memory.used utilization.gpu; do echo "\"$f\""; done ;;
*) echo "0, GPU-00000000-aaaa-bbbb-cccc-0123456789ab, NVIDIA H100 80GB HBM3, 00000000:01:00.0, 590.48.01, 81559, 39233, 99" ;;
esac
`

// idlers are an agent and the bare loop, which does the least that an agent can do. They run from the start of the benchmark at an easy
// pace, so that their memory is what it is between heartbeats, and not what a rush leaves behind.
type idlers struct {
	path, smi   string // of the agent and of the nvidia-smi that it sees
	agent, bare *child // bare is nil if there is none
	since       time.Time
}

func (m *bench) startIdlers() idlers {
	m.Helper()
	small := []string{"-gcflags=all=-l", "-tags", "nethttpomithttp2", "-ldflags", "-s -w -funcalign=16"} // as the Makefile builds an agent
	i := idlers{path: m.build("muster-agent", "muster/agent", small...), smi: filepath.Join(m.dir, "nvidia-smi"), since: time.Now()}
	m.must(os.WriteFile(i.smi, []byte(fakeSMI), 0o755))
	i.agent = m.join(i, "idle", idlePace)
	if sources, _ := filepath.Glob("../agent/testdata/bareloop/*.go"); len(sources) > 0 {
		_, url := m.noop()
		i.bare = m.child(nil, nil, m.build("bareloop", "muster/agent/testdata/bareloop", small...), "-url", url, "-interval", idlePace.String(),
			"-command", i.smi)
		i.bare.start()
	}
	return i
}

// join starts an agent.
func (m *bench) join(i idlers, name string, pace time.Duration) *child {
	m.Helper()
	c := m.child(nil, []string{"MUSTER_TOKEN=" + m.token}, i.path, "run", "--gateway", m.url(), "--root-pin", m.authority.RootPin(),
		"--state", filepath.Join(m.dir, "agent-"+name), "--name", name, "--nvidia-smi", i.smi, "--interval", pace.String())
	c.start()
	return c
}

// agent measures the real agent against this gateway: its file, its memory, its processor time.
func (m *bench) agent(t *table) {
	info, err := os.Stat(m.idle.path)
	m.must(err)
	t.bound("agent binary", " bytes", float64(info.Size()), 9_500_000, "stripped, for this platform", "")
	agent := m.join(m.idle, "measured", agentPace)
	time.Sleep(agentSettle) // the process is watched from outside: there is no clock to inject
	beats := m.counter(agent)
	spent := agent.processor()
	time.Sleep(agentWatch)
	beats = m.counter(agent) - beats
	spent = agent.processor() - spent
	if beats == 0 {
		m.Fatalf("the agent sent no heartbeat\n%s", agent.said())
	}
	agent.kill()
	each := spent.Seconds() / float64(beats)
	t.bound("agent processor, nvidia-smi aside", " % of a core", each/usualPace.Seconds()*100, 0.05,
		fmt.Sprintf("%.2f ms a heartbeat, one in %s", each*1000, usualPace), "what nvidia-smi takes; joining and renewals")
	m.resident(t)
}

// resident weighs the idle agent against the bare loop.
func (m *bench) resident(t *table) {
	figure := fmt.Sprintf("agent memory, resident, after %.0f s", time.Since(m.idle.since).Seconds())
	if m.idle.bare == nil {
		t.notRun(figure, "agent/testdata/bareloop is not there")
		return
	}
	const megabyte = 1e6
	ours := m.idle.agent.resident() / megabyte
	theirs := m.idle.bare.resident() / megabyte
	t.compare(figure, " MB", pairs{[]float64{ours}, []float64{theirs}}, "bare loop", limit{most: 1.6},
		"tasks and sessions; it is one look at each, without rounds")
}

// counter is how many heartbeats of the measured node arrived.
func (m *bench) counter(p *child) uint64 {
	m.Helper()
	m.must(m.gateway.fleet.Flush(m.Context()))
	node, err := m.store.Node(m.Context(), "", "measured")
	if err != nil {
		m.Fatalf("the agent did not join: %v\n%s", err, p.said())
	}
	return node.Counter
}
