package settle

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

	"muster/agent/internal/command"
	"muster/agent/internal/service"
	"muster/agent/internal/transport"
	"muster/agent/internal/update"
	"muster/agent/internal/variable"
)

const launchExamples = `  muster-agent launch --state /var/lib/muster-agent
  muster-agent launch --stay --state ~/.local/state/muster-agent -- --gateway https://gateway.example:7443

The service script of OpenRC runs it, from the last good version, in place of the agent. What stands after -- are flags of run.
An agent that runs in the foreground uses it for its own update.
`

// againPause is between two starts of a version on trial.
const againPause = time.Second

// stopTime is for the agent to end when it was told to.
const stopTime = 15 * time.Second

// Launch is the command launch.
func Launch(ctx context.Context, p command.Program, args []string) error {
	var flags []string // of run
	if end := slices.Index(args, "--"); end >= 0 {
		flags = args[end+1:]
		args = args[:end]
	}
	f := p.Flags("launch", "Decides which version of the agent is started, and starts it. For services that can do no more.", launchExamples)
	stay := f.Bool("stay", false, "start the agent again while it is on trial, and end with it afterwards")
	j, err := parse(f, args)
	if err != nil {
		return err
	}
	if *stay {
		return j.stay(ctx, flags)
	}
	j.settle(ctx, update.Settling{})
	err = j.become(flags)
	j.settle(ctx, update.Settling{Broken: err.Error()})
	return j.become(flags)
}

// become makes this process the current version. It returns only where that fails.
func (j judge) become(flags []string) error {
	program := service.Layout{Base: j.base}.Program()
	return j.System.Become(program, append([]string{program, "run"}, flags...), os.Environ())
}

// stay runs the agent as a child, and starts it again as long as a version is on trial. So a trial does not end with a version that ends.
func (j judge) stay(ctx context.Context, flags []string) error {
	layout := service.Layout{Base: j.base}
	for {
		j.settle(ctx, update.Settling{})
		build := layout.Current()
		tried := update.OnTrial(j.base) == build
		err := j.child(ctx, flags, tried)
		var exit *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return nil
		case !layout.Holds(): // it was removed
			return err
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

// child runs the current version to its end. Where this process is killed, the kernel tells the agent to end too: else nothing would keep
// it any more, and the next one would find it in its way. The kernel looks at the thread that started the child, so that thread stays.
// Of a version on trial the words are kept, in case that it fails.
func (j judge) child(ctx context.Context, flags []string, tried bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := exec.CommandContext(ctx, service.Layout{Base: j.base}.Program(), append([]string{"run"}, flags...)...)
	c.Env = append(os.Environ(), variable.Kept+"=1")
	c.Stdin = j.Stdin
	c.Stdout = j.Stdout
	c.Stderr = j.Stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = stopTime
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if !tried {
		return c.Run()
	}
	j.writeWords(nil) // those of another version
	c.Stderr = io.MultiWriter(j.Stderr, &wordKeeper{judge: j, trial: update.OnTrial(j.base)})
	err := c.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // it has ended well, and something that it started holds its standard error
		return nil
	}
	return err
}
