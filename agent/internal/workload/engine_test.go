package workload_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
)

// TestEngineChoice: the engine that the params name, else the first that is there and answers.
func TestEngineChoice(t *testing.T) {
	for _, test := range []struct {
		there, down string // names with blanks between
		wanted      string
		takes       string   // empty: refused with these words
		words       []string // of the refusal
	}{
		{"docker podman nerdctl", "", "", "docker", nil},
		{"podman nerdctl", "", "", "podman", nil},
		{"docker podman", "docker", "", "podman", nil},
		{"docker podman", "", "podman", "podman", nil},
		{"nerdctl", "", "nerdctl", "nerdctl", nil},
		{"", "", "", "", []string{"no docker, podman or nerdctl", "install one of them first", "apt-get install podman"}},
		{"", "", "podman", "", []string{"no docker, podman or nerdctl"}},
		{"podman", "", "docker", "", []string{"no docker", "runtime=podman"}},
		{"docker", "docker", "", "", []string{"docker is on this node and does not answer", "is it running?", "systemctl start docker"}},
		{"docker podman", "podman", "podman", "", []string{"podman is on this node and does not answer", "podman info"}},
		{"nerdctl", "nerdctl", "", "", []string{"systemctl start containerd"}},
	} {
		n := newNode(t, strings.Fields(test.there)...)
		for _, name := range strings.Fields(test.down) {
			n.play(name, played{Down: "cannot connect, is it running?"})
		}
		p := params()
		p.Runtime = test.wanted
		if test.takes == "" {
			n.refused(n.launch(p), test.words...)
			continue
		}
		n.value(n.launched(p), "runtime", `"`+test.takes+`"`)
	}
}

// TestEngineHangs: an engine that never answers does not hold up another one for long. It is told about where it is wanted.
func TestEngineHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, "docker", "podman")
		n.play("docker", played{Hangs: "ps"})
		start := time.Now()
		n.value(n.launched(params()), "runtime", `"podman"`)
		if took := time.Since(start); took < 20*time.Second || took > 21*time.Second {
			t.Errorf("it took %s", took)
		}
		p := params()
		p.Name = "other"
		p.Runtime = "docker"
		n.refused(n.launch(p), "docker is on this node and does not answer", "no answer within 20s")
	})
}

// TestSettle: a new container is watched for a while, and not longer.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, "podman")
		n.host.Settle = 0
		start := time.Now()
		n.launched(params())
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestEngineByAnotherName: podman's program docker takes podman's options, so it is not docker.
func TestEngineByAnotherName(t *testing.T) {
	n := newNode(t, "docker", "podman")
	n.play("docker", played{Version: "podman version 4.3.1"})
	n.value(n.launched(params()), "runtime", `"podman"`)
	p := params()
	p.Name = "other"
	p.Runtime = "docker"
	n.refused(n.launch(p), "use that by its own name")
}

// TestEngineSilent: an engine that has run workloads here and does not answer may hide some. One that never did hides none.
func TestEngineSilent(t *testing.T) {
	n := newNode(t, "docker", "podman")
	n.play("docker", played{Down: "is it running?"})
	n.launched(params())
	stop := &wire.WorkloadStop{Name: "model"}
	if outcome := n.host.Stop(t.Context(), n.job, stop); outcome.Error != "" {
		t.Errorf("an engine that was never used is in the way: %s", outcome.Error)
	}
	n.play("docker", played{})
	n.launched(params())
	n.play("docker", played{Down: "is it running?"})
	const hint = "docker has run workloads on this node, and does not answer now"
	n.refused(n.host.Stop(t.Context(), n.job, stop), hint, "is it running?", "systemctl start docker")
	n.ran("train") // a program needs no engine
	outcome := n.host.Stop(t.Context(), n.job, &wire.WorkloadStop{Name: "train"})
	n.value(outcome, "stopped", `["train"]`)
	n.printed(hint)
	if outcome.Error != "" {
		t.Errorf("a program beside an engine that is silent: %s", outcome.Error)
	}
	n.refused(n.host.Status(t.Context(), n.job, &wire.WorkloadStatus{}), hint)
	n.refused(n.host.Logs(t.Context(), n.job, &wire.WorkloadLogs{Name: "model"}), hint)
	n.refused(n.launch(params()), hint)
	if len(n.calls("run")) != 2 {
		t.Errorf("runs: %+v", n.calls("run"))
	}
}

// TestEngineRecordFails: what cannot be written down is not begun.
func TestEngineRecordFails(t *testing.T) {
	n := newNode(t, "podman")
	n.host.State = filepath.Join(n.host.State, "none")
	n.refused(n.launch(params()), "could not be written down")
	if len(n.calls("pull")) > 0 {
		t.Error("pulled")
	}
}

// TestEnginePath: relative entries of PATH, files that are no programs, and no PATH at all.
func TestEnginePath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "podman"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, env := range [][]string{{}, {"PATH=" + dir}, {"PATH=bin:."}} {
		n := newNode(t)
		n.host.Env = env
		n.refused(n.launch(params()), "install one of them first")
	}
}

// TestEngineOwnEnvironment: without one given, the engines get that of the agent, less its own variables.
func TestEngineOwnEnvironment(t *testing.T) {
	n := newNode(t, "podman")
	for _, entry := range n.host.Env {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	t.Setenv("MUSTER_TOKEN", "mse_secret")
	n.host.Env = nil
	n.launched(params())
	for _, call := range n.calls() {
		if strings.Contains(strings.Join(call.Env, "\n"), "MUSTER_") {
			t.Errorf("%q: the agent's variables are told: %q", call.Args, call.Env)
		}
	}
}
