package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"muster/agent/internal/command"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/update"
	"muster/agent/wire"
)

// updates keeps this agent at the version that the gateway wants.
func (a *foreground) updates(state identity.State, hold hold, answered func() bool, tell func()) *update.Updater {
	return update.New(update.Config{
		Client: a.Client, State: state, Folder: a.State, Policies: a.policies(), Digest: a.Agent.Digest, Logger: a.Log,
		Hold: hold, Answered: answered, Elsewhere: a.Client.Elsewhere, News: tell,
		Restart: func() {
			select {
			case a.ending <- errUpdate:
			default: // it ends already
			}
		},
	})
}

// settleIn makes an agent that nothing keeps one that can update itself: what it updates is an installed build. If this very program was
// replaced by an update before, such as in a container that begins anew from its image, the current build takes over, however many
// updates came since. A program that no update has replaced, such as that of a new image, is installed. If it returns, this
// program goes on.
func (a *foreground) settleIn(state identity.State) {
	base, err := filepath.Abs(a.State)
	record, unread := update.Read(base)
	if err != nil || state.Gateway.Channel == "" && record.Channel == "" { // it is given no updates
		return
	}
	if a.kept(base) || (service.Manager{System: a.System, Base: base}).Installed() != "" {
		return
	}
	layout := service.Layout{Base: base}
	own := strings.TrimPrefix(a.Agent.Digest, "sha256:")
	last := record.Last
	switch {
	case layout.Current() == own && layout.Good() != "":
		return
	case unread == nil && wasReplaced(record, own) && takesOver(layout, last):
		a.Log.Info("this program was updated before: the newer one takes over", "build", layout.Current())
		a.starts.End(nil) // the newer one counts its own start
		err = a.launch(base)
	default:
		_, err = layout.Install(service.OwnProgram)
		if err == nil {
			err = errors.Join(layout.SetCurrent(own), layout.SetGood(own))
		}
	}
	if err != nil {
		a.Log.Warn("this agent cannot update itself", "error", err)
	}
}

// wasReplaced reports whether an update took the place of a build, or is about to.
func wasReplaced(r update.Record, build string) bool {
	return r.Last.From == build || slices.Contains(r.Replaced, build)
}

// takesOver reports whether the current build is started in place of this program: a good one, or the one of the last update. One on trial
// is: what starts it judges it first, and a container that was started anew says nothing against it.
func takesOver(l service.Layout, last update.Last) bool {
	switch current := l.Current(); {
	case current == "":
		return false
	case current == last.To:
		return last.Phase == wire.UpdateCommitted || last.Phase == wire.UpdateTrial
	default:
		return current == l.Good()
	}
}

// follow does what the agent ended for. Nothing of it runs any more.
func (a *foreground) follow(ctx context.Context, why error) error {
	switch {
	case errors.Is(why, errUninstall):
		return command.Leave(ctx, a.Program, []string{"--state", a.State})
	case errors.Is(why, errRestart):
		a.Log.Info("starting anew")
		a.file.Flush()
		return a.System.Replace(a.notifier.Environ())
	}
	return a.handOver()
}

// handOver lets another version take over. What keeps the agent starts it, once this process has ended. If nothing keeps the agent, this
// process becomes what does.
func (a *foreground) handOver() error {
	base, err := filepath.Abs(a.State)
	if err != nil {
		return err
	}
	a.Log.Info("another version is started")
	if a.kept(base) {
		if update.OnTrial(base) != "" { // a unit that a person wrote may start no guard
			err = service.StartGuard(base, string(a.Way))
		}
		if err != nil {
			a.Log.Warn("the new version runs without a guard", "error", err)
		}
		return nil
	}
	return a.launch(base)
}

// launch makes this process what starts the current version, and starts it again while it is on trial.
func (a *foreground) launch(base string) error {
	keeper := service.Layout{Base: base}.GoodProgram()
	args := append([]string{keeper, "launch", "--stay", "--state", base, "--transport", string(a.Way), "--"}, a.flags...)
	a.file.Flush()
	return a.System.Become(keeper, args, a.notifier.Environ())
}

// kept reports whether something starts the agent again when it ends.
func (a *foreground) kept(base string) bool {
	if a.Getenv(wire.EnvSupervised) != "" || a.Getenv(wire.EnvKept) != "" || a.notifier.Told() {
		return true
	}
	m := service.Manager{System: a.System, Base: base, Settings: a.System.SettingsPath()}
	return m.Installed() == service.OpenRC && m.Agent() == os.Getpid()
}
