package workload_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
)

// foreign is a container that is not muster's, though its image has brought labels that say so.
func foreign(name string) playedContainer {
	return playedContainer{ID: strings.Repeat("f", 64), Name: name, Status: "running",
		Labels: map[string]string{"muster.workload": "model", "muster.task": "x"}}
}

// TestStop: one workload is stopped and removed, the others run on.
func TestStop(t *testing.T) {
	n := newNode(t, "docker", "podman")
	other := params()
	other.Name = "other"
	other.Runtime = "podman"
	n.launched(params())
	n.launched(other)
	n.change("docker", func(p *played) { p.Containers = append(p.Containers, foreign("theirs")) })
	outcome := n.host.Stop(t.Context(), n.job, &wire.WorkloadStop{Name: "model", Grace: 30})
	n.value(outcome, "changed", "true")
	n.value(outcome, "stopped", `["model"]`)
	if args := n.only("stop").Args; !slices.Equal(args, []string{"stop", "-t", "30", fmt.Sprintf("%064x", 1)}) {
		t.Errorf("stop %q", args)
	}
	if left := n.state("docker").Containers; len(left) != 1 || left[0].Name != "theirs" {
		t.Errorf("left: %+v", left)
	}
	n.value(n.host.Stop(t.Context(), n.job, &wire.WorkloadStop{Name: "model"}), "changed", "false")
	n.printed("nothing to stop")
}

// TestStopAll: every workload, in every engine.
func TestStopAll(t *testing.T) {
	n := newNode(t, "docker", "podman")
	for i, engine := range []string{"docker", "podman", "podman"} {
		p := params()
		p.Name = fmt.Sprint("w", i)
		p.Runtime = engine
		n.launched(p)
	}
	outcome := n.host.Stop(t.Context(), n.job, &wire.WorkloadStop{All: true})
	n.value(outcome, "stopped", `["w0","w1","w2"]`)
	n.none("docker")
	n.none("podman")
	if len(n.calls("stop")) != 2 {
		t.Errorf("not stopped at once: %+v", n.calls("stop"))
	}
}

// TestStopWithoutEngine: a machine that can run nothing has nothing to stop.
func TestStopWithoutEngine(t *testing.T) {
	n := newNode(t)
	outcome := n.host.Stop(t.Context(), n.job, &wire.WorkloadStop{All: true})
	n.value(outcome, "changed", "false")
	if outcome.Error != "" {
		t.Error(outcome.Error)
	}
}

// TestStopFails: what is left is a failure, and what was stopped is told all the same.
func TestStopFails(t *testing.T) {
	n := newNode(t, "docker", "podman")
	n.launched(params())
	other := params()
	other.Name = "other"
	other.Runtime = "podman"
	n.launched(other)
	n.change("docker", func(p *played) { p.Stubborn = true })
	outcome := n.host.Stop(t.Context(), n.job, &wire.WorkloadStop{All: true})
	n.refused(outcome, "device or resource busy")
	n.value(outcome, "stopped", `["other"]`)
	n.change("docker", func(p *played) { p.Garbage = "{" })
	n.refused(n.host.Stop(t.Context(), n.job, &wire.WorkloadStop{All: true}), "docker cannot say which containers there are", "as JSON")
}

// TestStopGrace: it ends before the task's time does, so that something is left for killing.
func TestStopGrace(t *testing.T) {
	n := newNode(t, "docker")
	n.launched(params())
	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	n.host.Stop(ctx, n.job, &wire.WorkloadStop{Name: "model", Grace: 3600})
	if seconds := n.only("stop").Args[2]; len(seconds) != 2 || seconds > "45" {
		t.Errorf("%s seconds", seconds)
	}
}

// TestStatus says what a program and a person want to know.
func TestStatus(t *testing.T) {
	n := newNode(t, "docker", "podman")
	p := params()
	p.GPUs = []string{gpu}
	n.launched(p)
	done := params()
	done.Name = "done"
	done.Runtime = "podman"
	n.launched(done)
	n.change("podman", func(p *played) {
		p.Containers[0].Status = "exited"
		p.Containers[0].ExitCode = 7
		p.Containers[0].Finished = "2026-11-22T16:00:00.123456789+01:00"
		p.Containers = append(p.Containers, foreign("theirs"))
	})
	outcome := n.host.Status(t.Context(), n.job, &wire.WorkloadStatus{})
	n.value(outcome, "workloads", `[{"name":"done","image":"`+image+`","state":"exited","exit_code":7,"started_at":"2026-11-22T15:00:00Z",`+
		`"finished_at":"2026-11-22T15:00:00Z","task":"aaaaaaaaaaaaaaaa","runtime":"podman","gpus":[]},`+
		`{"name":"model","image":"`+image+`","state":"running","exit_code":null,"started_at":"2026-11-22T15:00:00Z","finished_at":null,`+
		`"task":"aaaaaaaaaaaaaaaa","runtime":"docker","gpus":["`+gpu+`"]}]`)
	n.value(outcome, "left_out", "0")
	n.value(outcome, "runtimes", `["docker","podman"]`)
	n.printed("exited (7)", "running", "NAME")
	one := n.host.Status(t.Context(), n.job, &wire.WorkloadStatus{Name: "none"})
	n.value(one, "workloads", "[]")
	n.printed("no workloads")
}

