package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"muster/agent/internal/account"
	"muster/agent/internal/clean"
	"muster/agent/internal/command"
	"muster/agent/internal/diag"
	"muster/agent/internal/evidence"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/session"
	"muster/agent/internal/task"
	"muster/agent/internal/workload"
	"muster/agent/wire"
)

// Why the agent ends by itself.
var (
	errRestart   = errors.New("a task starts the agent anew")
	errUninstall = errors.New("a task removes the agent")
	errUpdate    = errors.New("another version of the agent is to be started")
)

// hands are what does the tasks.
type hands struct {
	*foreground
	accounts  *account.Accounts
	workloads workload.Host
	machine   *command.Machine
	worker    *task.Worker
}

// tasks does the work that the gateway gives this node.
func (a *foreground) tasks(
	state identity.State, m *command.Machine, workloads workload.Host, sessions *session.Host, tell func(),
) *task.Worker {
	h := &hands{foreground: a, machine: m, accounts: workloads.Runs.Accounts, workloads: workloads}
	h.worker = task.New(task.Config{
		Client: a.Client, State: state, Folder: a.State, Policies: a.policies(), Handle: h.handle, Session: sessions.Open, News: tell,
		Logger: a.Log,
	})
	return h.worker
}

// policies are the files in which the owner may say what is done here.
func (a *foreground) policies() []string {
	return []string{filepath.Join(a.System.OwnerFolder(), task.PolicyFile), filepath.Join(a.State, task.PolicyFile)}
}

// handle does one task. This switch is the one place that knows what does the tasks of a type.
func (h *hands) handle(ctx context.Context, job task.Job) task.Outcome {
	switch params := job.Params.(type) {
	case *wire.ProvisionUser:
		return h.accounts.DoProvision(ctx, job, params)
	case *wire.DeprovisionUser:
		return h.accounts.DoDeprovision(ctx, job, params)
	case *wire.WorkloadLaunch:
		return h.workloads.Launch(ctx, job, params)
	case *wire.WorkloadProcess:
		return h.workloads.Process(ctx, job, params)
	case *wire.WorkloadStop:
		return h.workloads.Stop(ctx, job, params)
	case *wire.WorkloadStatus:
		return h.workloads.Status(ctx, job, params)
	case *wire.WorkloadLogs:
		return h.workloads.Logs(ctx, job, params)
	case *wire.NodeCheck:
		return h.checker().Do(ctx, job, params)
	case *wire.GPUClean:
		return h.cleaner().Do(ctx, job, params)
	case *wire.DiagCollect:
		return h.collector().Do(ctx, job)
	case *wire.AgentRestart:
		return task.Outcome{After: h.restart}
	case *wire.AgentUninstall:
		return task.Outcome{After: h.uninstall}
	}
	return task.Failed(wire.Refuse(wire.CodeTaskTypeUnknown, "this agent does not know how to do "+job.Type, "update it"))
}

// collector knows what diag.collect takes from this machine.
func (h *hands) collector() diag.Collector {
	c := diag.Collector{
		Version: h.Version, State: h.State, Settings: h.System.SettingsPath(), Root: h.System.Root, User: h.System.UID != 0,
		Token: h.Getenv(wire.EnvToken), Tasks: h.worker.Steps,
	}
	if prober := h.machine.Prober; prober != nil {
		c.Describe = prober.Describe
		c.Reading = func() any { return prober.Reading() }
	}
	return c
}

// checker looks whether this machine is what somebody asks for.
func (h *hands) checker() evidence.Checker {
	c := evidence.Checker{Root: h.System.Root, State: h.State, Engines: h.workloads.Engines, Trial: h.workloads.Trial}
	if prober := h.machine.Prober; prober != nil {
		c.Look = prober.Fresh
		c.Ask = prober.Ask
	}
	return c
}

// cleaner ends what allocations have left on this machine.
func (h *hands) cleaner() clean.Cleaner {
	c := clean.Cleaner{Root: h.System.Root, End: h.workloads.EndAllocation, EndAccount: h.accounts.EndAllocation}
	if prober := h.machine.Prober; prober != nil {
		c.Look = prober.Fresh
		c.Ask = prober.Ask
	}
	return c
}

// awaitEnd ends with what ends the agent.
func (a *foreground) awaitEnd(ctx context.Context) error {
	select {
	case why := <-a.ending:
		return why
	case <-ctx.Done():
		return nil
	}
}

// restart starts the agent anew, once no other task is at work: what it breaks off would be reported as interrupted.
func (h *hands) restart(ctx context.Context) error {
	if h.worker.Idle(ctx) {
		h.ending <- errRestart
	}
	return nil
}

// uninstall removes the agent. An installed one is stopped by what removes it, which is therefore a process of its own. Another one ends,
// and removes itself then.
func (a *foreground) uninstall(ctx context.Context) error {
	base, err := filepath.Abs(a.State)
	if err != nil {
		return err
	}
	m := service.Manager{System: a.System, Base: base, Settings: a.System.SettingsPath()}
	if m.Agent() != os.Getpid() {
		a.ending <- errUninstall
		return nil
	}
	ended := make(chan error, 1)
	if err := m.StartLeave(func(err error) { ended <- err }); err != nil {
		return err
	}
	select {
	case err := <-ended:
		return fmt.Errorf("the agent was not removed (%w): see %s, or run muster-agent leave on the node", err, m.LeaveLog())
	case <-ctx.Done():
		return nil
	}
}
