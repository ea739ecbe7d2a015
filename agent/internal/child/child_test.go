package child_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/internal/child"
)

// script runs a line of sh, with its words.
func script(line string, words ...string) child.Command {
	return child.Command{Program: "sh", Args: append([]string{"-c", line, "sh"}, words...)}
}

func TestRun(t *testing.T) {
	t.Setenv("MUSTER_TOKEN", "secret")
	t.Setenv("KEPT", "1")
	var out, errs bytes.Buffer
	c := script(`echo "$KEPT/$MUSTER_TOKEN/$1"; cat; pwd; echo warned >&2`, "$(id); `id`")
	c.Stdin = strings.NewReader("read\n")
	c.Stdout = &out
	c.Stderr = &errs
	c.Dir = t.TempDir()
	if err := child.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if want := "1//$(id); `id`\nread\n" + c.Dir + "\n"; out.String() != want || errs.String() != "warned\n" {
		t.Errorf("%q, not %q; %q", out.String(), want, errs.String())
	}
	out.Reset()
	c = script(`echo "$KEPT$ONLY"`)
	c.Env = []string{"ONLY=2"}
	c.Stdout = &out
	if err := child.Run(t.Context(), c); err != nil || out.String() != "2\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestFailures(t *testing.T) {
	var exit *child.ExitError
	err := child.Run(t.Context(), script("exit 7", "password"))
	if !errors.As(err, &exit) || exit.Code != 7 || err.Error() != "sh ended with exit code 7" {
		t.Errorf("%v", err)
	}
	err = child.Run(t.Context(), script("kill -9 $$"))
	if !errors.As(err, &exit) || exit.Code != -1 || err.Error() != "sh was ended by a signal: killed" {
		t.Errorf("%v", err)
	}
	err = child.Run(t.Context(), child.Command{Program: "no-such-program-anywhere"})
	if !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("%v", err)
	}
	done, cancel := context.WithCancelCause(t.Context())
	why := errors.New("somebody canceled it")
	cancel(why)
	if err = child.Run(done, script("exit 0")); !errors.Is(err, why) || !strings.Contains(err.Error(), "sh was not started") {
		t.Errorf("%v", err)
	}
}

// stop runs a line that makes the file at $1 when it is ready, and ends the context then. It returns the ids that the
// line has written to the file.
func stop(t *testing.T, line string, grace time.Duration) (pids []int) {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	result := make(chan error)
	c := script(line, ready)
	c.Grace = grace
	c.Stdout = new(bytes.Buffer)
	go func() { result <- child.Run(ctx, c) }()
	var text []byte
	for !bytes.HasSuffix(text, []byte("ready\n")) {
		if t.Context().Err() != nil {
			t.Fatal("not ready")
		}
		text, _ = os.ReadFile(ready)
		time.Sleep(time.Millisecond)
	}
	cancel(why)
	err := <-result
	if !errors.Is(err, why) || !strings.Contains(err.Error(), "sh was stopped") {
		t.Errorf("%v", err)
	}
	for _, word := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestAskedToEnd: a program may clean up when it is asked to end.
func TestAskedToEnd(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "cleaned")
	stop(t, `trap 'echo done > `+mark+`; exit 0' TERM; echo ready > "$1"; while :; do sleep 0.01; done`, time.Minute)
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
}

// TestKilledWithItsChildren: neither who ignores the signal nor what it started lives on.
func TestKilledWithItsChildren(t *testing.T) {
	pids := stop(t, `trap '' TERM; sleep 1000 & { echo $$ $!; echo ready; } > "$1"; while :; do sleep 1000; done`, 50*time.Millisecond)
	if len(pids) != 2 {
		t.Fatalf("%v", pids)
	}
	for _, pid := range pids {
		gone(t, pid)
	}
}

// TestChildrenOfOneThatObeys: the program ends when it is asked, and what it started ignores that.
func TestChildrenOfOneThatObeys(t *testing.T) {
	pids := stop(t, `sh -c 'trap "" TERM; while :; do sleep 1000; done' & trap 'exit 0' TERM
		sleep 0.1; { echo $!; echo ready; } > "$1"; wait`, time.Minute)
	if len(pids) != 1 {
		t.Fatalf("%v", pids)
	}
	gone(t, pids[0])
}

// gone waits until the process has ended. A killed process is a zombie until its new parent collects it.
func gone(t *testing.T, pid int) {
	t.Helper()
	for {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		if t.Context().Err() != nil || syscall.Kill(pid, 0) != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestHeldPipe: what a program leaves behind holds its output open. Run comes back all the same, and does not kill it.
func TestHeldPipe(t *testing.T) {
	var out bytes.Buffer
	c := script(`sleep 1000 & echo $!`)
	c.Stdout = &out
	if err := child.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("it was killed: %v", err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

func TestBounded(t *testing.T) {
	b := child.Bounded{Most: 4}
	for _, text := range []string{"ab", "cd"} {
		if n, err := b.Write([]byte(text)); n != 2 || err != nil || b.Cut {
			t.Errorf("%d, %v, %t", n, err, b.Cut)
		}
	}
	if n, err := b.Write([]byte("ef")); n != 2 || err != nil || !b.Cut || string(b.Kept) != "abcd" {
		t.Errorf("%d, %v, %t, %q", n, err, b.Cut, b.Kept)
	}
}

// TestTail keeps the end, however it is written.
func TestTail(t *testing.T) {
	kept := child.Tail{Most: 5}
	for _, piece := range []string{"ab", "", "cdefgh", "ij", strings.Repeat("k", 20), "xyz"} {
		if _, err := kept.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(kept.Bytes()); got != "kkxyz" || kept.Dropped != 28 {
		t.Errorf("%q, %d dropped", got, kept.Dropped)
	}
}

// TestKill: nobody is asked to end, and what the program has started does not outlive it.
func TestKill(t *testing.T) {
	started := 0
	var out bytes.Buffer
	c := script(`trap 'echo asked' TERM; sleep 1000 >/dev/null 2>&1 & echo $!`)
	c.Stdout = &out
	c.Kill = true
	c.Started = func(pid int) { started = pid }
	if err := child.Run(t.Context(), c); err != nil || started == 0 {
		t.Fatalf("process %d: %v", started, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
}
