//go:build real

package lab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// GatewayName is the gateway's host name on boxes. It is an address of their loopback.
const GatewayName = "gw.lab"

// bareShell is the first process of a box without an init system. It only waits for orphaned processes to end, as the entry point of
// many images does.
const bareShell = ": >/run/up; trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done"

// longest is how long a script on a box may run. It is more than the time after which join gives up by itself.
const longest = 2 * time.Minute

// rebooted is nspawn's exit status when its machine wants to start again.
const rebooted = 133

// Box is one machine: a copy of a root, and what runs on it.
type Box struct {
	lab    *Lab
	root   Root
	name   string
	dir    string // its file system, in the lab's mounts
	group  string
	nspawn *Process
	leader int // its first process, by this machine's numbers
}

// Box makes a machine with a copy of that root. It is not started yet.
func (l *Lab) Box(root Root) *Box {
	l.T.Helper()
	l.boxes++
	b := &Box{lab: l, root: root, name: fmt.Sprintf("box%d", l.boxes)}
	b.group = fmt.Sprintf("%s-%s", filepath.Base(l.Dir), b.name)
	base := filepath.Join(l.Dir, b.name)
	b.dir = filepath.Join(base, "root")
	for _, dir := range []string{"root", "upper", "work"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			l.T.Fatal(err)
		}
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", root.path(l), filepath.Join(base, "upper"), filepath.Join(base, "work"))
	l.Run("mount", "-t", "overlay", "muster-lab", "-o", layers, b.dir)
	b.Write("/etc/hosts", "127.0.0.1 localhost "+GatewayName+"\n", 0o644)
	b.Write("/etc/hostname", b.name+"\n", 0o644)
	return b
}

// Path is where this process finds a file of the box.
func (b *Box) Path(path string) string { return b.lab.Seen(filepath.Join(b.dir, path)) }

// Write puts a file into the box.
func (b *Box) Write(path, text string, mode os.FileMode) {
	b.lab.T.Helper()
	err := os.MkdirAll(filepath.Dir(b.Path(path)), 0o755)
	if err == nil {
		err = writeFile(b.Path(path), []byte(text), mode)
	}
	if err != nil {
		b.lab.T.Fatal(err)
	}
}

// writeFile writes a file that may be a program. A child that another goroutine starts meanwhile would hold the file open for a moment, and
// nothing can start a program that somebody writes.
func writeFile(path string, content []byte, mode os.FileMode) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, content, mode)
}

// Link is where a symbolic link of the box points, also while the box is off.
func (b *Box) Link(path string) (string, error) { return os.Readlink(b.Path(path)) }

// Install copies a program of this machine into the box.
func (b *Box) Install(program, path string) {
	b.lab.T.Helper()
	content, err := os.ReadFile(program)
	if err != nil {
		b.lab.T.Fatal(err)
	}
	b.Write(path, string(content), 0o755)
}

// Boot starts the box and waits until it is up.
func (b *Box) Boot() {
	b.lab.T.Helper()
	b.Start()
	b.Await()
}

// Await waits until a box that was started is up.
func (b *Box) Await() {
	b.lab.T.Helper()
	up := "test -e /run/up"
	if b.root.systemd {
		up = "case $(systemctl is-system-running 2>/dev/null) in running | degraded) ;; *) exit 1 ;; esac"
	}
	b.lab.Until(b.name+" is up", func() bool {
		if b.nspawn.Ended() {
			b.lab.T.Fatalf("%s did not start:\n%s", b.name, b.nspawn.Text())
		}
		if b.leader = child(child(b.nspawn.PID())); !first(b.leader) {
			return false
		}
		_, err := b.Try("root", up)
		return err == nil
	})
}

