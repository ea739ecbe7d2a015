package main

import (
	"context"

	"muster/agent/internal/account"
	"muster/agent/internal/logs"
	"muster/agent/internal/session"
	"muster/agent/internal/task"
	"muster/agent/pipe"
	"muster/agent/wire"
)

// sessions opens what operators ask for on this machine.
func (a *foreground) sessions(accounts *account.Accounts, reader logs.Host) *session.Host {
	return session.New(session.Config{
		Client: a.Client, State: a.State, Policies: a.policies(), Logger: a.Log, Accounts: accounts,
		Logs: func(ctx context.Context, main *pipe.End, params *wire.LogsParams) (pipe.Exit, error) {
			return reader.Serve(ctx, main, params)
		},
	})
}

// hold keeps out what an update of the agent would break off, as update.Config has it.
type hold = func(ctx context.Context) (release func(), ok bool)

// holdBoth keeps new tasks and new sessions out, while there are none.
func holdBoth(tasks *task.Worker, sessions *session.Host) hold {
	return func(ctx context.Context) (func(), bool) {
		letTasks, ok := tasks.Hold(ctx)
		if !ok {
			return nil, false
		}
		letSessions, ok := sessions.Hold()
		if !ok {
			letTasks()
			return nil, false
		}
		return func() { letSessions(); letTasks() }, true
	}
}
