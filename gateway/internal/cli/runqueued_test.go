package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
)

// TestRunQueued: a program that waits for its node is listed, its log says so, and it is taken back by its name.
func TestRunQueued(t *testing.T) {
	h := newRunHouse(t, "gpu-1")
	h.heard("away", 5*time.Minute, nil)
	code, stdout, stderr := h.muster("run", "away", "--name", "train", "--", "/opt/bin/python", "train.py")
	if code != 0 || !strings.Contains(stdout, "away: train is queued") || !strings.Contains(stderr, "away was last heard 5m ago") {
		t.Fatalf("code %d, %q\n%s", code, stdout, stderr)
	}
	for _, args := range []string{"run ls", "run ls away", "run ls -l name=away"} {
		if list := h.done(strings.Fields(args)...); !strings.Contains(list, "train  away  queued") || !strings.Contains(list, " python ") {
			t.Errorf("%s:\n%s", args, list)
		}
	}
	if out := h.done("run", "show", "train"); !strings.Contains(out, "state      queued\n") || !strings.Contains(out, "program    python\n") {
		t.Errorf("show:\n%s", out)
	}
	var shown struct {
		Runs []struct{ Node, State, Status string }
	}
	if err := json.Unmarshal([]byte(h.done("run", "ls", "-o", "json")), &shown); err != nil || len(shown.Runs) != 1 ||
		shown.Runs[0].State != "queued" {
		t.Errorf("%+v, %v", shown, err)
	}
	if list := h.done("run", "ls", "gpu-1"); !strings.Contains(list, "0 programs") {
		t.Errorf("of another node:\n%s", list)
	}
	if code, _, stderr := h.muster("run", "logs", "train"); code != 0 || !strings.Contains(stderr, "away: train is queued") {
		t.Errorf("logs: code %d\n%s", code, stderr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := 0
	h.pause = func(ctx context.Context) error {
		if waits++; waits == 3 {
			cancel()
		}
		return ctx.Err()
	}
	if code, _, stderr := h.run(ctx, "--data", h.dir, "run", "logs", "-f", "train"); code != 0 || waits < 3 ||
		!strings.Contains(stderr, "away was last heard 5m ago: the program begins when it is heard again") {
		t.Errorf("follow: code %d after %d\n%s", code, waits, stderr)
	}
	if got := h.done("run", "stop", "train"); got != "away: train had not begun, and is taken back\n" {
		t.Errorf("stop: %q", got)
	}
	if list := h.done("run", "ls"); !strings.Contains(list, "0 programs") {
		t.Errorf("after that:\n%s", list)
	}
	if got := h.done("run", "stop", "train"); !strings.Contains(got, "nothing to stop: ") {
		t.Errorf("stop again: %q", got)
	}
	if code, _, stderr := h.muster("run", "stop", "train", "gpu-1"); code != 1 || !strings.Contains(stderr, `no node has a program "train"`) {
		t.Errorf("stop on a node that never had it: code %d\n%s", code, stderr)
	}
	if code, _, stderr := h.muster("run", "logs", "train"); code != 1 || !strings.Contains(stderr, "its task on away is canceled") {
		t.Errorf("logs of what was not begun: code %d\n%s", code, stderr)
	}
}

// TestRunInterrupted: who leaves is told what goes on, and how to end it.
func TestRunInterrupted(t *testing.T) {
	h := newRunHouse(t)
	h.heard("away", 40*time.Second, nil)
	end := func(args ...string) string {
		ctx, cancel := context.WithCancel(t.Context())
		h.still = false
		waits := 0
		h.pause = func(ctx context.Context) error {
			if waits++; waits == 20 {
				cancel()
			}
			return ctx.Err()
		}
		code, _, stderr := h.run(ctx, append([]string{"--data", h.dir}, args...)...)
		if code == 0 {
			t.Errorf("%q: code 0", args)
		}
		return stderr
	}
	if said := end("run", "away", "--name", "vi", "--wait", "--", "vi"); !strings.Contains(said, "vi is still queued.\n") {
		t.Errorf("wait:\n%s", said)
	}
	if err := h.beat("away", 40*time.Second, `{"gpus":[],"runs":[{"name":"train","task":"t","state":"running",
		"started_at":"2026-11-21T09:00:00Z"}]}`); err != nil {
		t.Fatal(err)
	}
	said := end("run", "stop", "train", "away")
	if !strings.Contains(said, "away: was last heard") || !strings.Contains(said, "^C leaves the stop queued") ||
		!strings.Contains(said, "the stop of train stays queued") || !strings.Contains(said, "task cancel ") {
		t.Errorf("stop:\n%s", said)
	}
	if n := len(h.did("away")); n != 0 || wire.TaskQueued == "" {
		t.Errorf("%d tasks were done", n)
	}
}

// TestTellWait: who waits for a node that does not answer is told when it was last heard.
func TestTellWait(t *testing.T) {
	for args, says := range map[string]string{
		"node logs gpu-1":    "waiting for gpu-1, which was last heard 1s ago; ^C gives up",
		"node logs away":     "waiting for away, which was last heard 50s ago; ^C gives up",
		"node logs -f away":  "waiting for away, which was last heard 50s ago; ^C gives up",
		"run logs train":     "waiting for away, which was last heard 50s ago; ^C gives up",
		"node logs -f gpu-1": "",
	} {
		h := newRunHouse(t)
		h.heard("gpu-1", time.Second, nil)
		h.heard("away", 50*time.Second, nil)
		if err := h.beat("away", 50*time.Second, `{"gpus":[],"runs":[{"name":"train","task":"t","state":"running",
			"started_at":"2026-11-21T09:00:00Z"}]}`); err != nil {
			t.Fatal(err)
		}
		h.journal.lines["agent"] = []wire.LogLine{{Time: h.now, Message: "begun"}}
		h.journal.lines[wire.LogWorkload+"train"] = h.journal.lines["agent"]
		stopped := 0
		h.after = func(_ time.Duration, do func()) func() {
			do()
			return func() { stopped++ }
		}
		_, _, stderr := h.muster(strings.Fields(args)...)
		if strings.Contains(stderr, "waiting for") != (says != "") || !strings.Contains(stderr, says) || stopped == 0 {
			t.Errorf("%s: %d times stopped\n%s", args, stopped, stderr)
		}
	}
}
