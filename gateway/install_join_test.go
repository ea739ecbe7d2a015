package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"muster/gateway/internal/kit/lab"
)

// newUserBox is a box of nobody's own: what runs there cannot touch the machine.
func newUserBox(t *testing.T) *box {
	t.Helper()
	if os.Geteuid() != 0 {
		lab.Lacking(t, "not run: only root can run it as another user")
	}
	b := newBox(t)
	dir, err := os.MkdirTemp("", "muster-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b.home = filepath.Join(dir, "home")
	b.records = filepath.Join(dir, "records")
	for _, path := range []string{dir, b.home, b.records, filepath.Join(b.home, ".local")} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	b.state = filepath.Join(b.home, ".local", "state", "muster-agent")
	b.bin = os.Getenv("PATH")
	b.user = &syscall.Credential{Uid: 65534, Gid: 65534}
	return b
}

// TestInstallAsUser: a user's agent is looked for and put where join puts it, and nothing needs root.
func TestInstallAsUser(t *testing.T) {
	t.Parallel()
	b := newUserBox(t)
	if code, out := b.script(dash, agentsHouse(t, recorder(t)).served()); code != 0 {
		t.Fatalf("exit %d\n%s", code, out)
	}
	b.joined("")
	if path := b.record("path"); !strings.HasPrefix(path, b.home+"/.local/.muster-install.") {
		t.Errorf("ran as %s", path)
	}
}

// TestInstallJoins pastes the command with the real agent: the node is online when it ends, the same again changes
// nothing, and leaving leaves nothing.
func TestInstallJoins(t *testing.T) {
	t.Parallel()
	b := newUserBox(t)
	h := agentsHouse(t, realAgents(t))
	command, token := h.command()
	b.env = append(b.env, "MUSTER_NAME=pasted", "MUSTER_NO_GPU=true", "MUSTER_INTERVAL=200ms")
	program := filepath.Join(b.state, "current", "muster-agent")
	t.Cleanup(func() {
		if _, err := os.Stat(program); err == nil {
			b.do("", program, "leave", "--force")
		}
	})
	code, out := b.do("", "sh", "-c", command)
	if code != 0 || !strings.Contains(out, "[5/5]") {
		t.Fatalf("exit %d\n%s", code, out)
	}
	if !h.online("pasted") {
		t.Errorf("the command has ended, and the node is not online:\n%s", out)
	}
	b.clean(token)
	code, out = b.do("", "sh", "-c", command)
	if code != 0 || !strings.Contains(out, "here already") || !strings.Contains(out, "nothing to do") {
		t.Errorf("the same again: exit %d\n%s", code, out)
	}
	if code, out := b.do("", program, "leave"); code != 0 {
		t.Errorf("leave: exit %d\n%s", code, out)
	}
	left, err := filepath.Glob(filepath.Join(b.home, "*", "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestInstallJoinFails: a token that is none ends the command with the reason, a failure, and nothing left.
func TestInstallJoinFails(t *testing.T) {
	t.Parallel()
	b := newUserBox(t)
	command, token := agentsHouse(t, realAgents(t)).command()
	code, out := b.do("", "sh", "-c", strings.Replace(command, token, token[:len(token)-1]+"_", 1))
	if code == 0 || !strings.Contains(out, "muster-agent: ") {
		t.Errorf("exit %d\n%s", code, out)
	}
	b.clean(token)
}

// realAgents is a folder of agents with this machine's real one.
func realAgents(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	platform := filepath.Join(dir, "linux-"+runtime.GOARCH)
	if err := os.Mkdir(platform, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", agentBinary(t), filepath.Join(platform, "muster-agent")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}
