package gpu_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/wire"
)

// TestMain lets the test binary play nvidia-smi: FAKE_SMI says how.
func TestMain(m *testing.M) {
	if mode := os.Getenv("FAKE_SMI"); mode != "" {
		os.Exit(fake(mode))
	}
	os.Exit(m.Run())
}

func fake(mode string) int {
	if len(os.Args) > 1 && os.Args[1] == "--help-query-gpu" {
		fmt.Print(helpText(fields()))
		return 0
	}
	code, _ := strconv.Atoi(os.Getenv("FAKE_CODE"))
	switch mode {
	case "row":
		names := strings.Split(strings.TrimPrefix(os.Args[1], "--query-gpu="), ",")
		fmt.Println(row(names, with(h100(0), "name", strings.Join(shown(os.Environ()), " "))))
		fmt.Fprintln(os.Stderr, "said on stderr")
	case "flood":
		for range 3 << 10 {
			fmt.Println(strings.Repeat("x", 1023))
			fmt.Fprintln(os.Stderr, strings.Repeat("y", 1023))
		}
	case "crash":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "hang":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		spawn("sleep", false)
		select {}
	case "leave":
		spawn("sleep", os.Getenv("FAKE_SETSID") != "")
	case "sleep":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		note()
		time.Sleep(time.Minute)
	}
	return code
}

// shown leaves out variables that the test machine may have set.
func shown(env []string) []string {
	return slices.DeleteFunc(env, func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return !strings.Contains(name, "MUSTER_") && !slices.Contains([]string{"KEPT", "LC_ALL", "FAKE_SMI"}, name)
	})
}

// spawn starts a child that holds this process's output, and waits until it has noted its id.
func spawn(mode string, session bool) {
	note()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "FAKE_SMI="+mode)
	child.Stdout = os.Stdout
	child.Stderr = os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := child.Start(); err != nil {
		panic(err)
	}
	for len(noted(os.Getenv("FAKE_NOTES"))) < 2 {
		time.Sleep(time.Millisecond)
	}
}

