package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/sign"
)

const joinExamples = `  MUSTER_TOKEN=mse_... muster-agent join --gateway https://gateway.example:7443
  muster-agent join --gateway https://gateway.example --token-file /run/token --name gpu-1 --label tier=sovereign
  muster-agent join --check --gateway https://gateway.example --token mse_...

It enrols this machine, installs the agent below its state directory, makes what this machine has (systemd, OpenRC, cron)
keep it running, and ends when the node is online, or with what is wrong and what to do. The same command again changes
nothing, or finishes what was interrupted; with a newer agent it updates. What --name, --label and the like were is kept in
the settings, the token nowhere.
`

// joining is one run of join.
type joining struct {
	program
	options
	manager  service.Manager
	layout   service.Layout
	settings service.Settings // as they shall be
	before   service.Settings // as they are
	live     *live            // stdout
	check    bool
	force    bool

	kind     service.Kind // what will keep the agent running
	from     string       // the file that the credential came from
	digest   string       // of this program
	previous string       // the build that was current
	anew     bool         // the gateway is provably another one than the identity's
	restart  bool         // an agent that runs has to be started anew
	oldPID   int          // the agent that must have gone before an online status counts
}

// joinSteps is how many there are, for the numbers in front of what they say.
const joinSteps = 5

func (p program) join(ctx context.Context, args []string) error {
	j, err := p.joinOptions(args)
	if err != nil {
		return err
	}
	if j.check {
		return j.checkAll(ctx)
	}
	if err := j.readSecret(); err != nil {
		return err
	}
	if j.digest, err = service.Digest(ownProgram); err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	j.provider, j.instanceID = place(ctx, j.getenv, j.provider, j.instanceID)
	if err := j.refuseOther(); err != nil {
		return err
	}
	if j.kind, err = j.manager.Choose(ctx); err != nil {
		return err
	}
	if line := j.nothingToDo(); line != "" {
		j.dropToken()
		fmt.Fprintln(j.stdout, line)
		return nil
	}
	return j.walk(ctx)
}

// ownProgram is this program's file, also when it was deleted or replaced since.
const ownProgram = "/proc/self/exe"

// walk takes the steps. Each says one line; the one that fails says why, and ends the walk.
func (j *joining) walk(ctx context.Context) error {
	steps := [joinSteps]func(context.Context) (string, error){j.reach, j.enrol, j.install, j.stay, j.online}
	for i, step := range steps {
		line, err := step(ctx)
		if ctx.Err() != nil {
			err = errors.New("interrupted: the same command goes on from here")
		}
		if err != nil {
			fmt.Fprintf(j.stdout, "[%d/%d] failed: %s\n", i+1, joinSteps, strings.ReplaceAll(err.Error(), "\n", "\n      "))
			return fmt.Errorf("not joined: step %d of %d failed, as said there; on the gateway, muster help not-joining says what to do", i+1, joinSteps)
		}
		fmt.Fprintf(j.stdout, "[%d/%d] %s\n", i+1, joinSteps, line)
	}
	fmt.Fprintf(j.stdout, "joined. How it is: %s status    To give it back: %s leave\n", j.layout.Program(), j.layout.Program())
	return nil
}

// note says what happens between two steps' lines.
func (j *joining) note(format string, args ...any) {
	fmt.Fprintf(j.stdout, "      "+format+"\n", args...)
}

