package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/logs"
)

// runHouse is a task house whose nodes run programs: each writes two lines, and is then as its node says.
type runHouse struct {
	*taskHouse
	journal *journal
	end     wire.Run // of each program; State running: it goes on
	command []string // of the last one
}

func newRunHouse(t *testing.T, nodes ...string) *runHouse {
	h := &runHouse{taskHouse: newTaskHouse(t), journal: &journal{lines: map[string][]wire.LogLine{}}}
	now := h.now
	h.api.Logs = logs.New(logs.Config{Open: h.journal.open, Now: func() time.Time { return now }})
	h.dir = h.listen()
	for _, name := range nodes {
		h.works(name, func(p wire.TaskPayload) (string, wire.TaskResult) { return h.do(name, p) })
	}
	return h
}

func (h *runHouse) do(name string, p wire.TaskPayload) (string, wire.TaskResult) {
	zero := 0
	result := wire.TaskResult{Status: wire.TaskCompleted, ExitCode: &zero, Values: wire.TaskValues{}}
	if p.Type == wire.TaskWorkloadStop {
		result.Values["changed"] = json.RawMessage("true")
		return "", result
	}
	var params wire.WorkloadProcess
	if err := json.Unmarshal(p.Params, &params); err != nil {
		h.t.Error(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.command = params.Command
	at := h.now.Add(-time.Second)
	h.journal.mu.Lock()
	source := wire.LogWorkload + params.Name
	h.journal.lines[source] = []wire.LogLine{{Source: source, Time: at, Message: "one"}, {Source: source, Time: at, Message: "two\x1b"}}
	h.journal.mu.Unlock()
	run := h.end
	run.Name = params.Name
	run.Task = p.TaskID
	run.StartedAt = &at
	run.Program = params.Command[0]
	raw, _ := json.Marshal(wire.Hardware{GPUs: []wire.GPU{}, Runs: []wire.Run{run}})
	if err := h.beat(name, 0, string(raw)); err != nil {
		h.t.Error(err)
	}
	result.Values["task"], _ = json.Marshal(p.TaskID)
	result.Values["state"], _ = json.Marshal(run.State)
	result.Values["changed"] = json.RawMessage("true")
	return "", result
}

// TestRunWait: the output comes as it is, and the exit code is the program's.
func TestRunWait(t *testing.T) {
	h := newRunHouse(t, "gpu-1", "gpu-2")
	code3 := 3
	h.end = wire.Run{State: wire.RunExited, ExitCode: &code3}
	code, stdout, stderr := h.muster("run", "gpu-1", "--name", "train", "--wait", "--env", "A=b=c", "--", "python",
		"train.py", "--wait", "-l", "x")
	if code != 3 || stdout != "one\ntwo\x1b\n" {
		t.Errorf("code %d, %q\n%s", code, stdout, stderr)
	}
	if got := strings.Join(h.command, " "); got != "python train.py --wait -l x" {
		t.Errorf("ran %q", got)
	}
	code, stdout, stderr = h.muster("run", "gpu-1", "gpu-2", "-w", "--", "job")
	if code != 1 || !strings.Contains(stdout, "gpu-2: two\\x1b\n") || strings.Count(stderr, "ended with exit code 3") != 2 {
		t.Errorf("two nodes: code %d, %q\n%s", code, stdout, stderr)
	}
	h.end = wire.Run{State: wire.RunInterrupted, Why: "the machine was started anew while it ran"}
	code, _, stderr = h.muster("run", "gpu-1", "-w", "--", "job")
	if code != 1 || !strings.Contains(stderr, "interrupted: the machine was started anew") {
		t.Errorf("interrupted: code %d\n%s", code, stderr)
	}
}

// TestRunWaitSilent: a node that has said nothing since the program began has not lost it.
func TestRunWaitSilent(t *testing.T) {
	h := newRunHouse(t)
	zero := 0
	h.end = wire.Run{State: wire.RunExited, ExitCode: &zero}
	var payload wire.TaskPayload
	var begun atomic.Bool // and its output is asked for
	now := h.now
	h.api.Logs = logs.New(logs.Config{Now: func() time.Time { return now },
		Open: func(ctx context.Context, node string, p wire.LogsParams) (io.ReadCloser, error) {
			begun.Store(true)
			return h.journal.open(ctx, node, p)
		}})
	h.dir = h.listen()
	h.works("gpu-1", func(p wire.TaskPayload) (string, wire.TaskResult) {
		payload = p
		result := wire.TaskResult{Status: wire.TaskCompleted, ExitCode: &zero, Values: wire.TaskValues{}} // and no heartbeat
		result.Values["task"], _ = json.Marshal(p.TaskID)
		source := wire.LogWorkload + "train"
		h.journal.mu.Lock()
		h.journal.lines[source] = []wire.LogLine{{Source: source, Time: time.Unix(1000, 0), Message: "one"}}
		h.journal.mu.Unlock()
		return "", result
	})
	waits := 0
	h.pause = func(ctx context.Context) error {
		if begun.Load() {
			h.now = h.now.Add(time.Second)
			waits++
		}
		if waits == 50 {
			h.do("gpu-1", payload)
		}
		return ctx.Err()
	}
	code, _, stderr := h.muster("run", "gpu-1", "--name", "train", "--wait", "--", "job")
	if code != 0 || strings.Contains(stderr, "removed") || !strings.Contains(stderr, "has not said yet") {
		t.Errorf("code %d\n%s", code, stderr)
	}
}

// TestRunWaitMany: the program begins on every node, however many there are, before one has ended.
func TestRunWaitMany(t *testing.T) {
	h := newRunHouse(t)
	zero := 0
	h.end = wire.Run{State: wire.RunExited, ExitCode: &zero}
	const many = 17
	var begun sync.WaitGroup
	begun.Add(many)
	all := make(chan struct{})
	go func() { begun.Wait(); close(all) }()
	args := []string{"run", "--name", "train", "--wait"}
	for i := range many {
		name := fmt.Sprintf("gpu-%02d", i)
		args = append(args, name)
		h.works(name, func(p wire.TaskPayload) (string, wire.TaskResult) {
			begun.Done()
			select {
			case <-all:
			case <-time.After(10 * time.Second):
				t.Errorf("%s has begun, and not all others", name)
			}
			return h.do(name, p)
		})
	}
	if code, _, stderr := h.muster(append(args, "--", "job")...); code != 0 {
		t.Errorf("code %d\n%s", code, stderr)
	}
}

// TestRunLists: a program is started, listed, read and ended by its name. The next steps are said.
func TestRunLists(t *testing.T) {
	h := newRunHouse(t, "gpu-1", "gpu-2")
	h.end = wire.Run{State: wire.RunRunning, User: "ada", GPUs: []string{"GPU-1", "GPU-2"}}
	code, stdout, stderr := h.muster("run", "gpu-1", "--gpus", "2", "--name", "train", "--", "python", "train.py")
	if code != 0 || stdout != "gpu-1: train runs\n" || !strings.Contains(stderr, "muster run logs -f train") ||
		!strings.Contains(stderr, "muster run stop train") {
		t.Fatalf("code %d, %q\n%s", code, stdout, stderr)
	}
	list := h.done("run", "ls")
	if !strings.Contains(list, "train  gpu-1  running") || !strings.Contains(list, "ada") || !strings.Contains(list, "1 program") {
		t.Errorf("list:\n%s", list)
	}
	var shown struct {
		Runs []struct{ Node, Name, State string }
	}
	err := json.Unmarshal([]byte(h.done("run", "ls", "gpu-1", "-o", "json")), &shown)
	if err != nil || len(shown.Runs) != 1 || shown.Runs[0].Node != "gpu-1" {
		t.Errorf("%+v, %v", shown, err)
	}
	if list := h.done("node", "ls"); !strings.Contains(list, "train on gpu-1") {
		t.Errorf("node ls:\n%s", list)
	}
	if page := h.done("node", "show", "gpu-1"); !strings.Contains(page, "train, python as ada, 2 GPUs") {
		t.Errorf("node show:\n%s", page)
	}
	if got := h.done("run", "logs", "train"); got != "one\ntwo\x1b\n" {
		t.Errorf("logs: %q", got)
	}
	if got := h.done("run", "stop", "train", "gpu-1", "--grace", "1m"); got != "gpu-1: train is ended, and removed with its output\n" {
		t.Errorf("stop: %q", got)
	}
	h.done("run", "gpu-2", "--name", "train", "--", "python", "train.py")
	if code, _, stderr := h.muster("run", "stop", "train"); code != 2 || !strings.Contains(stderr, "2 nodes: gpu-1, gpu-2") ||
		!strings.Contains(stderr, "add the node: muster run stop train gpu-1") {
		t.Errorf("of two: code %d\n%s", code, stderr)
	}
	if got := h.done("run", "stop", "train", "--all"); strings.Count(got, "is ended, and removed with its output") != 2 {
		t.Errorf("all: %q", got)
	}
}

// TestRunAgain: a name whose program has ended is used again only with a yes of the person who would lose its output. Without a person it
// is said. Where nothing began there is nothing to follow.
func TestRunAgain(t *testing.T) {
	h := newRunHouse(t, "gpu-1")
	zero := 0
	h.end = wire.Run{State: wire.RunExited, ExitCode: &zero}
	again := []string{"run", "gpu-1", "--name", "train", "--", "python", "train.py"}
	h.done(again...)
	const replaced = "replace the train that has ended on gpu-1, with all that it wrote"
	if code, _, stderr := h.muster(again...); code != 0 || !strings.Contains(stderr, "this will "+replaced) {
		t.Errorf("without a person: code %d\n%s", code, stderr)
	}
	h.interactive = true
	h.stdin = "n\n"
	if code, _, stderr := h.muster(again...); code != 1 || !strings.Contains(stderr, replaced+"? [y/N]") || len(h.did("gpu-1")) != 2 {
		t.Errorf("without a yes: code %d, did %q\n%s", code, h.did("gpu-1"), stderr)
	}
	h.stdin = "y\n"
	h.done(again...)
	if code, _, stderr := h.muster("run", "gpu-8", "gpu-9", "--", "true"); code != 1 || strings.Contains(stderr, "follow it") {
		t.Errorf("where nothing began: code %d\n%s", code, stderr)
	}
}

// TestRunOfWords: a program behind -- is no command of this program, and variables that are about joining change nothing.
func TestRunOfWords(t *testing.T) {
	h := newRunHouse(t, "gpu-1")
	h.end = wire.Run{State: wire.RunRunning}
	h.env["MUSTER_NAME"] = "gpu-7"
	h.env["MUSTER_GPUS"] = "8"
	if got := h.done("run", "-l", "tier!=none", "--yes", "--", "ls", "/data"); !strings.HasPrefix(got, "gpu-1: ls-") {
		t.Errorf("run -l ... -- ls: %s", got)
	}
	if code, _, stderr := h.muster("run", "--", "stop", "train"); code != 2 || !strings.Contains(stderr, "which nodes?") {
		t.Errorf("run -- stop train: %d %s", code, stderr)
	}
}

// TestRunUsage: what is wrong is said before anything is queued, with the next step.
func TestRunUsage(t *testing.T) {
	h := newRunHouse(t, "gpu-1")
	for _, c := range []struct{ args, says, hint string }{
		{"run gpu-1", "which program?", "muster run gpu-1 -- python train.py"},
		{"run -- true", "which nodes?", "-l tier=sovereign"},
		{"run gpu-1 --name ../x -- true", "the param name cannot be", "the form of a node's name"},
		{"run gpu-1 --env A -- true", "write NAME=VALUE", ""},
		{"run gpu-1 --env A=1 --env A=2 -- true", "it has this NAME twice", ""},
		{"run gpu-1 --env A=1 --env-secret A=s -- true", "the param secret_env cannot be", "the same NAME"},
		{"run gpu-1 --env-secret A=missing -- true", "missing", "muster secret set"},
		{"run gpu-1 --gpus 0 -- true", "--gpus", "a whole number from 1"},
		{"run gpu-1 --gpus -1 -- true", "--gpus", "a whole number from 1"},
		{"run gpu-1 --gpus many -- true", "--gpus", "a whole number from 1"},
		{"run gpu-1 --dir srv -- true", "the param workdir cannot be", "an absolute path"},
		{"run stop vi tty top", `one program at a time, and "tty" would be its node`, "write muster run stop NAME [NODE]"},
		{"run logs vi tty top", `one program at a time`, "write muster run logs NAME [NODE]"},
		{"run stop vi tty", `no node is called "tty"; muster run stop takes one program at a time, and "tty" would be its node`,
			"\n          muster run stop vi\n          muster run stop tty\n"},
		{"run logs vi tty", `one program at a time`, "\n          muster run logs tty\n"},
		{"run stop none", `no node has a program "none"`, "muster run NODE -- PROGRAM"},
		{"run logs none", `no node has a program "none"`, "muster run NODE -- PROGRAM"},
	} {
		code, stdout, stderr := h.muster(strings.Fields(c.args)...)
		if code == 0 || !strings.Contains(stderr, c.says) || !strings.Contains(stderr, c.hint) || stdout != "" {
			t.Errorf("%q: code %d\n%s\n%s", c.args, code, stdout, stderr)
		}
	}
	if done := h.did("gpu-1"); len(done) != 0 {
		t.Errorf("done: %q", done)
	}
}

// TestRunFails: a program that cannot be run gives its code, and why.
func TestRunFails(t *testing.T) {
	h := newTaskHouse(t)
	h.works("gpu-1", func(wire.TaskPayload) (string, wire.TaskResult) {
		code := 127
		return "", wire.TaskResult{Status: wire.TaskFailed, ExitCode: &code, Error: `the node has no program "pyhton"`}
	})
	for _, flag := range []string{"--wait", "--name=x"} {
		code, _, stderr := h.muster("run", "gpu-1", flag, "--", "pyhton")
		if code != 127 || !strings.Contains(stderr, `no program "pyhton"`) {
			t.Errorf("%s: code %d\n%s", flag, code, stderr)
		}
	}
}

// TestTaskTag: all nodes of one call get the digest that the first one got.
func TestTaskTag(t *testing.T) {
	h := newTaskHouse(t)
	asked := 0
	h.desk.Digest = digestsFor(&asked)
	for _, name := range []string{"gpu-1", "gpu-2", "gpu-3"} {
		h.works(name, completes)
	}
	h.done("task", "run", "gpu-1", "gpu-2", "gpu-3", "workload.oci_launch", "name=x", "image=r.example/llm:1", "--wait")
	h.mu.Lock()
	defer h.mu.Unlock()
	if asked != 1 || len(h.ended) != 3 {
		t.Fatalf("asked %d times for %d tasks", asked, len(h.ended))
	}
	for _, payload := range h.ended {
		if want := fmt.Sprintf(`"image":"r.example/llm:1@sha256:%064d"`, 1); !strings.Contains(string(payload.Params), want) {
			t.Errorf("%s", payload.Params)
		}
	}
}
