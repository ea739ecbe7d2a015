// Package join makes a machine a node for good. It enrols, installs the agent, has the machine's service manager keep it running, and
// waits until the gateway has heard from it.
//
// Each step can be interrupted, and the same command goes on from there. All that may fail is checked before the credential is spent.
package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"muster/agent/flags"
	"muster/agent/internal/command"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/wire"
)

const joinExamples = `  MUSTER_TOKEN=mse_... muster-agent join --gateway https://gateway.example:7443
  muster-agent join --gateway https://gateway.example --token-file /run/token \
      --name gpu-1 --label tier=sovereign
  muster-agent join --check --gateway https://gateway.example --token mse_...

It enrols this machine, installs the agent below its state directory, has
systemd, OpenRC or cron keep it running, and ends when the node is online.
Otherwise it says what is wrong and what to do. The same command again changes
nothing, or finishes what was interrupted. With a newer agent it updates. The
settings keep --name, --label and the like. They never hold the token.
`

// joining is one run of join.
type joining struct {
	command.Program
	command.Options
	manager  service.Manager
	layout   service.Layout
	settings service.Settings // as they will be
	before   service.Settings // as they are now
	live     *live            // stdout
	check    bool
	force    bool

	kind    service.Kind // keeps the agent running from now on
	from    string       // the file that the credential came from
	digest  string       // of this program
	anew    bool         // the gateway is not the one of the identity
	restart bool         // an agent that runs must be restarted
	oldPID  int          // the status of this process does not count: it is the agent from before
}

// joinSteps is the number of steps.
const joinSteps = 5

// Run runs the command join.
func Run(ctx context.Context, p command.Program, args []string) error {
	j, err := prepareJoin(p, args)
	if err != nil {
		return err
	}
	if j.check {
		return j.checkAll(ctx)
	}
	if j.from, err = j.HoldSecret(j.Program); err != nil {
		return err
	}
	if j.digest, err = service.Digest(service.OwnProgram); err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	j.Provider, j.InstanceID = command.Place(ctx, j.Getenv, j.Provider, j.InstanceID)
	if err := j.refuseOther(); err != nil {
		return err
	}
	if j.kind, err = j.manager.Choose(ctx); err != nil {
		return err
	}
	if line := j.nothingToDo(); line != "" {
		j.dropToken() // an earlier join may have been interrupted before it did
		fmt.Fprintln(j.Stdout, line)
		return nil
	}
	return j.walk(ctx)
}

// walk takes the steps. Each prints one line. A step that fails prints why, and ends the walk.
func (j *joining) walk(ctx context.Context) error {
	steps := [joinSteps]func(context.Context) (string, error){j.reach, j.enrol, j.install, j.stay, j.online}
	for i, step := range steps {
		line, err := step(ctx)
		if ctx.Err() != nil {
			err = errors.New("interrupted: the same command goes on from here")
		}
		if err != nil {
			j.say(fmt.Sprintf("[%d/%d] failed: %v", i+1, joinSteps, err))
			return fmt.Errorf("not joined: step %d of %d failed, as said there; on the gateway, muster help not-joining says what to do",
				i+1, joinSteps)
		}
		j.say(fmt.Sprintf("[%d/%d] %s", i+1, joinSteps, line))
	}
	program := j.layout.Program()
	fmt.Fprintf(j.Stdout, "joined. How it is:\n  %s status\nTo give it back:\n  %s leave\n", program, program)
	return nil
}

// note prints what happens between the lines of two steps.
func (j *joining) note(format string, args ...any) {
	j.say("      " + fmt.Sprintf(format, args...))
}

// say prints a text, on a terminal in lines that it holds. All but the first are indented.
func (j *joining) say(text string) {
	const indent = "      "
	columns := j.live.width()
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if columns > 0 {
			line = strings.Join(command.Fold(line, columns-len(indent)), "\n"+indent)
		}
		lines[i] = line
	}
	fmt.Fprintln(j.Stdout, strings.Join(lines, "\n"+indent))
}