// joinOptions reads the flags; what an earlier run was told stands in for what is not said now.
func (p program) joinOptions(args []string) (*joining, error) {
	path := p.system.SettingsPath()
	before, err := service.Manager{System: p.system, Settings: path}.LoadSettings()
	if err != nil {
		return nil, err
	}
	p.getenv = kept(before).Or(p.getenv)
	screen := newLive(p.stdout)
	p.stdout = screen
	j := &joining{program: p, before: before, live: screen}
	f := p.flags("join", "Enrols this machine, installs the agent so that it stays, and waits until the node is online.", joinExamples)
	f.BoolVar(&j.check, "check", false, "only say whether joining would work; nothing is changed, no token spent")
	f.BoolVar(&j.force, "force", false, "leave the gateway that this machine is joined to for another one")
	f.BoolVar(&j.manager.ReloadUnits, "reload-units", false, "reload systemd where the unit changed")
	if j.options, err = p.parseOptions(f, args); err != nil {
		return nil, err
	}
	if j.state, err = filepath.Abs(j.state); err != nil {
		return nil, err
	}
	if path == "" {
		return nil, usagef("no place for the settings is known here: set HOME to a directory of this user, " +
			"for this and every later call of muster-agent")
	}
	for _, place := range []string{j.state, path} {
		if err := service.CheckPath(place); err != nil {
			return nil, usageError{err.Error()}
		}
	}
	j.manager.System, j.manager.Base, j.manager.Settings = p.system, j.state, path
	j.layout = service.Layout{Base: j.state}
	j.settings = j.wantedSettings(f)
	return j, nil
}

// readSecret reads the credential once, from wherever it is, and names a mistyped one before anything is done.
func (j *joining) readSecret() error {
	if !j.hasSecret() {
		return nil
	}
	text, err := j.secret(&j.options)
	if err != nil {
		return err
	}
	j.from = j.tokenFile
	j.forgetSecret()
	j.token = text
	if isToken(text) || j.tokenShown {
		credential, err := j.credential(&j.options)
		credential.Forget()
		return err
	}
	return sign.CheckPSK(text) // stretching a pre-shared key takes a while: when it is needed
}

// refuseOther keeps a node from being taken to another gateway by mistake.
func (j *joining) refuseOther() error {
	state, err := identity.Read(j.state)
	if err != nil {
		return err
	}
	for _, joined := range []string{j.before["MUSTER_GATEWAY"], state.Gateway.URL} {
		if joined != "" && joined != j.gatewayURL() && !j.force {
			return fmt.Errorf("this machine is joined to %s, and you named %s: leave the first one (%s leave), "+
				"or add --force to change over", joined, j.gatewayURL(), j.named(j.state))
		}
	}
	if identity.Running(j.state) && !j.installedAgent() {
		return fmt.Errorf("a muster-agent that was started by hand is at work on %s: end it, then join again", j.state)
	}
	return nil
}

// installedAgent reports whether the agent at work is one that join started. One that has just been started has not
// written who it is yet.
func (j *joining) installedAgent() bool {
	for range 20 {
		if j.manager.Agent() != 0 || !identity.Running(j.state) {
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

// nothingToDo says so where the agent is installed, as this command would do it, and online.
func (j *joining) nothingToDo() string {
	state, err := identity.Read(j.state)
	status, unread := identity.ReadStatus(j.state)
	switch {
	case err != nil || unread != nil || state.Current == nil || status.Phase != identity.PhaseOnline || j.manager.Agent() == 0:
		return ""
	case j.movedTo(state) || state.Gateway.URL != j.gatewayURL() || !j.fits(state.Gateway):
		return ""
	case j.force && j.hasSecret(): // for a gateway that was set up anew, which the agent may not have noticed
		return ""
	case j.digest != j.layout.Current() || j.digest != j.layout.Good() || j.manager.Unfinished():
		return ""
	case !j.settings.Equal(j.before) || j.manager.Installed() != j.kind || j.manager.ReloadUnits:
		return ""
	}
	if _, supervised := service.Supervisor(j.state); j.kind == service.Supervised && !supervised {
		return ""
	}
	return fmt.Sprintf("already joined as %s and online since %s: nothing to do", state.Name, status.Since.Format(time.RFC3339))
}

// movedTo reports whether the identity was made on another rented machine.
func (j *joining) movedTo(state identity.State) bool {
	return state.InstanceID != "" && j.instanceID != "" && state.InstanceID != j.instanceID
}

// quiet is this program without a screen: join says itself what is worth it.
func (j *joining) quiet() program {
	p := j.program
	p.stderr = io.Discard
	return p
}
