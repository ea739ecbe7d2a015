package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/internal/process"
	"muster/agent/wire"
)

// TestRun: a program runs with what it was given and nothing to read, its secret is seen by itself alone, and a stop ends it.
func TestRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := wire.WorkloadProcess{Name: "train", Workdir: "/tmp", Env: map[string]string{"A": "b c"}, SecretEnv: map[string]string{"T": "token"},
		Command: []string{"sh", "-c", `read x || echo "nothing to read"; tty >/dev/null || echo no terminal; ` +
			`pwd; echo "$A"; echo "it is $T" >&2; ` + `[ "$T" = hunter2-Zq8 ] || echo wrong; exec sleep 1000`}}
	p.Command[2] = strings.Replace(p.Command[2], secret, "hunter2-Zq''8", 1) // so that the arguments do not have it
	o := b.start(p)
	if o.Error != "" {
		t.Fatalf("%+v", o)
	}
	const want = "nothing to read\nno terminal\n/tmp\nb c\nit is [secret]\n"
	if got := b.awaitText("train", "it is"); got != want {
		t.Errorf("output %q", got)
	}
	keeper, main := b.keeping("train")
	for _, pid := range []int{keeper, main} {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if len(line) == 0 || strings.Contains(string(line), secret) {
			t.Errorf("arguments %q", line)
		}
	}
	if environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", keeper)); strings.Contains(string(environ), secret) {
		t.Error("the keeper's environment has the secret")
	}
	err := filepath.WalkDir(b.State, func(path string, entry fs.DirEntry, err error) error {
		if raw, _ := os.ReadFile(path); strings.Contains(string(raw), secret) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil || strings.Contains(b.out.String(), secret) {
		t.Errorf("%v; %s", err, b.out)
	}
	if again := b.start(p); string(again.Values["changed"]) != "false" || again.Error != "" {
		t.Errorf("again: %+v", again)
	}
	p.Env["A"] = "other"
	if other := b.start(p); !strings.Contains(other.Error, "stop it first") {
		t.Errorf("with other params: %+v", other)
	}
	if err := b.Stop(t.Context(), "train", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	b.gone(main)
	b.gone(keeper)
	if _, found := b.Find("train"); found || len(b.Runs()) != 0 {
		t.Error("it is still there")
	}
}

// TestSignalsOfProgram: a program gets the usual signals, so a pipe whose reader has gone ends its writer.
func TestSignalsOfProgram(t *testing.T) {
	b := newBench(t)
	b.sh("s", "grep SigIgn /proc/self/status; exec sleep 1000")
	text := strings.TrimSpace(strings.TrimPrefix(b.awaitText("s", "\n"), "SigIgn:"))
	ignored, err := strconv.ParseUint(text, 16, 64)
	if err != nil || ignored&(1<<(syscall.SIGHUP-1)|1<<(syscall.SIGPIPE-1)) != 0 {
		t.Errorf("it ignores %q, %v", text, err)
	}
}

// TestOutputOfOtherUser: the program of another user can open its output by name.
func TestOutputOfOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root alone starts programs as another user")
	}
	b := newBench(t)
	o := b.start(wire.WorkloadProcess{Name: "u", User: "nobody", Workdir: "/", Command: []string{"sh", "-c",
		"echo one > /dev/stderr && echo two > /dev/stdout && id -u"}})
	if o.Error != "" {
		t.Fatalf("%+v", o)
	}
	if got := b.tail("u"); !strings.HasPrefix(got, "one\ntwo\n") || strings.HasSuffix(got, "\n0\n") {
		t.Errorf("output %q", got)
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	o = b.start(wire.WorkloadProcess{Name: "v", User: "nobody", Workdir: closed, Command: []string{"/bin/true"}})
	if !strings.Contains(o.Error, "may not enter the folder /") || strings.Contains(o.Error, "cannot be run") {
		t.Errorf("a folder that is closed: %+v", o)
	}
}

// TestEndsAtOnce: a program that fails at once is a failure with its own exit code and last words, and its output stays.
func TestEndsAtOnce(t *testing.T) {
	b := newBench(t)
	b.Settle = time.Minute // it is over as soon as the program has ended
	o := b.start(wire.WorkloadProcess{Name: "x", Command: []string{"sh", "-c", "echo no driver; exit 7"}})
	if o.ExitCode != 7 || !strings.Contains(o.Error, "no driver") || string(o.Values["exit_code"]) != "7" {
		t.Errorf("%+v", o)
	}
	if r := b.await("x", wire.RunExited); *r.ExitCode != 7 || r.FinishedAt == nil || b.tail("x") != "no driver\n" {
		t.Errorf("%+v, %q", r, b.tail("x"))
	}
	if o := b.start(wire.WorkloadProcess{Name: "x", Command: []string{"sh", "-c", "echo well"},
		Allocation: "7f2kq3xw5dhz6m4a"}); o.ExitCode != 0 || o.Error != "" {
		t.Errorf("the next one: %+v", o)
	}
	if r := b.await("x", wire.RunExited); r.Allocation != "7f2kq3xw5dhz6m4a" {
		t.Errorf("its allocation is forgotten: %+v", r)
	}
	if got := b.tail("x"); got != "well\n" {
		t.Errorf("the output of before is left: %q", got)
	}
	if o := b.start(wire.WorkloadProcess{Name: "y", Command: []string{"sh", "-c", "kill -9 $$"}}); o.ExitCode != 137 {
		t.Errorf("killed: %+v", o)
	}
	if r := b.await("y", wire.RunExited); !strings.Contains(r.Why, "killed") {
		t.Errorf("%+v", r)
	}
	for command, code := range map[string]int{"no-such-program": 127, "/etc/passwd": 126} {
		if o := b.start(wire.WorkloadProcess{Name: "z", Command: []string{command}}); o.ExitCode != code || o.Error == "" {
			t.Errorf("%s: %+v", command, o)
		}
	}
	if o := b.start(wire.WorkloadProcess{Name: "z", Command: []string{"true"}, Workdir: "/nowhere"}); o.Code != wire.CodeTaskParamsInvalid {
		t.Errorf("no folder: %+v", o)
	}
	if _, found := b.Find("z"); found {
		t.Error("what never began is listed")
	}
}

// TestForksAway: what a program leaves behind, in a session of its own, ends with it.
func TestForksAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	o := b.start(wire.WorkloadProcess{Name: "d", Command: []string{"sh", "-c", `setsid sh -c 'echo $$; sleep 1000; true' & sleep 0.5`}})
	if o.Error != "" {
		t.Fatalf("%+v", o)
	}
	r := b.await("d", wire.RunExited)
	if *r.ExitCode != 0 || !strings.Contains(r.Why, "left behind") {
		t.Errorf("%+v", r)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(b.tail("d")))
	if err != nil {
		t.Fatal(err)
	}
	b.gone(pid)
}