// Start runs the machine in its own control group and process namespace, so that all of it ends with this one process.
func (b *Box) Start() {
	b.lab.T.Helper()
	args := []string{"sh", "-c", joinGroup, b.group, "unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc",
		"systemd-nspawn", "--quiet", "--directory", b.dir, "--machine", b.name, "--register=no", "--keep-unit", "--console=pipe",
		"--network-namespace-path=/proc/self/ns/net", "--resolv-conf=off", "--timezone=off", "--link-journal=no"}
	if b.root.nests {
		args = append(args, "--system-call-filter=bpf @keyring")
	}
	if b.root.systemd {
		args = append(args, "--boot")
	} else {
		args = append(args, "/bin/sh", "-c", bareShell)
	}
	c := b.lab.Command(args...)
	if b.root.nests { // version 2 of control groups alone, which the runtimes of containers want, and its devices by bpf
		c.Env = append(c.Env, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	}
	b.nspawn = b.lab.Start(b.name, c)
	b.lab.T.Cleanup(func() {
		b.nspawn.Kill()
		b.lab.Until(b.name+" leaves its control group", func() bool { return leaveGroup(b.group) })
	})
}

// Reboot restarts the box: systemd's own reboot, or the end of the first process and a new one.
func (b *Box) Reboot() {
	b.lab.T.Helper()
	if !b.root.systemd {
		b.PowerCut()
		b.Boot()
		return
	}
	b.Sh("systemctl reboot")
	b.Restarted(longest)
}

// Restarted waits until the box restarts by itself, and is up again.
func (b *Box) Restarted(limit time.Duration) {
	b.lab.T.Helper()
	b.lab.Within(limit, b.name+" goes down", b.nspawn.Ended)
	if code := b.nspawn.cmd.ProcessState.ExitCode(); code != rebooted {
		b.lab.T.Fatalf("%s ended with %d instead of rebooting", b.name, code)
	}
	b.Boot()
}

// PowerCut ends everything in the box at once.
func (b *Box) PowerCut() {
	b.lab.T.Helper()
	leader := b.leader
	b.nspawn.Kill()
	b.lab.Until(b.name+" is off", func() bool { return syscall.Kill(leader, 0) != nil })
}

// Command is a login of a user on the box, with a session of its own, that runs the shell script on its standard input.
func (b *Box) Command(user, script string) *exec.Cmd {
	enter := []string{"--target", fmt.Sprint(b.leader), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"}
	login := []string{"--", "env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=dumb"}
	if user == "root" {
		login = append(login, "HOME=/root", "USER=root", "setsid", "sh", "-c", "cd; exec sh -s")
	} else {
		login = append(login, "runuser", "--login", user, "--command", "exec sh -s")
	}
	c := exec.Command("nsenter", append(enter, login...)...)
	c.Env = CleanEnv()
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Stdin = strings.NewReader(script + "\n")
	c.WaitDelay = 5 * time.Second // what it left behind may hold its streams
	return c
}

// Try runs a script as that user and gives both its streams. A script that hangs is an error.
func (b *Box) Try(user, script string) (string, error) {
	c := b.Command(user, script)
	var out bytes.Buffer
	c.Stdout = &out
	c.Stderr = &out
	if err := c.Start(); err != nil {
		return "", err
	}
	hung := time.AfterFunc(longest, func() { _ = c.Process.Kill() })
	err := c.Wait()
	if !hung.Stop() {
		err = fmt.Errorf("still running after %s: %w", longest, err)
	}
	return out.String(), err
}

// Sh runs a script as root and gives what it printed, without blanks around. A failure of the script ends the test.
func (b *Box) Sh(script string) string {
	b.lab.T.Helper()
	out, err := b.Try("root", script)
	if err != nil {
		b.lab.T.Fatalf("%s: %s: %v\n%s", b.name, script, err, tail(out))
	}
	return strings.TrimSpace(out)
}

// first tells whether a process is number 1 of its namespace. Before that one runs, nspawn's helpers do.
func first(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, numbers, _ := strings.Cut(string(text), "\nNSpid:")
	numbers, _, _ = strings.Cut(numbers, "\n")
	return strings.HasSuffix(numbers, "\t1")
}

// child is a process's only child, 0 while it has none.
func child(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 0 {
		var n int
		if _, err := fmt.Sscan(fields[0], &n); err == nil {
			return n
		}
	}
	return 0
}