// prepareJoin reads the flags. For a flag that is not given, what an earlier run was told counts.
func prepareJoin(p command.Program, args []string) (*joining, error) {
	path := p.System.SettingsPath()
	before, err := service.Manager{System: p.System, Settings: path}.LoadSettings()
	if err != nil {
		return nil, err
	}
	p.Getenv = kept(before).Or(p.Getenv) // flags read their defaults through it
	screen := newLive(p.Stdout)
	p.Stdout = screen
	j := &joining{Program: p, before: before, live: screen}
	f := p.Flags("join", "Enrols this machine, installs the agent so that it stays, and waits until the node is online.", joinExamples,
		append(command.RunFlags(),
			flags.Flag{Name: "check", Off: true, Usage: "only say whether joining would work; nothing is changed, no token spent"},
			flags.Flag{Name: "force", Off: true, Usage: "leave the gateway that this machine is joined to for another one"},
			flags.Flag{Name: "reload-units", Off: true, Usage: "reload systemd where the unit changed"})...)
	var own struct{ Check, Force, ReloadUnits bool }
	if j.Options, err = command.Parse(f, args, &own); err != nil {
		return nil, err
	}
	j.check, j.force, j.manager.ReloadUnits = own.Check, own.Force, own.ReloadUnits
	if j.State, err = filepath.Abs(j.State); err != nil {
		return nil, err
	}
	if path == "" {
		return nil, command.Usagef("no place for the settings is known here: set HOME to a directory of this user, " +
			"for this and every later call of muster-agent")
	}
	for _, place := range []string{j.State, path} {
		if err := service.CheckPath(place); err != nil {
			return nil, command.Usagef("%s", err)
		}
	}
	j.manager.System = p.System
	j.manager.Base = j.State
	j.manager.Settings = path
	j.layout = service.Layout{Base: j.State}
	j.settings = j.wantedSettings(f)
	return j, nil
}

// refuseOther is the error where this machine is joined to another gateway, so that nobody changes the gateway by mistake, or where an
// agent runs here that join did not install.
func (j *joining) refuseOther() error {
	state, err := identity.Read(j.State)
	if err != nil {
		return err
	}
	for _, joined := range []string{j.before[wire.EnvGateway], state.Gateway.URL} {
		if joined != "" && joined != j.GatewayURL() && !j.force {
			return fmt.Errorf("this machine is joined to %s, and you named %s: leave the first one (%s leave), "+
				"or add --force to change over", joined, j.GatewayURL(), j.Named(j.State))
		}
	}
	if identity.Running(j.State) && !j.installedAgent() {
		return fmt.Errorf("a muster-agent that was started by hand is at work on %s: end it, then join again", j.State)
	}
	return nil
}

// installedAgent reports whether the agent at work is one that join installed. It looks for up to a second, because an agent that has
// just started has not written its process id yet.
func (j *joining) installedAgent() bool {
	for range 20 {
		if j.manager.Agent() != 0 || !identity.Running(j.State) {
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

// nothingToDo is the line to print where the agent is online and installed as this command would install it. Otherwise it is empty, and
// join takes all its steps.
func (j *joining) nothingToDo() string {
	state, err := identity.Read(j.State)
	status, unread := identity.ReadStatus(j.State)
	switch {
	case err != nil || unread != nil || state.Current == nil || status.Phase != identity.PhaseOnline || j.manager.Agent() == 0:
		return ""
	case j.Elsewhere(state) || state.Gateway.URL != j.GatewayURL() || !j.Fits(state.Gateway):
		return ""
	case j.force && j.HasSecret(): // the gateway may be set up anew, and the agent may not have noticed yet
		return ""
	case j.digest != j.layout.Current() || j.digest != j.layout.Good() || j.manager.Unfinished():
		return ""
	case !j.settings.Equal(j.before) || j.manager.Installed() != j.kind || j.manager.ReloadUnits:
		return ""
	}
	if _, supervised := service.Supervisor(j.State); j.kind == service.Supervised && !supervised {
		return ""
	}
	return fmt.Sprintf("already joined as %s and online since %s: nothing to do", state.Name, status.Since.Format(time.RFC3339))
}

// quiet is this program without a screen. join itself prints what matters.
func (j *joining) quiet() command.Program {
	p := j.Program
	p.Stderr = io.Discard
	return p
}