// TestHalved: a process whose first thread alone has ended is ended with its run.
func TestHalved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b.start(wire.WorkloadProcess{Name: "h", Command: []string{"sh", "-c", program + ` halve & sleep 0.5; grep State /proc/$!/status`}})
	r := b.await("h", wire.RunExited)
	if !strings.Contains(r.Why, "left behind was ended") || !strings.Contains(b.tail("h"), "zombie") {
		t.Errorf("%+v, %q", r, b.tail("h"))
	}
}

// TestStubborn: a program that does not want to end is killed after the grace, and with it what it has started.
func TestStubborn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sh("s", `trap '' TERM; setsid sh -c "trap '' TERM; while :; do sleep 1; done" & echo $!; while :; do sleep 1; done`)
	pid, err := strconv.Atoi(strings.TrimSpace(b.awaitText("s", "\n")))
	if err != nil {
		t.Fatal(err)
	}
	_, main := b.keeping("s")
	if err := b.Stop(t.Context(), "s", 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	b.gone(pid)
	b.gone(main)
}

// TestAgentKilled: a run goes on when its agent is killed, and the next agent finds it, its output and how it ended.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stop := filepath.Join(t.TempDir(), "go")
	agent := exec.Command(program, "agent", b.State, "echo before; while [ ! -e "+stop+" ]; do sleep 0.1; done; echo after; exit 3")
	agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 100)
	if n, err := out.Read(line); err != nil || strings.TrimSpace(string(line[:n])) != "0" {
		t.Fatalf("%q, %v", line[:n], err)
	}
	_ = syscall.Kill(-agent.Process.Pid, syscall.SIGKILL) // its whole group
	_ = agent.Wait()
	if r, found := b.Find("x"); !found || r.State != wire.RunRunning || b.tail("x") != "before\n" {
		t.Fatalf("%+v, %q", r, b.tail("x"))
	}
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.await("x", wire.RunExited); *r.ExitCode != 3 || b.tail("x") != "before\nafter\n" {
		t.Errorf("%+v, %q", r, b.tail("x"))
	}
}

