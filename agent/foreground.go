package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"muster/agent/internal/enroll"
	"muster/agent/internal/gpu"
	"muster/agent/internal/heartbeat"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/transport"
)

// startTime is what an enrolment in the background may take before its next sign of life.
const startTime = 10 * time.Minute

// foreground is one agent at work.
type foreground struct {
	program
	options
	directory *identity.Directory
	log       *slog.Logger
	file      *logFile
	client    *transport.Client
	status    identity.Status
	notifier  *service.Notifier // nil: nobody waits for a word
	starts    *service.Starts
	progress  func(error) // told how an enrolment goes; nil: nobody
	byHand    bool        // by join: what was given was given now
	anew      bool        // what the identity from before knew of the gateway counts for nothing
}

func (p program) run(ctx context.Context, args []string) error {
	o, err := p.runOptions(args)
	if err != nil {
		return err
	}
	directory, err := identity.Open(o.state)
	if err != nil {
		return err
	}
	defer directory.Close()
	a := p.newForeground(o, directory)
	a.notifier, a.starts = service.NewNotifier(p.getenv), service.Begin(o.state, time.Now())
	a.status = identity.Status{
		PID: os.Getpid(), Version: version, Phase: identity.PhaseEnrolling, Gateway: o.gateway, Since: time.Now().UTC().Truncate(time.Second),
	}
	a.remember()
	working, end := context.WithCancel(ctx)
	defer end()
	go giveMemoryBack(working)
	err = a.work(ctx)
	if ctx.Err() != nil {
		a.notifier.Stopping()
		a.starts.End(nil)
		a.log.Info("stopped")
		return nil
	}
	a.starts.End(err)
	if err != nil {
		a.file.Write([]byte(fmt.Sprintf("time=%s level=ERROR msg=%q\n", time.Now().UTC().Format(time.RFC3339), err)))
	}
	return err
}

// remember takes over from an earlier run when the gateway last heard from this node.
func (a *foreground) remember() {
	if was, err := identity.ReadStatus(a.state); err == nil {
		a.status.LastOnline, a.status.LastContact = was.LastOnline, was.LastContact
	}
}

// newForeground logs to the screen and to the file; where nobody bounds what stands for the screen, to the file alone.
func (p program) newForeground(o options, directory *identity.Directory) *foreground {
	a := &foreground{program: p, options: o, directory: directory, file: &logFile{path: filepath.Join(o.state, "agent.log")}}
	screen := p.stderr
	if p.getenv(service.SupervisedVariable) != "" {
		screen = io.Discard
	}
	a.log = newLogger(o.level, screen, a.file)
	return a
}

// work loads the identity or gets one, and then reports.
func (a *foreground) work(ctx context.Context) error {
	state, err := a.directory.Load()
	if err != nil {
		return err
	}
	a.provider, a.instanceID = place(ctx, a.getenv, a.provider, a.instanceID)
	moved, err := a.moved(state)
	switch {
	case err != nil:
		return err
	case state.Current == nil || moved:
		state, err = a.enroll(ctx, state)
	case a.outlived(state):
		state, err = a.replace(ctx, state)
	default:
		err = a.resume(state)
	}
	if err != nil {
		return err
	}
	return a.report(ctx, state)
}

// outlived tells an identity that a new credential replaces: the gateway refused it for good when it was last used. Without
// a credential nothing replaces anything.
func (a *foreground) outlived(state identity.State) bool {
	if !a.hasSecret() {
		return false
	}
	status, err := identity.ReadStatus(a.state)
	return err == nil && status.Phase == identity.PhaseRefused
}

// replaceTime is how long a new credential is tried while there is an identity to go on with.
const replaceTime = 2 * time.Minute

// replace enrols afresh, and goes on with the identity that is there where that comes to nothing: an operator may allow it
// again.
func (a *foreground) replace(ctx context.Context, state identity.State) (identity.State, error) {
	bounded, cancel := context.WithTimeout(ctx, replaceTime)
	defer cancel()
	next, err := a.enroll(bounded, state)
	if err == nil || ctx.Err() != nil {
		return next, err
	}
	a.log.Warn("not enrolled afresh: going on with the identity that is here", "node", state.NodeID, "error", err)
	if state, err = a.directory.Load(); err != nil {
		return state, err
	}
	return state, a.resume(state)
}

