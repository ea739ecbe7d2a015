// Package child runs the programs that a task needs, never through a shell. A program runs in a process group of its own, so that
// all it has started can be ended with it.
package child

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"muster/agent/wire"
)

const (
	// DefaultGrace is the time from asking a program to end until it is killed.
	DefaultGrace = 5 * time.Second
	// pipeGrace is for output after the program has ended: what it started may hold the pipe open for ever.
	pipeGrace = 2 * time.Second
	busyTries = 5
	busyPause = 100 * time.Millisecond
)

// Command is one program to run.
type Command struct {
	Program string    // a path, or a name that is looked for on the PATH
	Args    []string  // without the program's name
	Env     []string  // all of it; nil: Environ()
	Dir     string    // empty: this process's
	Stdin   io.Reader // nil: nothing to read
	Stdout  io.Writer // nil: dropped
	Stderr  io.Writer // nil: dropped; where it is the same as Stdout, nothing is written to it at the same time
	Grace   time.Duration
	Kill    bool          // nothing is asked to end: it is killed, and what it has started does not outlive it
	Started func(pid int) // called when it runs; nil: nobody is told
}

// ExitError says that a program did not end with 0.
type ExitError struct {
	Program string // without its folder
	Code    int    // -1 where a signal ended it
	Signal  string // that ended it, by name
	Why     string // what is said in place of that; empty: nothing
}

// Error names the program and says how it ended. It shows nothing of the arguments and the input.
func (e *ExitError) Error() string {
	switch {
	case e.Why != "":
		return e.Why
	case e.Signal != "":
		return e.Program + " was ended by a signal: " + e.Signal
	}
	return fmt.Sprintf("%s ended with exit code %d", e.Program, e.Code)
}

// Environ returns this process's environment without the agent's own variables, which may hold a credential.
func Environ() []string { return wire.WithoutEnv(os.Environ()) }

// Run runs a program to its end. When ctx is done, it asks the program's group to end, and kills the group after the grace. The error wraps
// the cause of ctx then. It is an *ExitError if the program failed, and wraps exec.ErrNotFound if there is no such program.
//
// A program that ended by itself may leave others behind, as a container runtime does on purpose. They are killed only if Kill says so.
// No parent-death signal (PR_SET_PDEATHSIG) is set: that is sent when the thread that forked ends, and Go ends threads.
func Run(ctx context.Context, c Command) error {
	name := filepath.Base(c.Program)
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%s was not started: %w", name, err)
	}
	cmd, err := c.start(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	if c.Started != nil {
		c.Started(cmd.Process.Pid)
	}
	stopped := c.watch(ctx, cmd.Process.Pid)
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case stopped:
		return fmt.Errorf("%s was stopped: %w", name, context.Cause(ctx))
	case errors.As(err, &exit):
		return describe(name, exit)
	case errors.Is(err, exec.ErrWaitDelay): // it has ended well, and only somebody else holds its output
		return nil
	case err != nil:
		return fmt.Errorf("run %s: %w", name, err)
	}
	return nil
}

// start starts the program. If it was written just now, another thread may be starting a program that has its file open until it runs:
// then this waits for that.
func (c Command) start(ctx context.Context) (*exec.Cmd, error) {
	cmd := c.prepare()
	err := cmd.Start()
	for range busyTries {
		if !errors.Is(err, syscall.ETXTBSY) || ctx.Err() != nil {
			break
		}
		time.Sleep(busyPause)
		cmd = c.prepare()
		err = cmd.Start()
	}
	return cmd, err
}

func (c Command) prepare() *exec.Cmd {
	cmd := exec.Command(c.Program, c.Args...)
	cmd.Env = c.Env
	if c.Env == nil {
		cmd.Env = Environ()
	}
	cmd.Dir = c.Dir
	cmd.Stdin = c.Stdin
	cmd.Stdout = c.Stdout
	cmd.Stderr = c.Stderr
	cmd.WaitDelay = pipeGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func describe(name string, exit *exec.ExitError) error {
	e := &ExitError{Program: name, Code: exit.ExitCode()}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = status.Signal().String()
	}
	return e
}

// watch waits until the process has ended, and ends its group when ctx is done. It does not collect the process: until somebody does,
// no other process gets its number, so that a signal cannot hit a stranger.
func (c Command) watch(ctx context.Context, pid int) (stopped bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		AwaitExit(pid)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		stopped = true
		if !c.Kill {
			c.ask(pid, ended)
		}
		KillGroup(pid) // what is left of the group, too
		<-ended
	}
	if c.Kill {
		KillGroup(pid)
	}
	return stopped
}

// ask asks a group to end, and waits for the process as long as the grace is.
func (c Command) ask(pid int, ended <-chan struct{}) {
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	timer := time.NewTimer(cmp.Or(c.Grace, DefaultGrace))
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// KillGroup kills what is left of a process group. It is no error if nothing is left.
func KillGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// AwaitExit blocks until the child pid has ended, and does not collect it: waitid(2) with WNOWAIT.
func AwaitExit(pid int) {
	const byPID = 1 // P_PID
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

// Bounded keeps the first Most bytes that are written to it. It takes the rest too and drops it, so that the program never blocks.
type Bounded struct {
	Most int
	Kept []byte
	Cut  bool // something was dropped
}

// Write never fails.
func (b *Bounded) Write(data []byte) (int, error) {
	take := min(len(data), max(b.Most-len(b.Kept), 0))
	b.Kept = append(b.Kept, data[:take]...)
	b.Cut = b.Cut || take < len(data)
	return len(data), nil
}

// ReadFrom takes all that comes. Without it, os/exec would have a larger buffer between for each run of a program.
func (b *Bounded) ReadFrom(from io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{b}, from, make([]byte, 4<<10))
}

// Tail keeps the last Most bytes that are written to it.
type Tail struct {
	Most    int
	Dropped int64
	kept    []byte
}

// Write never fails.
func (t *Tail) Write(data []byte) (int, error) {
	t.kept = append(t.kept, data...)
	if len(t.kept) > 2*t.Most { // not at every write, which would copy all of it each time
		t.cut()
	}
	return len(data), nil
}

func (t *Tail) cut() {
	if over := len(t.kept) - t.Most; over > 0 {
		t.Dropped += int64(over)
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
}

// Bytes returns what was kept.
func (t *Tail) Bytes() []byte {
	t.cut()
	return t.kept
}

// Words returns what was kept, in quotes, for a sentence about the last words of a program.
func (t *Tail) Words() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.Bytes()), "?"))
	if text == "" {
		return "none"
	}
	return strconv.Quote(text)
}
