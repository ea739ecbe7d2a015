package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"muster/agent/internal/identity"
	"muster/agent/internal/leave"
	"muster/agent/internal/service"
	"muster/agent/internal/task"
	"muster/agent/internal/update"
	"muster/agent/internal/variable"
)

// updates keeps this agent at the version that the gateway wants.
func (a *foreground) updates(state identity.State, tasks *task.Worker, news chan<- struct{}) *update.Updater {
	return update.New(update.Config{
		Client: a.Client, State: state, Folder: a.State, Policies: a.policies(), Digest: a.AgentInfo().Digest, Logger: a.Log,
		Hold: tasks.Hold, Elsewhere: a.Client.Elsewhere,
		Restart: func() {
			select {
			case a.ending <- errUpdate:
			default: // it ends already
			}
		},
		News: func() {
			select {
			case news <- struct{}{}:
			default:
			}
		},
	})
}

// follow does what the agent ended for. Nothing of it runs any more.
func (a *foreground) follow(ctx context.Context, why error) error {
	switch {
	case errors.Is(why, errUninstall):
		return leave.Run(ctx, a.Program, []string{"--state", a.State})
	case errors.Is(why, errRestart):
		a.Log.Info("starting anew")
		return a.System.Replace(a.notifier.Environ())
	}
	return a.handOver()
}

// handOver lets another version take over. What keeps the agent starts it, once this process has ended. Where nothing keeps the agent, this
// process becomes what does.
func (a *foreground) handOver() error {
	base, err := filepath.Abs(a.State)
	if err != nil {
		return err
	}
	a.Log.Info("another version is started")
	if a.kept(base) {
		if update.OnTrial(base) != "" { // what keeps the agent may be older than guards
			err = service.StartGuard(base)
		}
		if err != nil {
			a.Log.Warn("the new version runs without a guard", "error", err)
		}
		return nil
	}
	keeper := service.Layout{Base: base}.GoodProgram()
	args := append([]string{keeper, "launch", "--stay", "--state", base, "--transport", string(a.Way), "--"}, a.flags...)
	return a.System.Become(keeper, args, a.notifier.Environ())
}

// kept reports whether something starts the agent again when it ends.
func (a *foreground) kept(base string) bool {
	if a.Getenv(variable.Supervised) != "" || a.Getenv(variable.Kept) != "" || a.notifier.Told() {
		return true
	}
	m := service.Manager{System: a.System, Base: base, Settings: a.System.SettingsPath()}
	return m.Installed() == service.OpenRC && m.Agent() == os.Getpid()
}
