package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"muster/agent/internal/command"
	"muster/agent/internal/identity"
	"muster/agent/internal/logfile"
	"muster/agent/internal/service"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

const runExamples = `  MUSTER_TOKEN=mse_... muster-agent run --gateway https://gateway.example:7443
  muster-agent run --gateway https://gateway.example --token-file /run/token \
      --name gpu-1 --label tier=sovereign
  pass show fleet/psk | muster-agent run --gateway https://10.0.0.5:7443 \
      --token-file - --root-pin sha256:...

Once this machine is enrolled no token is needed any more: the same command goes
on where it was. A token in --token can be read by every user of this machine
while the agent runs: MUSTER_TOKEN or --token-file cannot.
`

const (
	// startTime is what the agent asks the service manager for, again and again, while an enrolment goes on.
	startTime = 10 * time.Minute
	// replaceTime is how long a new credential is tried while there is an identity to go on with.
	replaceTime = 2 * time.Minute
)

// foreground is one agent at work. It is used from one goroutine until its loops start.
type foreground struct {
	command.Applicant
	file     *logfile.File
	notifier *service.Notifier
	starts   *logfile.Starts
	flags    []string   // for another start of it
	ending   chan error // takes why the agent ends by itself: one of the errors in tasks.go
}

// work is the command run. It gets an identity if there is none, and then reports until ctx is done. A stop by a signal counts as
// success.
func work(ctx context.Context, p command.Program, args []string) error {
	f := p.Flags("run", "Enrols this machine if needed, then reports to the gateway until it is told to stop.", runExamples,
		command.RunFlags()...)
	o, err := command.Parse(f, args)
	if err != nil {
		return err
	}
	directory, err := identity.Open(o.State)
	if err != nil {
		return err
	}
	defer directory.Close()
	if signal.Ignored(syscall.SIGHUP) { // nohup(1): a hang-up ends no agent, but its programs would not hear one either
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	a := newForeground(p, o, directory)
	defer a.file.Flush()
	a.flags = command.WithoutCredential(args)
	err = a.work(ctx)
	if ctx.Err() != nil {
		a.notifier.Stopping()
		a.starts.End(nil)
		a.Log.Info("stopped")
		return nil
	}
	if isAsked(err) {
		a.starts.End(nil)
		directory.Close()
		if err = a.follow(ctx, err); err == nil {
			return nil
		}
	}
	a.starts.End(err)
	if err != nil { // main prints it on stderr; the log file gets it here
		logfile.NewLogger(o.Level, io.Discard, a.file).Error(err.Error())
	}
	return err
}

// isAsked reports whether the agent ends because the gateway asked for what follows.
func isAsked(err error) bool {
	return errors.Is(err, errRestart) || errors.Is(err, errUninstall) || errors.Is(err, errUpdate)
}

// newForeground makes the parts that an agent needs before it has an identity: logs, the service manager's socket, the status.
func newForeground(p command.Program, o command.Options, directory *identity.Directory) *foreground {
	a := &foreground{ending: make(chan error, 1), file: logfile.New(service.Layout{Base: o.State}.Log())}
	a.file.Hide(o.Secrets()...)
	screen := p.Stderr
	if p.Getenv(wire.EnvSupervised) != "" {
		screen = io.Discard // the supervisor writes it to a file that nobody bounds
	}
	a.Applicant = command.Applicant{
		Program: p, Options: o, Directory: directory, Log: logfile.NewLogger(o.Level, screen, a.file), Agent: p.AgentInfo(),
	}
	a.notifier = service.NewNotifier(p.Getenv)
	a.starts = logfile.Begin(o.State, service.Layout{Base: o.State}.Log(), time.Now())
	if err := a.starts.Catch(); err != nil {
		a.Log.Info("a panic of the agent would not be kept in a file", "error", err)
	}
	a.Progress = func(error) { a.notifier.Starting(startTime, "enrolling: "+a.Status.LastError) }
	a.Status = command.Begin(p.Version, o.Gateway)
	if was, err := identity.ReadStatus(o.State); err == nil { // when the gateway last heard from an earlier run
		a.Status.LastOnline = was.LastOnline
		a.Status.LastContact = was.LastContact
	}
	return a
}

// work loads the identity or gets one, and then runs the loops.
func (a *foreground) work(ctx context.Context) error {
	state, err := a.Directory.Load()
	if err != nil {
		return err
	}
	a.Provider, a.InstanceID = command.Place(ctx, a.Getenv, a.Provider, a.InstanceID)
	moved, err := a.Moved(state)
	switch {
	case err != nil:
		return err
	case state.Current == nil || moved:
		state, err = a.Enrol(ctx, state)
	case a.outlived():
		state, err = a.replace(ctx, state)
	default:
		err = a.resume(state)
	}
	if err != nil {
		return err
	}
	a.file.Hide(state.Secrets()...)
	a.settleIn(state)
	loops, err := a.loops(state)
	if err != nil {
		return err
	}
	return runLoops(ctx, loops)
}

// outlived reports whether a new identity replaces the one that is here. That is so where a credential was given, and the gateway refused
// the identity for good when it was last used.
func (a *foreground) outlived() bool {
	if !a.HasSecret() {
		return false
	}
	status, err := identity.ReadStatus(a.State)
	return err == nil && status.Phase == identity.PhaseRefused
}

// replace enrols afresh. If that fails, the agent goes on with the identity that is here, because an operator may allow it again.
func (a *foreground) replace(ctx context.Context, state identity.State) (identity.State, error) {
	bounded, cancel := context.WithTimeout(ctx, replaceTime)
	defer cancel()
	next, err := a.Enrol(bounded, state)
	if err == nil || ctx.Err() != nil {
		return next, err
	}
	a.Log.Warn("not enrolled afresh: going on with the identity that is here", "node", state.NodeID, "error", err)
	state, err = a.Directory.Load() // the enrolment may have left a key in it
	if err != nil {
		return state, err
	}
	return state, a.resume(state)
}

// resume goes on with the identity that is here.
func (a *foreground) resume(state identity.State) error {
	if a.HasSecret() {
		a.Log.Info("this machine is enrolled already: the credential is not used", "node", state.NodeID, "name", state.Name)
		a.ForgetSecret()
	}
	if !a.Fits(state.Gateway) {
		a.Log.Info("the root pin is not looked at: this machine is enrolled, and goes by the roots that the gateway has signed since",
			"pin", a.Pin.String(), "roots", transport.PinsOf(state.Gateway.Roots).String())
	}
	return a.Connect(transport.FirstContact{})
}

// notices are what the agent misses, for a person.
func (a *foreground) notices() []string {
	var all []string
	if trouble := a.file.Trouble(); trouble != nil {
		all = append(all, "the log file cannot be written: "+trouble.Error())
	}
	if crashes := a.starts.Notice(time.Now()); crashes != "" {
		all = append(all, crashes)
	}
	return all
}
