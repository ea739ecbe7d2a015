package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"muster/agent/flags"
	"muster/agent/internal/account"
	"muster/agent/internal/command"
	"muster/agent/internal/owner"
	"muster/agent/internal/process"
	"muster/agent/internal/service"
	"muster/agent/internal/workload"
	"muster/agent/wire"
)

const keepExamples = `  muster-agent keep --folder /var/lib/muster-agent/runs/train

A task of the type workload.process starts this. It keeps one program, what that
writes and how it ends, whatever becomes of the agent. Ask it to end (kill PID)
to end the program and all that belongs to it.
`

// keepRun is the command keep.
func keepRun(_ context.Context, p command.Program, args []string) error {
	o := struct{ Folder string }{}
	err := p.Flags("keep", "Keeps one program that a task has started, what it writes, and how it ends.", keepExamples,
		flags.Flag{Name: "folder", Value: "DIR", Usage: "the run's DIR in the agent's state directory"}).Parse(args, &o)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(o.Folder) {
		return command.Usagef("--folder DIR has to name the folder of a run: a task of the type workload.process makes it")
	}
	stdout, ok := p.Stdout.(io.WriteCloser)
	if !ok {
		return fmt.Errorf("standard output cannot be closed")
	}
	return process.Keep(o.Folder, p.Stdin, stdout)
}

// runs are the programs that tasks start on this machine, and that run on without the agent.
func (a *foreground) runs(m *command.Machine, news chan<- struct{}) process.Host {
	state := a.State
	if absolute, err := filepath.Abs(state); err == nil { // the keepers have another working directory
		state = absolute
	}
	return process.Host{State: state, News: news, Keeper: []string{service.OwnProgram, "keep", "--folder"},
		Accounts: &account.Accounts{State: a.State, Root: a.System.Root, UID: a.System.UID},
		GPUs: func(ctx context.Context) (wire.Probe, []wire.GPU) {
			if m.Prober == nil {
				return wire.Probe{State: wire.ProbeAbsent}, nil
			}
			r := m.Prober.Fresh(ctx)
			return r.Probe, r.GPUs
		}}
}

// owners says for which allocations the processes on the GPUs work.
func (a *foreground) owners(runs process.Host, workloads workload.Host) *owner.Finder {
	return &owner.Finder{Root: a.System.Root, Program: runs.Allocation, Accounts: runs.Accounts.Bound, Containers: workloads.Allocations}
}