// TestStatusMany: the report stays within its limit, and says what it leaves out.
func TestStatusMany(t *testing.T) {
	n := newNode(t, "podman")
	n.change("podman", func(p *played) {
		for i := range 300 {
			name := fmt.Sprintf("w%03d", i)
			p.Containers = append(p.Containers, playedContainer{ID: fmt.Sprintf("%064x", i), Name: "muster-" + name, Status: "running",
				Labels: map[string]string{"muster.workload": name, "muster.task": "x", "muster.image": image}})
		}
	})
	outcome := n.host.Status(t.Context(), n.job, &wire.WorkloadStatus{})
	size := 0
	for _, raw := range outcome.Values {
		size += len(raw)
	}
	if left := string(outcome.Values["left_out"]); size > wire.MaxTaskValues || left == "0" || outcome.Error != "" {
		t.Errorf("%d bytes, %s left out: %s", size, left, outcome.Error)
	}
}

// TestVanished: a container that goes between two questions is no failure; a real one is.
func TestVanished(t *testing.T) {
	n := newNode(t, "podman")
	n.launched(params())
	n.change("podman", func(p *played) { p.Vanishes = 1 })
	if outcome := n.host.Status(t.Context(), n.job, &wire.WorkloadStatus{}); outcome.Error != "" {
		t.Error(outcome.Error)
	}
	n.change("podman", func(p *played) { p.Vanishes = 2 })
	n.refused(n.host.Status(t.Context(), n.job, &wire.WorkloadStatus{}), "podman cannot say which containers there are", "no such container")
}

// TestLogs gives the last lines, and names the workloads that there are where it does not know one.
func TestLogs(t *testing.T) {
	n := newNode(t, "podman")
	outcome := n.host.Logs(t.Context(), n.job, &wire.WorkloadLogs{Name: "model"})
	n.refused(outcome, `no workload "model"`, "none at all")
	n.launched(params())
	n.refused(n.host.Logs(t.Context(), n.job, &wire.WorkloadLogs{Name: "other"}), "it has model")
	if outcome.Code != wire.CodeNotFound {
		t.Errorf("code %q", outcome.Code)
	}
	n.change("podman", func(p *played) { p.Log = "one\ntwo\n" })
	n.out.Reset()
	outcome = n.host.Logs(t.Context(), n.job, &wire.WorkloadLogs{Name: "model", Lines: 7})
	n.value(outcome, "lines", "2")
	n.value(outcome, "truncated", "false")
	want := []string{"logs", "--tail=7", fmt.Sprintf("%064x", 1)}
	if args := n.only("logs").Args; !slices.Equal(args, want) || n.out.String() != "one\ntwo\n" {
		t.Errorf("%q: %q", args, n.out.String())
	}
}

// TestLogsLong: a log without end is cut at its beginning, at the start of a line.
func TestLogsLong(t *testing.T) {
	n := newNode(t, "podman")
	n.launched(params())
	line := strings.Repeat("x", 99) + "\n"
	n.change("podman", func(p *played) { p.Log = strings.Repeat(line, 5000) + "the end\n" })
	n.out.Reset()
	n.value(n.host.Logs(t.Context(), n.job, &wire.WorkloadLogs{Name: "model"}), "truncated", "true")
	text := n.out.String()
	if !strings.HasPrefix(text, "[the log is longer: this is its end]\n"+line) || !strings.HasSuffix(text, "the end\n") ||
		len(text) > wire.MaxTaskHead+wire.MaxTaskTail+100 {
		t.Errorf("%d bytes: %.100q", len(text), text)
	}
	if args := n.only("logs").Args; args[1] != "--tail=10000" {
		t.Errorf("args %q", args)
	}
}
