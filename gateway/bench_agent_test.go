package main

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"muster/store"
)

const (
	agentPace   = 100 * time.Millisecond // the fastest that the agent takes, for its processor time; the budget speaks of usualPace
	idlePace    = 5 * time.Second
	usualPace   = 30 * time.Second
	agentSettle = 5 * time.Second
	agentWatch  = 20 * time.Second
)

// fakeSMI stands for nvidia-smi, so that the agent's side of a probe is measured too.
const fakeSMI = `#!/bin/sh
case "$*" in
*--help-query-gpu*) for f in index uuid name pci.bus_id driver_version memory.total memory.used utilization.gpu; do echo "\"$f\""; done ;;
*) echo "0, GPU-00000000-aaaa-bbbb-cccc-0123456789ab, NVIDIA H100 80GB HBM3, 00000000:01:00.0, 590.48.01, 81559, 39233, 99" ;;
esac
`

func answerKeyOf(g *running) ed25519.PublicKey {
	return g.authority.AnswerKey().Public().(ed25519.PublicKey)
}

// idlers are an agent and the least that an agent can be. They run from the start of the benchmark at an easy pace, so that
// their memory is what it is between heartbeats, not what a rush leaves behind.
type idlers struct {
	path, smi   string // of the agent and of the nvidia-smi that it sees
	agent, bare *child // bare is nil where there is none
	since       time.Time
}

func (m *bench) startIdlers() idlers {
	m.Helper()
	small := []string{"-tags", "nethttpomithttp2", "-ldflags", "-s -w"}
	i := idlers{path: m.build("muster-agent", "muster/agent", small...), smi: filepath.Join(m.dir, "nvidia-smi"), since: time.Now()}
	m.must(os.WriteFile(i.smi, []byte(fakeSMI), 0o755))
	i.agent = m.join(i, "idle", idlePace)
	if sources, _ := filepath.Glob("../agent/internal/bareloop/*.go"); len(sources) > 0 {
		i.bare = m.child(m.build("bareloop", "muster/agent/internal/bareloop", small...), "-url", m.noop(), "-interval", idlePace.String(), "-command", i.smi)
	}
	return i
}

// join starts an agent.
func (m *bench) join(i idlers, name string, pace time.Duration) *child {
	m.Helper()
	return m.child(i.path, "run", "--gateway", m.url(), "--root-pin", m.authority.RootPin(), "--state", filepath.Join(m.dir, "agent-"+name),
		"--name", name, "--nvidia-smi", i.smi, "--interval", pace.String())
}

// agent measures the real agent against this gateway: its file, its memory, its processor time.
func (m *bench) agent(r *benchReport) {
	info, err := os.Stat(m.idle.path)
	m.must(err)
	r.bound("agent binary", " bytes", float64(info.Size()), 9_500_000, "stripped, for this platform")
	agent := m.join(m.idle, "measured", agentPace)
	time.Sleep(agentSettle) // the process is watched from outside: there is no clock to inject
	beats, spent := m.counter(agent), agent.processor()
	time.Sleep(agentWatch)
	beats, spent = m.counter(agent)-beats, agent.processor()-spent
	if beats == 0 {
		m.Fatalf("the agent sent no heartbeat\n%s", agent.output.String())
	}
	agent.stop()
	each := spent.Seconds() / float64(beats)
	r.bound("agent processor, nvidia-smi aside", " % of a core", each/usualPace.Seconds()*100, 0.05,
		fmt.Sprintf("%.2f ms a heartbeat, one in %s", each*1000, usualPace))
	m.resident(r)
}

// resident weighs the idle agent against the bare loop.
func (m *bench) resident(r *benchReport) {
	figure := fmt.Sprintf("agent memory, after %.0f s", time.Since(m.idle.since).Seconds())
	rss := m.idle.agent.resident()
	if m.idle.bare == nil {
		r.rows = append(r.rows, []string{figure, amount(rss) + " MB", "agent/internal/bareloop is not there", "-", "at most 1.60 x", "not compared"})
		return
	}
	r.add(figure, " MB", pairs{[]float64{rss}, []float64{m.idle.bare.resident()}}, "bare loop", 1.6, false)
}

// counter is how many heartbeats of the measured node arrived.
func (m *bench) counter(p *child) uint64 {
	m.Helper()
	nodes, _, _, err := m.store.Nodes(m.Context(), store.NodeQuery{Terms: []store.Term{{Key: "name", Op: store.OpEquals, Value: "measured"}}})
	m.must(err)
	if len(nodes) != 1 {
		m.Fatalf("the agent did not join\n%s", p.output.String())
	}
	m.must(m.gateway.fleet.Flush(m.Context()))
	node, err := m.store.Node(m.Context(), "", nodes[0].ID)
	m.must(err)
	return node.Counter
}

// child is a process that is watched.
type child struct {
	*bench
	cmd    *exec.Cmd
	output bytes.Buffer
}

func (m *bench) child(path string, args ...string) *child {
	m.Helper()
	c := &child{bench: m, cmd: exec.Command(path, args...)}
	c.cmd.Env = append(os.Environ(), "MUSTER_TOKEN="+m.token)
	c.cmd.Stdout, c.cmd.Stderr = &c.output, &c.output
	m.must(c.cmd.Start())
	m.Cleanup(c.stop)
	return c
}

func (c *child) stop() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// processor is the time that the process itself has had, without its children (proc(5), in ticks of 10 ms).
func (c *child) processor() time.Duration {
	text := c.proc("stat")
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		c.Fatalf("/proc/PID/stat: %q", text)
	}
	user, err := strconv.Atoi(fields[11])
	c.must(err)
	system, err := strconv.Atoi(fields[12])
	c.must(err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// resident is the process's memory in MB.
func (c *child) resident() float64 {
	for line := range strings.Lines(c.proc("status")) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			c.must(err)
			return float64(kib) / 1000 * 1.024
		}
	}
	c.Fatal("/proc/PID/status has no VmRSS")
	return 0
}

func (c *child) proc(name string) string {
	c.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.cmd.Process.Pid, name))
	if err != nil {
		c.Fatalf("%v\n%s", err, c.output.String())
	}
	return string(text)
}