// note writes this process's id into a directory that the test reads.
func note() {
	if err := os.WriteFile(filepath.Join(os.Getenv("FAKE_NOTES"), strconv.Itoa(os.Getpid())), nil, 0o600); err != nil {
		panic(err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

func noted(dir string) (pids []int) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		pid, _ := strconv.Atoi(entry.Name())
		pids = append(pids, pid)
	}
	return pids
}

// awaitDeath waits until none of the processes runs. A zombie counts as dead.
func awaitDeath(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for until := time.Now().Add(10 * time.Second); running(pid); {
			if time.Now().After(until) {
				t.Fatalf("process %d is still running", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// realProber runs this test binary as nvidia-smi.
func realProber(t *testing.T, mode string, env ...string) (*gpu.Prober, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	notes := t.TempDir()
	// A race-instrumented binary would otherwise pause a second at its end.
	env = append(env, "GORACE=atexit_sleep_ms=0")
	return &gpu.Prober{Path: self, Deadline: time.Minute, Slow: time.Minute,
		Env: append(env, "FAKE_SMI="+mode, "FAKE_NOTES="+notes)}, notes
}

func TestEnvironment(t *testing.T) {
	p, _ := realProber(t, "row", "MUSTER_TOKEN=secret", "LC_ALL=de_DE.UTF-8", "KEPT=yes", "MUSTER_=", "XMUSTER_A=1")
	got := p.Probe(t.Context())
	if len(got.GPUs) != 1 || got.Probe.State != wire.ProbeOK || !strings.Contains(got.Probe.Error, "said on stderr") {
		t.Fatalf("got %+v with %d GPUs", got.Probe, len(got.GPUs))
	}
	name := got.GPUs[0].Name
	if want := "KEPT=yes XMUSTER_A=1 FAKE_SMI=row LC_ALL=C"; name != want {
		t.Errorf("nvidia-smi got %q, want %q", name, want)
	}
}

func TestInheritedEnvironment(t *testing.T) {
	t.Setenv("MUSTER_TOKEN", "secret")
	t.Setenv("FAKE_SMI", "row")
	p, _ := realProber(t, "row")
	p.Env = nil
	got := p.Probe(t.Context())
	if len(got.GPUs) != 1 || got.GPUs[0].Name != "FAKE_SMI=row LC_ALL=C" {
		t.Errorf("got %+v with %+v", got.Probe, got.GPUs)
	}
}

func TestExitCodes(t *testing.T) {
	for _, code := range []int{2, 6, 9, 18, 255} {
		p, _ := realProber(t, "row", fmt.Sprintf("FAKE_CODE=%d", code))
		got := p.Probe(t.Context())
		if want := fmt.Sprintf("ended with %d: said on stderr", code); got.Probe.State != wire.ProbeFailed ||
			!strings.Contains(got.Probe.Error, want) || len(got.GPUs) != 1 {
			t.Errorf("got %+v with %d GPUs, want failed with %q and the row", got.Probe, len(got.GPUs), want)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	p, _ := realProber(t, "flood")
	got := p.Probe(t.Context())
	if got.Probe.State != wire.ProbeFailed || len(got.Probe.Error) > 300 {
		t.Errorf("got %+v", got.Probe)
	}
	text, err := p.Capture(t.Context())
	if err != nil || len(text) > 5<<20 {
		t.Errorf("got a capture of %d bytes, %v; want at most 5 MiB of the 12 printed", len(text), err)
	}
}

func TestCrash(t *testing.T) {
	p, _ := realProber(t, "crash")
	if got := p.Probe(t.Context()).Probe; got.State != wire.ProbeFailed || !strings.Contains(got.Error, "killed") {
		t.Errorf("got %+v, want failed by a signal", got)
	}
}

func TestNotAProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, []byte("\x00\x01"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := gpu.Prober{Path: path}
	if got := p.Probe(t.Context()).Probe; got.State != wire.ProbeFailed || !strings.Contains(got.Error, "cannot be started") {
		t.Errorf("got %+v, want failed", got)
	}
}

// The process ignores SIGTERM and has a child that holds its output. Both are dead after the deadline.
func TestHangIsKilledWithItsChildren(t *testing.T) {
	for deadline := 500 * time.Millisecond; ; deadline *= 2 {
		p, notes := realProber(t, "hang")
		p.Deadline = deadline
		got := p.Probe(t.Context())
		if got.Probe.State != wire.ProbeHung || !strings.Contains(got.Probe.Error, "was killed") {
			t.Errorf("got %+v, want hung and killed", got.Probe)
		}
		pids := noted(notes)
		awaitDeath(t, pids)
		if len(pids) == 2 {
			return
		}
		if deadline > 10*time.Second { // a busy machine may be slow to start the two
			t.Fatalf("got processes %v within %v, want two", pids, deadline)
		}
	}
}

func TestShutdownKillsTheCall(t *testing.T) {
	p, notes := realProber(t, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx, time.Second, nil)
	}()
	for until := time.Now().Add(30 * time.Second); len(noted(notes)) < 2 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	if pids := noted(notes); len(pids) != 2 {
		t.Fatalf("got processes %v, want two", pids)
	} else {
		awaitDeath(t, pids)
	}
	if state := p.Reading().Probe.State; state != "" {
		t.Errorf("got state %s, want none", state)
	}
}

// A process that a call leaves behind does not delay the call, and is killed. One in a session of its own does not delay it either.
func TestLeftChildren(t *testing.T) {
	for _, session := range []string{"", "yes"} {
		p, notes := realProber(t, "leave", "FAKE_SETSID="+session)
		got := p.Probe(t.Context())
		if got.Probe.State != wire.ProbeFailed || !strings.Contains(got.Probe.Error, "printed no GPU") {
			t.Errorf("got %+v", got.Probe)
		}
		pids := noted(notes)
		if session != "" {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		awaitDeath(t, pids)
	}
}
