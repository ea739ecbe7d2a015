//go:build real

package lab

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long Until waits. A test that needs another deadline uses Within.
const patience = 60 * time.Second

// tools are the programs that a lab runs on this machine.
var tools = [...]string{"mmdebstrap", "systemd-nspawn", "unshare", "nsenter", "ip", "mount"}

// Lab is one test's corner of this machine: a directory, a network namespace with loopback alone, and a mount namespace.
type Lab struct {
	T   testing.TB
	Dir string // removed at the end of the test

	holder *exec.Cmd // its life keeps the namespaces
	boxes  int
}

// New opens a lab. If this machine cannot have one the test is skipped with the reason, or fails when CI is set.
func New(t testing.TB) *Lab {
	t.Helper()
	if missing := missing(); missing != "" {
		Lacking(t, missing)
	}
	dir, err := os.MkdirTemp("", "muster-lab-") // t.TempDir's path can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := &Lab{T: t, Dir: dir}
	l.hold()
	return l
}

func missing() string {
	if os.Geteuid() != 0 {
		return "not run: real machines need root; run make test-real as root on a Debian machine"
	}
	var absent []string
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			absent = append(absent, tool)
		}
	}
	if absent == nil {
		return ""
	}
	return "not run: this machine lacks " + strings.Join(absent, ", ") + "; make test-real as root installs them"
}

// hold starts the process whose namespaces are the lab's.
func (l *Lab) hold() {
	l.T.Helper()
	l.holder = exec.Command("unshare", "--net", "--mount", "--propagation", "private", "sh", "-ec",
		"ip link set lo up; echo up; exec sleep infinity")
	l.holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := l.holder.StdoutPipe()
	if err == nil {
		err = l.holder.Start()
	}
	if err != nil {
		l.T.Fatal(err)
	}
	l.T.Cleanup(func() {
		_ = l.holder.Process.Kill()
		_ = l.holder.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		l.T.Fatalf("no network namespace: %v", err)
	}
}

// Command is a program in the lab's network and mounts. It gets no variable that configures muster or a proxy.
func (l *Lab) Command(args ...string) *exec.Cmd {
	enter := []string{"--target", fmt.Sprint(l.holder.Process.Pid), "--net", "--mount", "--"}
	c := exec.Command("nsenter", append(enter, args...)...)
	c.Env = CleanEnv()
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// Run runs a program in the lab to its end and gives both its streams; its failure ends the test.
func (l *Lab) Run(args ...string) string {
	l.T.Helper()
	out, err := l.Command(args...).CombinedOutput()
	if err != nil {
		l.T.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Seen is where this process finds a path of the lab's mount namespace.
func (l *Lab) Seen(path string) string {
	return filepath.Join("/proc", fmt.Sprint(l.holder.Process.Pid), "root", path)
}

// Until waits for a condition on other processes. It asks again and again, as nothing tells when the condition comes true.
func (l *Lab) Until(what string, ok func() bool) {
	l.T.Helper()
	l.Within(patience, what, ok)
}

// Within is Until with a deadline. It gives the time that passed.
func (l *Lab) Within(limit time.Duration, what string, ok func() bool) time.Duration {
	l.T.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > limit {
			l.T.Fatalf("not so after %s: %s", limit, what)
		}
		<-time.After(20 * time.Millisecond)
	}
	return time.Since(start)
}

// CleanEnv is this process's environment without what would configure muster or a proxy.
func CleanEnv() []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "MUSTER_") && !strings.HasSuffix(strings.ToLower(name), "_proxy") {
			env = append(env, entry)
		}
	}
	return env
}

// Tool is Program for a test. If the program cannot be built the test is skipped with the reason, or fails when CI is set.
func (l *Lab) Tool(program, version string) string {
	l.T.Helper()
	file, err := Program(program, version)
	if err != nil {
		Lacking(l.T, fmt.Sprintf("not run: %s@%s cannot be built: %v", program, version, err))
	}
	return file
}
