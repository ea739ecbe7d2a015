package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/internal/service"
)

// supervised is a box without an init system whose joining succeeded.
func supervised(t *testing.T) *box {
	t.Helper()
	b := newBox(t)
	if out := b.joined(); !strings.Contains(out, "[4/5] no init system here: built-in supervisor started\n"+
		"      note: After a reboot the agent will not start. ") {
		t.Errorf("%s", out)
	}
	b.online()
	return b
}

func (b *box) supervisor() int {
	b.t.Helper()
	pid, running := service.Supervisor(b.base)
	if !running || pid == 0 {
		b.t.Fatalf("no supervisor: %d, %v", pid, running)
	}
	return pid
}

// hook runs the command that starts the supervisor at boot, in a shell that ends at once.
func (b *box) hook() string {
	b.t.Helper()
	line := b.base + "/good/muster-agent supervise --state " + b.base + " --settings /etc/muster/agent.env"
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestSupervisorBringsTheAgentBack(t *testing.T) {
	t.Parallel()
	b := supervised(t)
	run := b.lastBeat().RunID
	pid := b.manager().Agent()
	kill(t, pid)
	b.until("another agent", func() bool { now := b.manager().Agent(); return now != 0 && now != pid })
	b.until("a heartbeat of another run", func() bool { return b.lastBeat().RunID != run })
	if log := b.read("base/supervisor.log"); !strings.Contains(log, "signal: killed") {
		t.Errorf("log %s", log)
	}
}

// TestCrashLoopIsSeen: a crash loop is seen at the gateway and on the machine.
func TestCrashLoopIsSeen(t *testing.T) {
	t.Parallel()
	b := supervised(t)
	for range 3 {
		pid := b.manager().Agent()
		kill(t, pid)
		b.until("another agent", func() bool { now := b.manager().Agent(); return now != 0 && now != pid })
	}
	const want = "the agent was restarted 3 times within an hour"
	b.until("the gateway is told", func() bool { return strings.Contains(strings.Join(b.lastBeat().Notices, ";"), want) })
	b.until("status tells", func() bool {
		_, out, _ := b.call("status", "--state", b.base)
		return strings.Contains(out, want)
	})
}

func TestSupervisorIsAlone(t *testing.T) {
	t.Parallel()
	b := supervised(t)
	pid := b.supervisor()
	if out := b.hook(); !strings.Contains(out, "the supervisor is running already (process "+strconv.Itoa(pid)+"): nothing to do") {
		t.Errorf("%s", out)
	}
	if b.supervisor() != pid {
		t.Error("another supervisor")
	}
}

// TestSupervisorKilled: the agent works on, and the next supervisor takes it over.
func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	b := supervised(t)
	agent := b.manager().Agent()
	old := b.supervisor()
	kill(t, old)
	b.until("the lock is free", func() bool { _, running := service.Supervisor(b.base); return !running })
	b.online()
	if out := b.hook(); !strings.Contains(out, "supervisor started") {
		t.Errorf("%s", out)
	}
	b.online()
	if b.manager().Agent() != agent || b.supervisor() == old {
		t.Errorf("agent %d became %d", agent, b.manager().Agent())
	}
	kill(t, agent)
	b.until("another agent", func() bool { now := b.manager().Agent(); return now != 0 && now != agent })
}

// TestSupervisorSurvivesItsShell kills the session and the process group from which the supervisor was started.
func TestSupervisorSurvivesItsShell(t *testing.T) {
	t.Parallel()
	b := supervised(t)
	kill(t, b.supervisor())
	kill(t, b.manager().Agent())
	b.until("all is gone", func() bool { _, running := service.Supervisor(b.base); return !running && !identity.Running(b.base) })
	line := b.base + "/good/muster-agent supervise --state " + b.base + " --settings /etc/muster/agent.env; echo done; exec cat"
	shell := exec.Command("sh", "-c", line)
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 200)
	for text := ""; !strings.Contains(text, "done"); {
		n, err := out.Read(said)
		if text += string(said[:n]); err != nil {
			t.Fatalf("%q, %v", text, err)
		}
	}
	pid := b.supervisor()
	if err := syscall.Kill(-shell.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = shell.Wait()
	b.online()
	if b.supervisor() != pid {
		t.Error("the supervisor went with its shell")
	}
	for _, one := range []int{pid, b.manager().Agent()} {
		if to, _ := os.Readlink("/proc/" + strconv.Itoa(one) + "/fd/0"); to != "/dev/null" {
			t.Errorf("process %d reads %s", one, to)
		}
		environ, _ := os.ReadFile("/proc/" + strconv.Itoa(one) + "/environ")
		if strings.Contains(string(environ), b.token) || strings.Contains(string(environ), "MUSTER_TOKEN") {
			t.Errorf("process %d has the token", one)
		}
	}
}

// TestSupervisorOfNobody: whoever starts a supervisor may have ended before it says that it is ready, as on a slow machine. It stays.
func TestSupervisorOfNobody(t *testing.T) {
	t.Parallel()
	b := supervised(t)
	kill(t, b.supervisor())
	kill(t, b.manager().Agent())
	b.until("all is gone", func() bool { _, running := service.Supervisor(b.base); return !running && !identity.Running(b.base) })
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	alone := exec.Command(b.base+"/good/muster-agent", "supervise", "--detached", "--state", b.base, "--settings", "/etc/muster/agent.env")
	alone.Stdout = writer
	if err := alone.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	go func() { _ = alone.Wait() }()
	b.online()
	if pid := b.supervisor(); pid != alone.Process.Pid {
		t.Errorf("the supervisor is process %d", pid)
	}
}

func TestSupervisorUpdate(t *testing.T) {
	t.Parallel()
	b := supervised(t)
	digest := service.Layout{Base: b.base}.Current()
	old := olderBuild(t, b)
	supervisor := b.supervisor()
	agent := b.manager().Agent()
	code, out, errs := b.join()
	if code != 0 || b.supervisor() == supervisor || b.manager().Agent() == agent {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for _, pid := range []int{b.supervisor(), b.manager().Agent()} {
		if to, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe"); !strings.Contains(to, digest) || strings.Contains(to, old) {
			t.Errorf("process %d runs %s", pid, to)
		}
	}
	if code, out, _ := b.join(); code != 0 || !strings.HasPrefix(out, "already joined") {
		t.Errorf("again: exit %d\n%s", code, out)
	}
}

// TestSupervisorSaysWhyTheAgentEnds: the supervisor writes it where the agent itself cannot.
func TestSupervisorSaysWhyTheAgentEnds(t *testing.T) {
	t.Parallel()
	b := supervised(t)
	if err := os.Remove(filepath.Join(b.base, "identity.json")); err != nil {
		t.Fatal(err)
	}
	kill(t, b.manager().Agent())
	b.until("the status says why", func() bool {
		s := b.status()
		return s.Phase == identity.PhaseCrashing && strings.Contains(s.LastError, "this machine is not enrolled and no credential was given")
	})
	b.until("status tells, between two starts", func() bool {
		code, out, _ := b.call("status", "--state", b.base)
		return code == 1 && strings.Contains(out, "not running (was crashing)") && strings.Contains(out, "is not enrolled")
	})
}

func TestSuperviseWithoutAnInstallation(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if code, _, errs := b.call("supervise", "--state", b.base); code != 1 || !strings.Contains(errs, "join --help), or give --state") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}