// TestKeeperKilled: nobody knows how a run ends whose keeper is killed, and what goes on of it can be ended.
func TestKeeperKilled(t *testing.T) {
	b := newBench(t)
	b.sh("k", "sleep 1000; true")
	keeper, main := b.keeping("k")
	_ = syscall.Kill(keeper, syscall.SIGKILL)
	if r := b.await("k", wire.RunInterrupted); r.ExitCode != nil || !strings.Contains(r.Why, "muster run stop k") {
		t.Errorf("%+v", r)
	}
	if !lives(main) {
		t.Error("the program has ended with its keeper")
	}
	if err := b.Stop(t.Context(), "k", 0); err != nil {
		t.Fatal(err)
	}
	b.gone(main)
}

// TestShutdown: a keeper that is asked to end by somebody else ends its run, which counts as interrupted.
func TestShutdown(t *testing.T) {
	b := newBench(t)
	b.sh("k", "exec sleep 1000")
	keeper, main := b.keeping("k")
	_ = syscall.Kill(keeper, syscall.SIGTERM)
	if r := b.await("k", wire.RunInterrupted); !strings.Contains(r.Why, "signal") {
		t.Errorf("%+v", r)
	}
	b.gone(main)
}

// TestReboot: a run of an earlier start of the machine is interrupted, and no process is taken for one of it.
func TestReboot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sh("k", "exec sleep 1000")
	_, main := b.keeping("k")
	folder := filepath.Join(b.State, process.Folder)
	if err := os.CopyFS(filepath.Join(folder, "old"), os.DirFS(filepath.Join(folder, "k"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"run.json", "keeper.json"} {
		path := filepath.Join(folder, "old", name)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
		text := strings.ReplaceAll(strings.ReplaceAll(string(raw), strings.TrimSpace(string(boot)), "another"), `"name":"k"`, `"name":"old"`)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r, found := b.Find("old"); !found || r.State != wire.RunInterrupted || !strings.Contains(r.Why, "machine was started anew") {
		t.Errorf("%+v", r)
	}
	if err := b.Stop(t.Context(), "old", 0); err != nil || !lives(main) {
		t.Errorf("%v; the other run lives: %v", err, lives(main))
	}
}

// TestMostRuns: the oldest run that has ended makes room for a new one.
func TestMostRuns(t *testing.T) {
	b := newBench(t)
	b.Settle = time.Nanosecond
	for i := range wire.MaxRuns {
		folder := filepath.Join(b.State, process.Folder, fmt.Sprintf("r%02d", i))
		at := time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
		raw, err := json.Marshal(wire.Run{Name: fmt.Sprintf("r%02d", i), Task: "t", StartedAt: &at})
		if err == nil {
			err = os.MkdirAll(folder, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "run.json"), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.sh("new", "exec sleep 1000")
	if _, found := b.Find("r00"); found || len(b.Runs()) != wire.MaxRuns {
		t.Errorf("%d runs, the oldest is there: %v", len(b.Runs()), found)
	}
	if _, err := b.Output("../new"); err == nil {
		t.Error("a path is taken for a name")
	}
}

// TestLeft: what goes on without an agent is named, with the way to end it.
func TestLeft(t *testing.T) {
	b := newBench(t)
	b.sh("k", "exec sleep 1000")
	keeper, main := b.keeping("k")
	left := b.Left()
	if len(left) != 1 || !strings.Contains(left[0], fmt.Sprintf("kill %d", keeper)) {
		t.Fatalf("%q", left)
	}
	_ = syscall.Kill(keeper, syscall.SIGTERM)
	b.gone(main)
	b.gone(keeper)
	if left := b.Left(); len(left) != 0 {
		t.Errorf("%q", left)
	}
}

// TestRestOfRun: what is left of a run that was half removed is not taken for the next one of that name.
func TestRestOfRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"x", ".gone-x"} {
		folder := filepath.Join(b.State, process.Folder, name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "exit.json"), []byte(`{"code":9}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.sh("x", "exec sleep 1000")
	if r, _ := b.Find("x"); r.State != wire.RunRunning || len(b.Runs()) != 1 {
		t.Errorf("%+v, %d runs", r, len(b.Runs()))
	}
	if err := b.Stop(t.Context(), "x", time.Second); err != nil {
		t.Fatal(err)
	}
	if rest, err := os.ReadDir(filepath.Join(b.State, process.Folder)); err != nil || len(rest) != 0 {
		t.Errorf("left: %v, %v", rest, err)
	}
}

// TestPathOfParams: the PATH that a task gives finds its program.
func TestPathOfParams(t *testing.T) {
	b := newBench(t)
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "own-tool"), []byte("#!/bin/sh\necho found\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := wire.WorkloadProcess{Name: "x", Command: []string{"own-tool"}, Env: map[string]string{"PATH": bin + ":/usr/bin:/bin"}}
	if o := b.start(p); o.Error != "" || b.tail("x") != "found\n" {
		t.Errorf("%+v", o)
	}
}

// TestKeeperSilent: nothing goes on of a program whose keeper does not answer.
func TestKeeperSilent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	note := filepath.Join(t.TempDir(), "pid")
	b.Keeper = []string{"/bin/sh", "-c", wire.EnvRun + "=t-x setsid sleep 1000 <&- >&- & echo $! > " + note + "; exec sleep 1000", "keep"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	o := b.Start(ctx, job("t-x", b.out), &wire.WorkloadProcess{Name: "x", Command: []string{"true"}}, nil)
	raw, err := os.ReadFile(note)
	if err != nil || o.Error == "" {
		t.Fatalf("%v, %+v", err, o)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if lives(pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Error("the program goes on")
	}
	if _, found := b.Find("x"); found {
		t.Error("it is listed")
	}
}

// TestStopWithoutNote: a run whose ending cannot be noted, as on a full disk, can be stopped.
func TestStopWithoutNote(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sh("fill", "sleep 1")
	if err := os.MkdirAll(filepath.Join(b.State, process.Folder, "fill", "exit.json", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	keeper, main := b.keeping("fill")
	b.gone(main)
	if err := b.Stop(t.Context(), "fill", time.Minute); err != nil {
		t.Fatal(err)
	}
	b.gone(keeper)
	if _, found := b.Find("fill"); found {
		t.Error("it is still there")
	}
}

// TestFolderFull: a disk without room for a run says what to do.
func TestFolderFull(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile(filepath.Join(b.State, process.Folder), nil, 0o600); err != nil { // a file stands in the way
		t.Fatal(err)
	}
	if o := b.start(wire.WorkloadProcess{Name: "x", Command: []string{"true"}}); !strings.Contains(o.Error, "a folder for the run") ||
		!strings.Contains(o.Error, "move it away") {
		t.Errorf("%+v", o)
	}
}
