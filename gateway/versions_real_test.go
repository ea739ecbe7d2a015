//go:build real

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// oldVersion is the version before this one. Its commit is in the history, and its fixtures are in testdata/versions.
const oldVersion = "badfcd4"

// older builds gateway and agent of a version from the history of this clone.
func older(t *testing.T, version string) (gateway, agent string) {
	t.Helper()
	dir := t.TempDir()
	sources := filepath.Join(dir, "sources")
	script := `set -e; mkdir "$2"; git archive "$1" | tar -x -C "$2"; cd "$2"; export CGO_ENABLED=0
go build -trimpath -tags nethttpomithttp2 -ldflags "-X main.version=$1" -o "$3/muster-agent" ./agent
install -D "$3/muster-agent" "gateway/agents/linux-$(go env GOARCH)/muster-agent"
go build -trimpath -ldflags "-X main.version=$1" -o "$3/muster" ./gateway`
	build := exec.Command("bash", "-o", "pipefail", "-c", script, "bash", version, sources, dir)
	build.Dir = ".." // git archive takes the folder in which it runs
	out, err := build.CombinedOutput()
	switch {
	case err == nil:
		return filepath.Join(dir, "muster"), filepath.Join(dir, "muster-agent")
	case os.Getenv("CI") == "" && exec.Command("git", "cat-file", "-e", version+"^{commit}").Run() != nil:
		t.Skipf("this clone has no commit %s: git fetch --unshallow gets it. Tests with testdata/versions/%[1]s go without it", version)
	}
	t.Fatalf("build version %s: %v\n%s\nin a clone without its whole history: git fetch --unshallow", version, err, out)
	return "", ""
}

// TestVersionsOldAgent: an agent of the version before joins this gateway, works for it, and renews; directly and with signatures. Then
// this version's agent goes on with the same state, and after it the old one again.
func TestVersionsOldAgent(t *testing.T) {
	_, old := older(t, oldVersion)
	h := newHouse(t, "--cert-ttl", "6s", "--plain-listen", "127.0.0.1:0")
	meet(h, old, agentBinary(t))
}

// TestVersionsOldGateway: an agent of this version does the same with a gateway of the version before. Then this version's gateway
// goes on with the data.
func TestVersionsOldGateway(t *testing.T) {
	gateway, old := older(t, oldVersion)
	h := &house{t: t, data: t.TempDir(), program: gateway, env: []string{withAgents + "=" + t.TempDir()},
		args: []string{"--listen", "127.0.0.1:0", "--cert-ttl", "6s", "--plain-listen", "127.0.0.1:0"}}
	h.open()
	meet(h, agentBinary(t), old)
	h.gateway.stop()
	h.program = ""
	h.open()
	for _, name := range []string{"direct", "signed"} {
		h.beats(name)
	}
	h.obeys("direct")
}

// meet has the agents of one version join and work, and then those of another version in their place.
func meet(h *house, first, second string) {
	h.t.Helper()
	tls := h.url
	urls := map[string]string{"direct": tls, "signed": h.plain()}
	path := "PATH=" + podman(h.t) + ":" + os.Getenv("PATH")
	nodes := map[string]string{}
	for _, program := range []string{first, second, first} {
		var agents []*process
		for name, url := range urls {
			h.url = url
			token := ""
			if nodes[name] == "" {
				token = h.token()
			}
			agents = append(agents, h.agentWith([]string{path}, program, name, token, "--nvidia-smi", smi(h.t, 2)))
		}
		h.url = tls
		for name := range urls {
			nodes[name] = h.serves(name, nodes[name])
		}
		for _, agent := range agents {
			agent.stop()
			for _, confused := range []string{"panic:", "unknown field", "cannot unmarshal"} {
				if strings.Contains(agent.text(), confused) {
					h.t.Errorf("the agent says:\n%s", agent.text())
				}
			}
		}
	}
	for name, url := range urls { // for whatever comes next
		h.url = url
		h.agentWith([]string{path}, first, name, "")
	}
	h.url = tls
}

// serves waits until a node reports with its GPUs, has renewed, and has done a task. It gives the node's id, which must stay the same.
func (h *house) serves(name, id string) string {
	h.t.Helper()
	h.beats(name)
	h.until(name+" reports its GPUs", func() bool {
		n, _ := h.node(name)
		return n.State == "active" && n.Hardware != nil && len(n.Hardware.GPUs) == 2
	})
	n, _ := h.node(name)
	if id != "" && n.ID != id {
		h.t.Errorf("%s is the node %s now, and was %s", name, n.ID, id)
	}
	h.obeys(name)
	before := n.Certificate.Generation
	h.until(name+" renews", func() bool { n, _ := h.node(name); return n.Certificate.Generation > before })
	if phase := h.phase(name); phase != "online" {
		h.t.Errorf("%s says of itself that it is %s", name, phase)
	}
	return n.ID
}

// obeys has a node do a task.
func (h *house) obeys(name string) {
	h.t.Helper()
	out := h.muster("task", "run", name, "workload.status", "--wait", "--timeout", "20s")
	if !strings.Contains(out, "no workloads") {
		h.t.Errorf("a task of %s:\n%s", name, out)
	}
}
