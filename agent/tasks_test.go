package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/internal/account"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/session"
	"muster/agent/internal/task"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/internal/workload"
	"muster/agent/sign"
	"muster/agent/wire"
)

// desk gives tasks to the agent of a box.
type desk struct {
	b   *box
	key ed25519.PrivateKey

	mu      sync.Mutex
	queue   []wire.SignedTask // one at the most
	results map[string]wire.TaskResult
}

// tasked is a box whose gateway has work. Nobody has joined it yet.
func tasked(t *testing.T) *desk {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{b: newBox(t), key: key, results: map[string]wire.TaskResult{}}
	d.b.g.Tasks = []ed25519.PrivateKey{key}
	d.b.g.Route = d.route
	return d
}

func (d *desk) route(q gatewaytest.Request) *gatewaytest.Reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch rest, ours := strings.CutPrefix(q.Path, wire.PrefixTasks); {
	case strings.HasSuffix(q.Path, "/tasks/wait"):
		if len(d.queue) == 0 {
			return &gatewaytest.Reply{Status: 204}
		}
		return d.b.g.JSON(200, d.queue[0]) // again, until the agent says that it has it: a wait may be cut
	case ours && strings.HasSuffix(rest, "/result"):
		d.queue = nil // a refused task is not started
		var result wire.TaskResult
		_ = json.Unmarshal(q.Body, &result)
		d.results[strings.TrimSuffix(rest, "/result")] = result
		return d.b.g.JSON(200, struct{}{})
	case ours:
		d.queue = nil
		return d.b.g.JSON(200, wire.TaskProgress{})
	}
	return nil
}

// do gives a task and waits for its result.
func (d *desk) do(kind, params string) wire.TaskResult {
	d.b.t.Helper()
	now := time.Now().UTC()
	payload, err := json.Marshal(wire.TaskPayload{
		TaskID: wire.NewTaskID(), NodeID: gatewaytest.NodeID, Enrolment: gatewaytest.Enrolment, Type: kind, Params: json.RawMessage(params),
		IssuedAt: now, ExpiresAt: now.Add(time.Hour), Nonce: "n",
	})
	if err != nil {
		d.b.t.Fatal(err)
	}
	var read wire.TaskPayload
	_ = json.Unmarshal(payload, &read)
	d.mu.Lock()
	d.queue = append(d.queue, sign.SealTask(d.key, payload))
	d.mu.Unlock()
	var result wire.TaskResult
	d.b.until("the result of "+kind, func() (there bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		result, there = d.results[read.TaskID]
		return there
	})
	return result
}

// TestRestartTask: the agent is another one in the same process, so that whatever keeps it does not notice. What the task has told counts.
func TestRestartTask(t *testing.T) {
	t.Parallel()
	for _, systemd := range []bool{true, false} {
		d := tasked(t)
		if systemd {
			d.b.mkdir("run/systemd/system")
		}
		d.b.joined()
		d.b.online()
		run := d.b.lastBeat().RunID
		pid := d.b.manager().Agent()
		if r := d.do(wire.TaskAgentRestart, `{}`); r.Status != wire.TaskCompleted {
			t.Errorf("%+v", r)
		}
		d.b.until("a heartbeat of another run", func() bool { return d.b.lastBeat().RunID != run })
		d.b.until("the status", func() bool { return d.b.status().Phase == identity.PhaseOnline })
		if now := d.b.manager().Agent(); now != pid || pid == 0 {
			t.Errorf("process %d became %d", pid, now)
		}
		if r := d.do(wire.TaskAgentRestart, `{"x":1}`); r.Code != wire.CodeTaskParamsInvalid {
			t.Errorf("%+v", r)
		}
		var starts struct{ Crashes []time.Time }
		if err := json.Unmarshal([]byte(d.b.read("base/starts.json")), &starts); err != nil || len(starts.Crashes) > 0 {
			t.Errorf("it counts as a crash: %v, %v", starts.Crashes, err)
		}
	}
}

