package remote_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/cli/remote/standin"
)

// block is what ssh-config prints for a node.
func block(name, proxy string, more ...string) string {
	return fmt.Sprintf("Host %s\n    HostKeyAlias %s\n%s    ProxyCommand %s node proxy %%h %%p\n    ServerAliveInterval 60\n",
		name, standin.NodeID(name), strings.Join(more, ""), proxy)
}

// blocks leaves out the lines at the top that are for people.
func blocks(t *testing.T, printed string) string {
	t.Helper()
	head, rest, found := strings.Cut(printed, "Host ")
	for line := range strings.Lines(head) {
		found = found && strings.HasPrefix(line, "# ")
	}
	if !found || !strings.Contains(head, "muster ssh NODE") {
		t.Errorf("%s", printed)
	}
	return "Host " + rest
}

func TestSSHConfig(t *testing.T) {
	h := newTunnels(t, nil)
	h.gateway.Labels = map[string]map[string]string{
		"gpu-2": {api.LabelSSHUser: "ada", api.LabelSSHPort: "2222"},
		"gpu-3": {api.LabelSSHUser: "ada\n    ProxyCommand id", api.LabelSSHPort: "22 ", "tier": "%h"}, // of an older gateway
	}
	way := "muster --data " + h.dir
	want := block("gpu-1", way) + block("gpu-2", way, "    User ada\n", "    Port 2222\n") + block("gpu-3", way)
	if got := blocks(t, h.done("ssh-config")); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got := blocks(t, h.done("ssh-config", "gpu-7")); got != block("gpu-7", way) {
		t.Errorf("%s", got)
	}
	h.env = map[string]string{"MUSTER_DATA": h.dir} // ssh may run where it is not set
	if got := blocks(t, h.done("ssh-config")); got != want {
		t.Errorf("with the variable: %s, not %s", got, want)
	}
	h.env = nil
	for _, name := range []string{"gpu-1\n ProxyCommand x", "*", "a b", "-x", "a%h", `a"b`} {
		h.fails(2, "is not a node's name", "ssh-config", "--", name)
	}
	h.fails(2, "either named or selected", "ssh-config", "gpu-1", "-l", "tier=spot")
}

// TestSSHConfigElsewhere: a node does not take the place of another host, unless it is named.
func TestSSHConfigElsewhere(t *testing.T) {
	h := newTunnels(t, nil)
	h.gateway.Names = "gpu-1 github.com LocalHost gpu-2"
	way := "muster --data " + h.dir
	left := func(name string) string {
		return "# " + name + " is left out, because another host can have that name. To print it: muster ssh-config " + name + "\n"
	}
	want := block("gpu-1", way) + left("github.com") + left("LocalHost") + block("gpu-2", way)
	if got := blocks(t, h.done("ssh-config")); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got := blocks(t, h.done("ssh-config", "-l", "tier=spot")); got != want {
		t.Errorf("selected: %s, not %s", got, want)
	}
	if got := blocks(t, h.done("ssh-config", "github.com", "LocalHost")); got != block("github.com", way)+block("LocalHost", way) {
		t.Errorf("named: %s", got)
	}
}

// TestSSHConfigWay: what ssh gives to a shell and reads by itself is quoted for both, and what cannot be quoted is refused.
func TestSSHConfigWay(t *testing.T) {
	h := newTunnels(t, nil)
	odd := h.dir + " 100%h'$(id)"
	if err := os.Rename(h.dir, odd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(odd) })
	h.dir = odd
	printed := h.done("ssh-config", "gpu-1")
	if !strings.Contains(printed, "100%%h") || strings.Count(printed, "Host ") != 1 {
		t.Errorf("%s", printed)
	}
	lines := h.dir + "\nx"
	if err := os.Rename(h.dir, lines); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(lines) })
	h.dir = lines
	h.fails(2, "has a line feed in it", "ssh-config", "gpu-1")
}

// TestSSHConfigRead: ssh itself reads the lines as they are meant.
func TestSSHConfigRead(t *testing.T) {
	if _, err := exec.LookPath("ssh"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("ssh is not installed")
		}
		t.Skip("not tried: ssh is not installed here")
	}
	h := newTunnels(t, nil)
	h.gateway.Labels = map[string]map[string]string{"gpu-2": {api.LabelSSHUser: "ada@corp.example", api.LabelSSHPort: "2222"}}
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(h.done("ssh-config")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"gpu-1": {"port 22", "hostkeyalias " + standin.NodeID("gpu-1")},
		"gpu-2": {"user ada@corp.example", "port 2222", "hostkeyalias " + standin.NodeID("gpu-2"),
			"proxycommand muster --data " + h.dir + " node proxy %h %p", "serveraliveinterval 60"},
		"elsewhere": {"port 22", "serveraliveinterval 0"},
	} {
		out, err := exec.Command("ssh", "-G", "-F", file, name).CombinedOutput()
		for _, line := range want {
			if err != nil || !strings.Contains("\n"+string(out), "\n"+line+"\n") {
				t.Errorf("%s: %q is not there, %v\n%s", name, line, err, out)
			}
		}
	}
}
