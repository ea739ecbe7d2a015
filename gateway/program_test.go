package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgram: a program outlives its agent, which is killed beside it, and the next agent tells how it ended. Its secret is in no file of
// the gateway or of the node. The command that waits for it ends with its exit code.
func TestProgram(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	pace := []string{"--no-gpu", "--interval", "2s"} // a node that is to report five times a second counts as stale while it waits for work
	agent := h.agent("desk", h.token(), pace...)
	h.until("online", func() bool { return h.online("desk") })
	const secret = "hunter2-Zq8"
	file := filepath.Join(t.TempDir(), "secret")
	gate := filepath.Join(t.TempDir(), "gate")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	h.muster("secret", "set", "token", "--file", file)
	h.muster("run", "desk", "--name", "train", "--env-secret", "T=token", "--", "sh", "-c",
		`echo "begun with $T"; while [ ! -e `+gate+` ]; do sleep 0.1; done; echo over; exit 3`)
	if list := h.muster("node", "ls"); !strings.Contains(list, "train on desk") {
		t.Errorf("node ls:\n%s", list)
	}
	agent.kill()
	h.agent("desk", "", pace...)
	h.until("online again", func() bool { return h.online("desk") })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.until("it has ended", func() bool { return strings.Contains(h.muster("run", "ls"), "exited  3") })
	h.until("its output is there", func() bool { // the node of a busy machine may be stale for a moment
		_, stdout, _ := h.try("run", "logs", "train")
		return stdout == "begun with [secret]\nover\n"
	})
	code, stdout, stderr := h.try("run", "desk", "--name", "again", "--wait", "--", "sh", "-c", "echo out; sleep 4; echo err >&2; exit 9")
	if code != 9 || stdout != "out\nerr\n" {
		t.Errorf("code %d, %q\n%s", code, stdout, stderr)
	}
	h.muster("run", "stop", "train")
	h.muster("run", "stop", "again")
	if list := h.muster("run", "ls"); !strings.Contains(list, "0 programs") {
		t.Errorf("run ls:\n%s", list)
	}
	err := filepath.WalkDir(h.data, func(path string, _ os.DirEntry, err error) error {
		if raw, _ := os.ReadFile(path); bytes.Contains(raw, []byte(secret)) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
