package cli_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// TestTaskRun: a task is queued, done by its node, and shown, with its output as it is written and its exit code at the end.
func TestTaskRun(t *testing.T) {
	h := newTaskHouse(t)
	h.works("gpu-1", func(q wire.TaskPayload) (string, wire.TaskResult) {
		_, result := completes(q)
		result.Values = wire.TaskValues{"changed": json.RawMessage("true")}
		return "made the account\n\x1b[31m", result
	})
	key := filepath.Join(t.TempDir(), "key.pub")
	const line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPyGAsGCWlfdIXbNNJMmVPHPjF9Pn2MsDcC33KtQyvWe ada@desk"
	if err := os.WriteFile(key, []byte("# hers\n\n"+line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := h.muster("task", "run", "gpu-1", "provision_user", "username=ada", "ssh_public_keys=@"+key, "groups=docker",
		"groups=video", "--timeout", "90s", "--wait")
	if code != 0 || !strings.HasPrefix(stdout, "made the account\n") || !strings.HasSuffix(stderr, "completed\n") {
		t.Errorf("code %d\n%s\n%s", code, stdout, stderr)
	}
	var page api.TaskPage
	if err := json.Unmarshal([]byte(h.done("task", "ls", "-o", "json")), &page); err != nil || len(page.Tasks) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	one := page.Tasks[0]
	want := `{"groups":["docker","video"],"ssh_public_keys":["` + line + `"],"timeout_seconds":90,"username":"ada"}`
	if string(one.Params) != want || one.Status != wire.TaskCompleted || one.Node != "gpu-1" || one.ExitCode == nil || *one.ExitCode != 0 {
		t.Errorf("got %+v, params %s", one, one.Params)
	}
	shown := h.done("task", "show", one.ID)
	for _, part := range []string{"status       completed", "exit code    0", "changed      true", "  made the account\n", `\x1b[31m`,
		"claimed by   print-gpu-1"} {
		if !strings.Contains(shown, part) {
			t.Errorf("task show lacks %q:\n%s", part, shown)
		}
	}
	if logs := h.done("task", "logs", one.ID); logs != "made the account\n\x1b[31m" {
		t.Errorf("logs: %q", logs)
	}
	h.screen = 80
	if logs := h.done("task", "logs", "-f", one.ID); logs != "made the account\n"+`\x1b[31m`+"\n" {
		t.Errorf("logs on a terminal: %q", logs)
	}
	h.screen = 0
	table := h.done("task", "ls")
	if !strings.Contains(table, "provision_user") || !strings.HasSuffix(table, "1 task\n") {
		t.Errorf("list:\n%s", table)
	}
	for _, none := range []string{"--status failed", "--open", "--node gpu-2", "--type diag.collect", "--tenant other"} {
		code, out, _ := h.muster(append([]string{"task", "ls"}, strings.Fields(none)...)...)
		if code == 0 && !strings.HasSuffix(out, "0 tasks\n") {
			t.Errorf("%s:\n%s", none, out)
		}
	}
}

// TestTaskRunMany: tasks of several nodes are shown by node, counted, and the exit status says that one failed.
func TestTaskRunMany(t *testing.T) {
	h := newTaskHouse(t)
	h.works("gpu-1", func(q wire.TaskPayload) (string, wire.TaskResult) {
		_, result := completes(q)
		return "one\ntwo", result
	})
	h.works("gpu-2", fails)
	code, stdout, stderr := h.muster("task", "run", "gpu-1", "gpu-2", "nowhere", "diag.collect", "--wait")
	if code != 1 {
		t.Errorf("code %d", code)
	}
	for _, line := range []string{"gpu-1: one\n", "gpu-1: two\n", "gpu-2: oh\n"} {
		if !strings.Contains(stdout, line) {
			t.Errorf("stdout lacks %q:\n%s", line, stdout)
		}
	}
	for _, part := range []string{"gpu-2: failed: the disk is full [exit 3]", "nowhere: ", "3 nodes: 1 completed, 1 failed, 1 refused\n"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("stderr lacks %q:\n%s", part, stderr)
		}
	}
	code, stdout, _ = h.muster("task", "run", "gpu-1", "gpu-2", "diag.collect", "--wait", "-o", "json")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != 1 || len(lines) != 2 || !json.Valid([]byte(lines[0])) || !json.Valid([]byte(lines[1])) {
		t.Errorf("code %d\n%s", code, stdout)
	}
	var made api.Task
	text := h.done("task", "run", "gpu-1", "diag.collect", "-o", "json")
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.Node != "gpu-1" {
		t.Errorf("without --wait: %v in %s", err, text)
	}
}

// TestTaskRunStops: after so many failures no further task begins, and never are more open than asked for.
func TestTaskRunStops(t *testing.T) {
	h := newTaskHouse(t)
	names := []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4"}
	for _, name := range names {
		h.works(name, fails)
	}
	code, _, stderr := h.muster(append(append([]string{"task", "run"}, names...), "diag.collect", "--at-most", "1", "--stop-after", "2")...)
	if code != 1 || !strings.Contains(stderr, "4 nodes: 2 failed, 2 not started\n") {
		t.Errorf("code %d\n%s", code, stderr)
	}
	if len(h.did("gpu-1")) != 1 || len(h.did("gpu-2")) != 1 || len(h.did("gpu-3"))+len(h.did("gpu-4")) != 0 {
		t.Error("other nodes worked than the first two")
	}
}

// TestTaskQueued: without --wait the command ends at once. What waits can be ended, and ^C leaves a task as it is.
func TestTaskQueued(t *testing.T) {
	h := newTaskHouse(t)
	h.works("gpu-1", nil)
	said := h.done("task", "run", "gpu-1", "diag.collect")
	var id string
	if _, err := fmt.Sscanf(said, "gpu-1: task %s queued", &id); err != nil {
		t.Fatalf("%s: %v", said, err)
	}
	if got := h.done("task", "cancel", id); got != id+": canceled\n" {
		t.Errorf("cancel: %s", got)
	}
	if code, _, stderr := h.muster("task", "cancel", id, "nonsense"); code != 1 || !strings.Contains(stderr, "nonsense") {
		t.Errorf("code %d: %s", code, stderr)
	}
	said = h.done("task", "run", "gpu-1", "diag.collect")
	now := time.Now()
	if err := h.store.NoteRestore(t.Context(), store.Restoration{At: now, BackupAt: now, AdoptUntil: now}); err != nil {
		t.Fatal(err)
	}
	lost := strings.Fields(said)[2]
	if list := h.done("task", "ls", "--lost"); !strings.Contains(list, lost) || !strings.HasSuffix(list, "1 task\n") {
		t.Errorf("lost:\n%s", list)
	}
	again := h.done("task", "retry", lost)
	if _, err := fmt.Sscanf(again, lost+": given again: task %s queued", &id); err != nil || h.done("task", "cancel", id) != id+": canceled\n" {
		t.Errorf("%s: %v", again, err)
	}
	if code, _, stderr := h.muster("task", "retry", lost); code != 1 || !strings.Contains(stderr, id) {
		t.Errorf("code %d: %s", code, stderr)
	}
	if _, list, _ := h.muster("task", "ls", "--lost"); !strings.HasSuffix(list, "0 tasks\n") {
		t.Errorf("lost:\n%s", list)
	}
	ctx, stop := context.WithCancel(t.Context())
	h.pause = func(context.Context) error { stop(); return ctx.Err() }
	time.AfterFunc(200*time.Millisecond, stop) // the command waits for a real answer of a real server
	code, _, stderr := h.run(ctx, "--data", h.dir, "task", "run", "gpu-1", "diag.collect", "--wait")
	if code == 0 || !strings.Contains(stderr, "1 task goes on") {
		t.Errorf("code %d: %s", code, stderr)
	}
	if open := h.done("task", "ls", "--open", "-o", "json"); strings.Count(open, `"status":"queued"`) != 1 {
		t.Errorf("open: %s", open)
	}
}

// TestTaskDownload: the file that a task made is whole, gets no folder of the node's choice, and replaces nothing.
func TestTaskDownload(t *testing.T) {
	h := newTaskHouse(t)
	h.works("gpu-1", func(q wire.TaskPayload) (string, wire.TaskResult) {
		_, result := completes(q)
		result.Archive = &wire.TaskFile{Name: "diag.tar.gz"}
		return "", result
	})
	code, _, stderr := h.muster("task", "run", "gpu-1", "diag.collect", "--wait")
	if code != 0 || !strings.Contains(stderr, "made diag.tar.gz") {
		t.Fatalf("code %d: %s", code, stderr)
	}
	id := h.ended[0].TaskID
	t.Chdir(t.TempDir())
	h.done("task", "download", id)
	if got, err := os.ReadFile("diag.tar.gz"); err != nil || string(got) != "archive of "+id {
		t.Errorf("%q, %v", got, err)
	}
	if code, _, stderr := h.muster("task", "download", id); code != 1 || !strings.Contains(stderr, "--force") {
		t.Errorf("code %d: %s", code, stderr)
	}
	h.done("task", "download", id, "--force")
	h.done("task", "download", id, "other")
	if got := h.done("task", "download", id, "-"); got != "archive of "+id {
		t.Errorf("%q", got)
	}
	if left, err := filepath.Glob(".muster-*"); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestTaskSignedByOperator: a task that is signed here is the one that is stored, and a key that nodes do not trust is refused.
func TestTaskSignedByOperator(t *testing.T) {
	h := newTaskHouse(t)
	h.works("gpu-1", completes)
	der, err := x509.MarshalPKCS8PrivateKey(h.key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "task.key")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := h.muster("task", "run", "gpu-1", "diag.collect", "--key", file, "--wait"); code != 0 {
		t.Errorf("code %d: %s", code, stderr)
	}
	if len(h.ended) != 1 || h.ended[0].Enrolment != "e-gpu-1" || h.ended[0].NodeID != "id-gpu-1" {
		t.Errorf("done: %+v", h.ended)
	}
	other := filepath.Join(t.TempDir(), "other.key")
	h.done("key", "generate", other)
	if code, _, stderr := h.muster("task", "run", "gpu-1", "diag.collect", "--key", other, "--wait"); code != 1 || len(h.ended) != 1 {
		t.Errorf("code %d: %s", code, stderr)
	}
}

// TestSecrets: a secret is set from a pipe, listed without its value, and dropped.
func TestSecrets(t *testing.T) {
	h := newTaskHouse(t)
	h.stdin = "s3cret-value\n"
	got := h.done("secret", "set", "hf-token", "--tenant", "platform")
	if strings.Contains(got, "s3cret") || !strings.Contains(got, "hf-token") {
		t.Errorf("set: %s", got)
	}
	if got := h.done("secret", "ls"); strings.Contains(got, "s3cret") || !strings.Contains(got, "hf-token  platform") {
		t.Errorf("ls: %s", got)
	}
	h.stdin = "\n"
	if code, _, stderr := h.muster("secret", "set", "x"); code != 2 || !strings.Contains(stderr, "empty") {
		t.Errorf("code %d: %s", code, stderr)
	}
	h.done("secret", "drop", "hf-token", "--tenant", "platform", "--yes")
	if got := h.done("secret", "ls"); strings.Contains(got, "hf-token") {
		t.Errorf("after drop: %s", got)
	}
}

// TestNodeReturnDied: a node that has just died still counts as online for a while. A return says that it waits, and for no longer than
// that; with --force the node is retired then.
func TestNodeReturnDied(t *testing.T) {
	h := newTaskHouse(t)
	h.still = false // to wait moves the clock
	h.heard("gpu-1", time.Second, nil)
	begun := h.now
	code, stdout, stderr := h.muster("node", "return", "gpu-1", "--yes")
	if code != 1 ||
		!strings.Contains(stdout, "gpu-1: has not taken workload.stop yet, and was heard 6s ago; waiting until it does") ||
		!strings.Contains(stdout, " counts as stale in 1m\n") ||
		strings.Count(stdout, "has not taken") < 3 || strings.Contains(stdout, "retired") ||
		!strings.Contains(stderr, "gpu-1: it is stale since workload.stop was asked for") || !strings.Contains(stderr, "--force") {
		t.Errorf("code %d\n%s\n%s", code, stdout, stderr)
	}
	if waited := h.now.Sub(begun); waited > 2*time.Minute {
		t.Errorf("it waited for %s", waited)
	}
	if err := h.beat("gpu-1", time.Second, ""); err != nil {
		t.Fatal(err)
	}
	begun = h.now
	code, stdout, stderr = h.muster("node", "return", "gpu-1", "--yes", "--force")
	if code != 0 || stderr != "  gpu-1: its machine stays\n" ||
		!strings.Contains(stdout, "gpu-1: retired, not cleaned: it is stale since workload.stop was asked for\n") ||
		h.now.Sub(begun) > 2*time.Minute {
		t.Errorf("by force: code %d after %s\n%s\n%s", code, h.now.Sub(begun), stdout, stderr)
	}
}

// TestNodeReturnStays: an agent that does not say that it leaves is perhaps still there. The node is kept, or retired by force.
func TestNodeReturnStays(t *testing.T) {
	h := newTaskHouse(t)
	h.stays = true
	h.works("gpu-1", completes)
	h.pause = func(context.Context) error {
		time.Sleep(time.Millisecond)
		if len(h.did("gpu-1")) > 2 { // time goes on once the node is done
			h.now = h.now.Add(time.Second)
		}
		return nil
	}
	code, stdout, stderr := h.muster("node", "return", "gpu-1", "--yes")
	if code != 1 || strings.Contains(stdout, "retired") || !strings.Contains(stdout, "gpu-1: waiting for its agent to say that it leaves") ||
		!strings.Contains(stderr, "muster-agent leave --force") || !strings.Contains(stderr, "muster node retire gpu-1") {
		t.Errorf("code %d\n%s\n%s", code, stdout, stderr)
	}
	code, stdout, _ = h.muster("node", "return", "gpu-1", "--yes", "--force")
	if code != 0 || !strings.Contains(stdout, "gpu-1: retired, not cleaned: ") {
		t.Errorf("by force: code %d\n%s", code, stdout)
	}
}

// TestNodeReturn: a node is drained, cleaned in order and retired. What cannot be cleaned stays and is said, and a second call goes on.
func TestNodeReturn(t *testing.T) {
	h := newTaskHouse(t)
	h.pause = func(context.Context) error { time.Sleep(time.Millisecond); return nil } // real nodes work meanwhile
	h.works("gpu-1", completes)
	var broken atomic.Bool
	broken.Store(true)
	h.works("gpu-2", func(q wire.TaskPayload) (string, wire.TaskResult) {
		if q.Type == wire.TaskDeprovisionUser && broken.Load() {
			return fails(q)
		}
		return completes(q)
	})
	h.heard("gpu-3", time.Hour, nil)
	if code, _, stderr := h.muster("node", "return", "gpu-1"); code != 2 || !strings.Contains(stderr, "--yes") {
		t.Errorf("without a yes: code %d: %s", code, stderr)
	}
	code, stdout, stderr := h.muster("node", "return", "gpu-1", "gpu-2", "gpu-3", "--yes")
	if code != 1 {
		t.Errorf("code %d", code)
	}
	steps := []string{wire.TaskWorkloadStop, wire.TaskDeprovisionUser, wire.TaskAgentUninstall}
	if got := h.did("gpu-1"); !slices.Equal(got, steps) {
		t.Errorf("gpu-1 did %v", got)
	}
	for _, part := range []string{"gpu-1: drained\n", "gpu-1: workloads stopped\n", "gpu-1: users removed\n", "gpu-1: agent removes itself\n",
		"gpu-1: retired\n", "still to be destroyed at the provider:\n  vast_ai 4711-gpu-1 (gpu-1)\n"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("stdout lacks %q:\n%s", part, stdout)
		}
	}
	for _, part := range []string{"gpu-2: deprovision_user: failed the disk is full", "gpu-3: it is stale", "--force"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("stderr lacks %q:\n%s", part, stderr)
		}
	}
	if strings.Contains(stdout, "gpu-2: retired") || strings.Contains(stdout, "gpu-3: retired") {
		t.Errorf("a node that was not cleaned is retired:\n%s", stdout)
	}
	broken.Store(false)
	code, stdout, stderr = h.muster("node", "return", "gpu-1", "gpu-2", "gpu-3", "--yes", "--force")
	if code != 0 || strings.Count(stdout, ": retired") != 2 || strings.Count(stderr, "\n") != 3 ||
		!strings.Contains(stdout, "gpu-3: retired, not cleaned: it is stale\n") ||
		!strings.Contains(stdout, "gpu-1: is retired already") ||
		strings.Count(stdout, "vast_ai") != 3 {
		t.Errorf("code %d\n%s\n%s", code, stdout, stderr)
	}
}