// moved tells an identity that was made on another rented machine, which is never used here: a copied disk would make two
// nodes of one. Without a credential for another that is an error.
func (a *foreground) moved(state identity.State) (bool, error) {
	if state.Current == nil || state.InstanceID == "" || a.instanceID == "" || state.InstanceID == a.instanceID {
		return false, nil
	}
	if !a.hasSecret() {
		return true, fmt.Errorf("the identity in %s belongs to instance %s and this is %s: it is not used; set MUSTER_TOKEN to enrol this machine afresh",
			a.state, state.InstanceID, a.instanceID)
	}
	a.log.Warn("the identity here belongs to another instance; enrolling afresh", "instance", state.InstanceID, "this", a.instanceID)
	return true, nil
}

func (a *foreground) enroll(ctx context.Context, state identity.State) (identity.State, error) {
	credential, err := a.credential(&a.options)
	if err != nil {
		return state, err
	}
	defer credential.Forget()
	a.forgetSecret()
	name := a.name
	if name == "" {
		hostname, _ := os.Hostname()
		name = defaultName(a.provider, a.instanceID, hostname)
	}
	if name == "" {
		return state, usagef("this machine has no name of its own: give --name")
	}
	a.status.Name = name
	a.saveStatus(nil)
	state, err = a.enrolKnowing(ctx, state, enroll.Config{
		Directory: a.directory, Credential: credential, Name: name, Labels: a.labels,
		Provider: a.provider, InstanceID: a.instanceID, Agent: agentInfo(), Logger: a.log, Report: a.saveStatus,
	})
	if err == nil {
		if err := gpu.Forget(a.state); err != nil {
			a.log.Warn("how many GPUs there were before this enrolment cannot be forgotten", "error", err)
		}
		a.log.Info("enrolled", "node", state.NodeID, "name", state.Name, "tenant", state.Tenant)
	}
	return state, err
}

// resume goes on with the identity that is there.
func (a *foreground) resume(state identity.State) error {
	if a.hasSecret() {
		a.log.Info("this machine is enrolled already: the credential is not used", "node", state.NodeID, "name", state.Name)
		a.forgetSecret()
	}
	if !a.fits(state.Gateway) {
		a.log.Info("the root pin is not looked at: this machine is enrolled, and goes by the roots that the gateway has signed since",
			"pin", a.pin.String(), "roots", transport.PinsOf(state.Gateway.Roots).String())
	}
	return a.newClient(transport.FirstContact{})
}

func (a *foreground) newClient(first transport.FirstContact) (err error) {
	a.client, err = transport.New(transport.Config{Gateway: a.gateway, Version: version, Logger: a.log, First: first, Way: a.way})
	return err
}

// report runs the loop and, beside it, the looks at the GPUs.
func (a *foreground) report(ctx context.Context, state identity.State) error {
	m := newMachine(a.nvidiaSMI, a.noGPU, state.Gateway.GPUsExpected, a.state)
	news := make(chan struct{}, 1)
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { m.watch(watching, a.probeInterval(state), news) })
	defer group.Wait()
	defer stop()
	notices := func() []string { return append(a.notices(), m.notices()...) }
	loop, err := heartbeat.New(heartbeat.Config{
		Client: a.client, Directory: a.directory, State: state, Interval: a.interval, Agent: agentInfo(),
		Hardware: m.hardware, Cost: m.cost, Health: m.health, GPUsSeen: m.seen, Expect: m.expect, Notices: notices, Wake: news,
		Status: a.status, Logger: a.log, GPUs: m.summary, Progress: a.notifier.Progress,
	})
	if err != nil {
		return err
	}
	return loop.Run(ctx)
}

// probeInterval is the pace of the looks at the GPUs: what the operator says, else that of the heartbeats, since nobody sees a
// look in between. It is at most one a second.
func (a *foreground) probeInterval(state identity.State) time.Duration {
	pace := a.gpuInterval
	if pace == 0 {
		pace = a.interval
	}
	if pace == 0 {
		pace = time.Duration(state.Gateway.IntervalSeconds) * time.Second
	}
	if pace <= 0 {
		pace = heartbeat.DefaultInterval
	}
	return max(pace, leastGPUInterval)
}

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

// saveStatus tells whoever looks on this machine how an enrolment goes.
func (a *foreground) saveStatus(err error) {
	if err != nil {
		a.status.LastError = err.Error()
	}
	if a.notifier != nil {
		a.notifier.Starting(startTime, "enrolling: "+a.status.LastError)
	}
	if a.progress != nil {
		a.progress(err)
	}
	if err := a.directory.SaveStatus(a.status); err != nil {
		a.log.Warn("the status file cannot be written", "error", err)
	}
}
