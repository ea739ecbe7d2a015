package gpu

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"muster/agent/internal/child"
	"muster/agent/wire"
)

const maxOutput = 1 << 20 // bytes kept of each stream

// Call is one nvidia-smi to run: the program, its arguments without the program's name, and its whole environment.
type Call struct {
	Path    string
	Args    []string
	Env     []string
	Started func(pid int) // called when it runs; nil: nobody is told
}

// Output is the result of a call. Err is set only if the call could not be started or waited for.
type Output struct {
	Stdout, Stderr []byte // at most 1 MiB each, the rest is dropped
	Code           int    // exit code; -1 when a signal ended it
	Signal         string // the signal that ended it, by name
	Stopped        bool   // killed because ctx was done
	Took           time.Duration
	Err            error
}

// execute runs a call, and returns when the process has ended. A driver that hangs can delay that for ever. When ctx is done, execute
// kills the process with all that it has started.
func execute(ctx context.Context, call Call) Output {
	stdout := child.Bounded{Most: maxOutput}
	stderr := child.Bounded{Most: maxOutput}
	err := child.Run(ctx, child.Command{
		Program: call.Path, Args: call.Args, Env: call.Env, Stdout: &stdout, Stderr: &stderr, Kill: true, Started: call.Started,
	})
	out := Output{Stdout: stdout.Kept, Stderr: stderr.Kept}
	var exit *child.ExitError
	switch {
	case errors.As(err, &exit):
		out.Code = exit.Code
		out.Signal = exit.Signal
	case err != nil:
		out.Code = -1
		out.Stopped = ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
		if !out.Stopped {
			out.Err = errors.Unwrap(err) // without the name of the program
		}
	}
	return out
}

// environment returns env (nil: that of this process) without muster's variables, which may hold a token, and with the locale
// that the parser can read.
func environment(env []string) []string {
	if env == nil {
		env = os.Environ()
	}
	kept := slices.DeleteFunc(wire.WithoutEnv(env), func(pair string) bool { return strings.HasPrefix(pair, "LC_ALL=") })
	return append(kept, "LC_ALL=C")
}
