package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"muster/agent/internal/host"
)

const containerID = "3f1c2a900000000000000000000000000000000000000000000000000000beef"

func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestCgroups: where each engine puts its containers, and who began what is below a user's part of the tree.
func TestCgroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, container, login string }{
		"docker": {"0::/system.slice/docker-" + containerID + ".scope\n", "3f1c2a900000", "-1"},
		"docker, v1": {"13:name=systemd:/docker/" + containerID + "\n4:memory:/docker/" + containerID + "\n0::/\n",
			"3f1c2a900000", "-1"},
		"podman":      {"0::/machine.slice/libpod-" + containerID + ".scope/container", "3f1c2a900000", "-1"},
		"its monitor": {"0::/machine.slice/libpod-conmon-" + containerID + ".scope", "", "-1"},
		"podman without root": {"0::/user.slice/user-1001.slice/user@1001.service/user.slice/libpod-" + containerID + ".scope",
			"3f1c2a900000", "1001"},
		"podman, cgroupfs": {"0::/libpod_parent/libpod-" + containerID, "3f1c2a900000", "-1"},
		"kubernetes": {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod7e1f0a52_9d3c.slice/cri-containerd-" +
			containerID + ".scope", "3f1c2a900000", "-1"},
		"kubernetes, v1": {"2:devices:/kubepods/burstable/pod7e1f0a52-9d3c-4b6e-8f21-aa0/" + containerID, "3f1c2a900000", "-1"},
		"kubernetes with a colon": {"2:devices:/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:" + containerID,
			"3f1c2a900000", "-1"},
		"cri-o":           {"0::/kubepods.slice/kubepods-pod1.slice/crio-" + containerID + ".scope", "3f1c2a900000", "-1"},
		"its monitor too": {"0::/kubepods.slice/kubepods-pod1.slice/crio-conmon-" + containerID + ".scope", "", "-1"},
		"containerd":      {"0::/default/" + containerID, "3f1c2a900000", "-1"},
		"one in another": {"0::/system.slice/docker-" + strings.Repeat("a", 64) + ".scope/docker/" + containerID,
			"3f1c2a900000", "-1"},
		"lxc":                       {"0::/lxc.payload.train-7/system.slice/ssh.service", "train-7", "-1"},
		"lxc, v1":                   {"4:memory:/lxc/101/ns/init.scope", "101", "-1"},
		"lxc's monitor":             {"0::/lxc.monitor.train-7", "", "-1"},
		"slurm":                     {"0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", "", "-1"},
		"a login":                   {"0::/user.slice/user-1001.slice/session-3.scope", "", "1001"},
		"a login, v1":               {"1:name=systemd:/user.slice/user-1001.slice/session-3.scope\n", "", "1001"},
		"another user's name below": {"0::/user.slice/user-1001.slice/user@1001.service/user-1002.slice/a.scope", "", "1001"},
		"a service of that name":    {"0::/system.slice/user-1002.slice/a.scope", "", "-1"},
		"a user that is none":       {"0::/user.slice/user-4294967296.slice/a", "", "-1"},
		"a service":                 {"0::/system.slice/muster-agent.service", "", "-1"},
		"too short an id":           {"0::/docker/3f1c2a90", "", "-1"},
		"no id":                     {"0::/docker/" + strings.Repeat("g", 64), "", "-1"},
		"nothing":                   {"", "", "-1"},
		"no such file":              {"docker\n::\n", "", "-1"},
	} {
		container, login := host.ParseCgroups(c.text)
		if container != c.container || strconv.Itoa(login) != c.login {
			t.Errorf("%s: got %q, %d, want %q, %s", name, container, login, c.container, c.login)
		}
	}
}

// TestSee: what the files of a process say, and nothing for one that is gone or hidden.
func TestSee(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, "etc/passwd", "root:x:0:0::/root:/bin/sh\nada:x:1001:1001::/home/ada:/bin/sh\n")
	status := func(uid int) string { return fmt.Sprintf("Name:\tx\nUid:\t%d\t%d\t0\t0\n", uid, uid) }
	put(t, root, "proc/10/comm", "python3\n")
	put(t, root, "proc/10/status", status(1001))
	put(t, root, "proc/10/cgroup", "0::/system.slice/docker-"+containerID+".scope\n")
	put(t, root, "proc/10/cmdline", "python3\x00--password=hunter2")
	put(t, root, "proc/10/environ", "PASSWORD=hunter2")
	put(t, root, "proc/11/comm", "a\x1b[2J"+strings.Repeat("b", 100)+"\n")
	put(t, root, "proc/11/status", status(100_999))
	put(t, root, "proc/12/comm", "hidden\n")
	put(t, root, "proc/13/status", "Uid:\t-1\nUid:\n")
	for pid, want := range map[int]host.Seen{
		10: {UID: 1001, User: "ada", Program: "python3", Container: "3f1c2a900000", Login: -1},
		11: {UID: 100_999, User: "100999", Program: "a[2J" + strings.Repeat("b", 57) + "...", Login: -1},
		12: {UID: -1, Program: "hidden", Login: -1},
		13: {UID: -1, Login: -1},
		14: {UID: -1, Login: -1},
	} {
		if got := host.Tree(root).See(pid); got != want {
			t.Errorf("%d: got %+v, want %+v", pid, got, want)
		}
	}
}

// TestGPUFiles: the files of GPUs that a process has open, each once.
func TestGPUFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, "proc/10/fd/.keep", "")
	for i, to := range []string{"/dev/null", "/dev/nvidia1", "/dev/nvidia1", "/dev/nvidiactl", "/dev/dri/renderD128", "/dev/nvidia",
		"socket:[7]"} {
		if err := os.Symlink(to, filepath.Join(root, "proc/10/fd", strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := host.Tree(root).GPUFiles(10); !slices.Equal(got, []string{"nvidia1", "dri/renderD128"}) || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := host.Tree(root).GPUFiles(11); len(got) != 0 || err == nil {
		t.Errorf("of a process that is gone: got %v, %v", got, err)
	}
}

func FuzzParseCgroups(f *testing.F) {
	f.Add("0::/system.slice/docker-" + containerID + ".scope\n")
	f.Add("4:memory:/lxc/\x1b/ns\n0::/user.slice/user-1001.slice/lxc.payload." + strings.Repeat("é", 99))
	f.Add("::::/docker/" + containerID)
	f.Fuzz(func(t *testing.T, text string) {
		container, login := host.ParseCgroups(text)
		if len(container) > 64 || !utf8.ValidString(container) || strings.ContainsAny(container, "\n\x1b") || login < -1 {
			t.Errorf("%q, %d", container, login)
		}
	})
}
