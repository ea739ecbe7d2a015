package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"muster/agent/flags"
	"muster/agent/internal/service"
	"muster/agent/internal/transport"
	"muster/agent/internal/update"
	"muster/agent/wire"
)

const launchExamples = `  muster-agent launch --state /var/lib/muster-agent
  muster-agent launch --stay --state ~/.local/state/muster-agent -- \
      --gateway https://gateway.example:7443

The service script of OpenRC runs it, from the last good version, in place of
the agent. What stands after -- are flags of run. An agent that runs in the
foreground uses it for its own update.
`

// againPause is between two starts of a version on trial.
const againPause = time.Second

// Launch runs the command launch.
func Launch(ctx context.Context, p Program, args []string) error {
	var ofRun []string
	if end := slices.Index(args, "--"); end >= 0 {
		ofRun = args[end+1:]
		args = args[:end]
	}
	var o struct{ Stay bool }
	f := p.Flags("launch", "Decides which version of the agent is started, and starts it. For services that can do no more.", launchExamples,
		flags.Flag{Name: "stay", Off: true, Usage: "start the agent again where it hangs or is on trial, and end with it otherwise"},
		stateFlag(""), wayFlag())
	j, err := parse(f, args, &o)
	if err != nil {
		return err
	}
	if o.Stay {
		return j.stay(ctx, ofRun)
	}
	j.settle(ctx, update.Settling{})
	err = j.become(ofRun)
	j.settle(ctx, update.Settling{Broken: err.Error()})
	return j.become(ofRun)
}

// become makes this process the current version. It returns only if that fails.
func (j judge) become(flags []string) error {
	program := service.Layout{Base: j.base}.Program()
	return j.System.Become(program, append([]string{program, "run"}, flags...), os.Environ())
}

// stay runs the agent as a child, and starts it again as long as a version is on trial. So a trial does not end with a version that ends.
// One that hung is started again too: its end says nothing to what waits for this process.
func (j judge) stay(ctx context.Context, flags []string) error {
	watch, err := service.NewWatch(j.base, j.patience)
	if err != nil {
		j.log.Warn("an agent that hangs would not be noticed: its signs of life cannot be heard", "error", err)
	}
	defer watch.Close()
	layout := service.Layout{Base: j.base}
	for {
		j.settle(ctx, update.Settling{})
		build := layout.Current()
		tried := update.OnTrial(j.base) == build
		err := j.child(ctx, watch, flags, tried)
		var exit *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return nil
		case !layout.Holds(): // it was removed
			return err
		case errors.Is(err, service.ErrHung):
			j.log.Warn("the agent is started again", "why", err)
		case err != nil && !errors.As(err, &exit):
			j.settle(ctx, update.Settling{Broken: err.Error()})
		case layout.Current() == build && !(tried && update.OnTrial(j.base) == build):
			return err
		}
		if !transport.Sleep(ctx, againPause) {
			return nil
		}
	}
}

// child runs the current version to its end. If this process is killed, the kernel tells the agent to end too: else nothing would keep
// it any more, and the next one would find it in its way. The kernel looks at the thread that started the child, so that thread stays.
// Of a version on trial the words are kept, in case that it fails.
func (j judge) child(ctx context.Context, watch *service.Watch, flags []string, tried bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stderr := j.Stderr
	if tried {
		j.writeWords(nil) // those of another version
		stderr = io.MultiWriter(j.Stderr, &wordKeeper{judge: j, trial: update.OnTrial(j.base)})
	}
	err := watch.Run(ctx, flags, func(c *exec.Cmd) {
		c.Env = append(os.Environ(), wire.EnvKept+"=1")
		c.Stdin = j.Stdin
		c.Stdout = j.Stdout
		c.Stderr = stderr
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	})
	if tried && errors.Is(err, exec.ErrWaitDelay) { // it has ended well, and something that it started holds its standard error
		return nil
	}
	return err
}
