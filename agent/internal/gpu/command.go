package gpu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"muster/agent/wire"
)

const (
	maxOutput = 1 << 20         // bytes kept of each stream
	pipeGrace = 2 * time.Second // to read output after the process ended: a child that left the group may hold the pipe open
)

// Call is one nvidia-smi to run: the program, its arguments without the program's name, and its whole environment.
type Call struct {
	Path    string
	Args    []string
	Env     []string
	Started func(pid int) // called when it runs; nil: nobody is told
}

// Output is the result of a call. Err is set only where the call could not be started or waited for.
type Output struct {
	Stdout, Stderr []byte // at most 1 MiB each, the rest is dropped
	Code           int    // exit code; -1 when a signal ended it
	Signal         string // the signal that ended it, by name
	Stopped        bool   // killed because ctx was done
	Took           time.Duration
	Err            error
}

// execute runs a call in a process group of its own, and returns when the process has ended. A driver that hangs can delay that
// for ever. When ctx is done, execute kills the group. When the process has ended, it kills what is left of the group.
//
// It sets no parent-death signal (PR_SET_PDEATHSIG): that is sent when the thread that forked ends, and Go ends threads.
func execute(ctx context.Context, call Call) Output {
	cmd := exec.Command(call.Path, call.Args...)
	var stdout, stderr bounded
	cmd.Env = call.Env
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	cmd.WaitDelay = pipeGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return Output{Err: err}
	}
	if call.Started != nil {
		call.Started(cmd.Process.Pid)
	}
	stopped := reap(ctx, cmd.Process.Pid)
	err := cmd.Wait()
	out := Output{Stdout: stdout.kept, Stderr: stderr.kept, Stopped: stopped, Code: -1}
	if state := cmd.ProcessState; state != nil {
		out.Code = state.ExitCode()
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			out.Signal = status.Signal().String()
		}
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		out.Err = err
	}
	return out
}

// reap waits until the process pid has ended. It kills the group when ctx is done, and once more when the process has ended. stopped
// reports whether ctx was done first. It does not collect the process: until somebody does, no other process gets the number pid, so
// killGroup cannot hit a stranger.
func reap(ctx context.Context, pid int) (stopped bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		awaitExit(pid)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		stopped = true
		killGroup(pid)
		<-ended
	}
	killGroup(pid)
	return stopped
}

// awaitExit blocks until the child pid has ended, and does not collect it: waitid(2) with WNOWAIT.
func awaitExit(pid int) {
	const byPID = 1 // P_PID
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

// killGroup kills what is left of a process group. It is no error where nothing is left.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// environment returns env (nil: that of this process) without muster's variables, which may hold a token, and with the locale
// that the parser can read.
func environment(env []string) []string {
	if env == nil {
		env = os.Environ()
	}
	kept := slices.DeleteFunc(wire.WithoutEnv(env), func(pair string) bool { return strings.HasPrefix(pair, "LC_ALL=") })
	return append(kept, "LC_ALL=C")
}

// bounded keeps the first maxOutput bytes that are written to it. It takes the rest too and drops it, so that the writer never
// blocks.
type bounded struct{ kept []byte }

func (b *bounded) Write(data []byte) (int, error) {
	b.kept = append(b.kept, data[:min(len(data), maxOutput-len(b.kept))]...)
	return len(data), nil
}
