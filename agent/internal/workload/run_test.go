package workload_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/process"
	"muster/agent/wire"
)

// ran puts a program on the node that has ended with exit code 3, and has written two lines.
func (n *node) ran(name string) {
	n.Helper()
	n.ranFor(name, "")
}

func (n *node) ranFor(name, allocation string) {
	n.Helper()
	n.host.Runs = process.Host{State: n.host.State}
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	run, err := json.Marshal(wire.Run{Name: name, Task: "t-1", Program: "python", User: "ada", GPUs: []string{"GPU-1"}, StartedAt: &at,
		Allocation: allocation})
	folder := filepath.Join(n.host.State, process.Folder, name)
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	for file, text := range map[string]string{"run.json": string(run), "exit.json": `{"code":3,"at":"2026-11-22T13:00:00Z"}`,
		"output.log": `{"time":"2026-11-22T12:00:01Z","msg":"one"}` + "\n" + `{"time":"2026-11-22T12:00:02Z","msg":"two"}` + "\n"} {
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600)
		}
	}
	if err != nil {
		n.Fatal(err)
	}
}

// TestPrograms: programs without a container are listed, read and removed beside containers, and share their names.
func TestPrograms(t *testing.T) {
	n := newNode(t, "podman")
	n.launched(params())
	n.ran("train")
	status := n.host.Status(t.Context(), n.job, &wire.WorkloadStatus{})
	var rows []struct {
		Name, State, Runtime, Program string
		ExitCode                      *int `json:"exit_code"`
	}
	if err := json.Unmarshal(status.Values["workloads"], &rows); err != nil || len(rows) != 2 || rows[0].Runtime != "process" ||
		rows[0].Program != "python" || rows[0].ExitCode == nil || *rows[0].ExitCode != 3 || rows[1].Runtime != "podman" {
		t.Errorf("%s, %v", status.Values["workloads"], err)
	}
	n.printed("exited (3)")
	logs := n.host.Logs(t.Context(), n.job, &wire.WorkloadLogs{Name: "train", Lines: 1})
	n.value(logs, "lines", "1")
	n.value(logs, "truncated", "true")
	n.printed("two\n")
	p := params()
	p.Name = "train"
	if outcome := n.host.Launch(t.Context(), n.job, p); !strings.Contains(outcome.Error, "the name train is a program's") {
		t.Errorf("a container of that name: %+v", outcome)
	}
	taken := &wire.WorkloadProcess{Name: params().Name, Command: []string{"true"}}
	if outcome := n.host.Process(t.Context(), n.job, taken); !strings.Contains(outcome.Error, "is a container's on this node") {
		t.Errorf("a program of a container's name: %+v", outcome)
	}
	outcome := n.host.Logs(t.Context(), n.job, &wire.WorkloadLogs{Name: "none"})
	if !strings.Contains(outcome.Error, "it has "+params().Name+", train") {
		t.Errorf("no such workload: %+v", outcome)
	}
	n.value(n.host.Stop(t.Context(), n.job, &wire.WorkloadStop{All: true}), "stopped", `["train","`+params().Name+`"]`)
	n.value(n.host.Stop(t.Context(), n.job, &wire.WorkloadStop{All: true}), "changed", "false")
}

// TestTaggedImage: engines get the image by its digest alone, and the tag makes no other container.
func TestTaggedImage(t *testing.T) {
	n := newNode(t, "podman")
	p := params()
	bare := p.Image
	p.Image = strings.Replace(p.Image, "@", ":1.2@", 1)
	n.launched(p)
	args := strings.Join(n.only("run").Args, " ")
	if !strings.Contains(args, " "+bare) || strings.Contains(strings.ReplaceAll(args, "muster.image="+p.Image, ""), ":1.2@") {
		t.Errorf("run %s", args)
	}
	p.Image = bare
	n.value(n.launched(p), "changed", "false")
}