// TestRestartWaits: while the tasks of this agent are not at rest, it goes on.
func TestRestartWaits(t *testing.T) {
	t.Parallel()
	a := &foreground{ending: make(chan error, 1)}
	h := &hands{foreground: a, worker: task.New(task.Config{})} // it has not looked yet what an earlier run has left
	over, cancel := context.WithCancel(t.Context())
	cancel()
	after := h.handle(t.Context(), task.Job{Params: &wire.AgentRestart{}}).After
	if err := after(over); err != nil || len(a.ending) > 0 {
		t.Errorf("%v, %d reasons to end", err, len(a.ending))
	}
}

// TestUninstallTask: after it the machine is as it was before.
func TestUninstallTask(t *testing.T) {
	t.Parallel()
	d := tasked(t)
	before := d.b.tree()
	d.b.joined()
	d.b.online()
	if r := d.do(wire.TaskAgentUninstall, `{}`); r.Status != wire.TaskCompleted {
		t.Errorf("%+v", r)
	}
	for _, last := range []string{d.b.base, filepath.Join(d.b.root, "etc")} { // the folders that joining made go last
		d.b.until(last+" is removed", func() bool { _, err := os.Stat(last); return errors.Is(err, os.ErrNotExist) })
	}
	if after := d.b.tree(); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
	if len(d.b.g.Requests("/leave")) == 0 {
		t.Error("the gateway was not told")
	}
}

// TestUninstallThatFails: an agent that cannot be removed goes on, and says so.
func TestUninstallThatFails(t *testing.T) {
	t.Parallel()
	d := tasked(t)
	d.b.joined()
	d.b.online()
	d.b.rule(refuse("/leave", 503, wire.CodeUnavailable))
	d.do(wire.TaskAgentUninstall, `{}`)
	d.b.until("a notice", func() bool {
		return strings.Contains(strings.Join(d.b.lastBeat().Notices, ";"), "the agent was not removed")
	})
	if log := d.b.read("base/leave.log"); !strings.Contains(log, "nothing was removed") {
		t.Errorf("%q", log)
	}
}

// TestUninstallOfOneByHand: an agent that nobody installed removes itself once it has ended.
func TestUninstallOfOneByHand(t *testing.T) {
	t.Parallel()
	d := tasked(t)
	state := filepath.Join(t.TempDir(), "state")
	d.b.env["MUSTER_TOKEN"] = d.b.token
	told := make(chan wire.TaskResult, 1)
	go func() { told <- d.do(wire.TaskAgentUninstall, `{}`) }()
	code, out, errs := d.b.call("run", "--gateway", d.b.url, "--state", state, "--no-gpu", "--name", "gpu-1", "--interval", "200ms")
	r := <-told
	if code != 0 || !strings.Contains(out, "left: this machine is as it was before") || r.Status != wire.TaskCompleted {
		t.Errorf("exit %d\n%s%s\n%+v", code, out, errs, r)
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("the state is left")
	}
}

// TestLeaveSaysWhatTasksMade: accounts and containers stay, because people may need what is in them. Of the agent itself nothing does.
func TestLeaveSaysWhatTasksMade(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	b.put("base/"+account.RecordFile, `{"version":1,"accounts":[{"name":"ada","uid":1000,"home":"/home/ada","mark":"m","phase":"present"},`+
		`{"name":"bob","uid":1001,"home":"/home/bob","mark":"m","phase":"kept"}]}`, 0o600)
	b.put("base/"+workload.EnginesFolder+"/podman", "", 0o600)
	b.put("base/"+task.PolicyFile, "{}", 0o600)
	b.put("base/"+session.ProgramsFolder+"/s-4sl5ucv6e2vnxq7a", "{}", 0o600)
	b.put("base/"+service.ShippingFolder+"/spool/0000000000000000001.spool", "", 0o600)
	code, out, errs := b.call("leave", "--state", b.base)
	for _, want := range []string{"stays: the account ada", "stays: containers that tasks have started, if there are any: podman ps"} {
		if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "bob") {
			t.Errorf("exit %d, no %q in\n%s%s", code, want, out, errs)
		}
	}
	if _, err := os.Stat(b.base); err == nil {
		t.Error("the state is left")
	}
}

// TestEveryTypeIsDone: the switch has a case for every type.
func TestEveryTypeIsDone(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("tasks.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range wire.TaskTypes() {
		if name := reflect.TypeOf(one.New()).Elem().Name(); !strings.Contains(string(source), "case *wire."+name+":") {
			t.Errorf("nothing does %s", one.Name)
		}
	}
}
