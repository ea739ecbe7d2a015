package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"muster/agent/internal/command"
	"muster/agent/internal/identity"
	"muster/agent/internal/logfile"
	"muster/agent/internal/transport"
)

// enrol is step 2: it keeps the identity that is here, or gets a new one.
func (j *joining) enrol(ctx context.Context) (string, error) {
	state, err := identity.Read(j.State)
	if err != nil {
		return "", err
	}
	if state.Current == nil && !j.HasSecret() {
		return "", command.ErrNoCredential // before anything is made that would stay behind
	}
	word := "known here as"
	step := j.goOn
	prepare := j.manager.MakeBase
	if j.needsEnrolment(ctx, state) {
		word = "enrolled as"
		step = j.replaceIdentity
		prepare = func() error { return j.prepare(ctx, state) }
	}
	if err := prepare(); err != nil {
		return "", err
	}
	state, err = step(ctx, state)
	if err != nil {
		return "", err
	}
	j.dropToken()
	leaf, err := state.Leaf()
	if err != nil {
		return "", err
	}
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	return fmt.Sprintf("%s %s (tenant %s), certificate until %s", word, state.Name, state.Tenant, until), nil
}

// prepare makes sure, before a credential is spent, that the agent can run and stay here. It checks the places as --check does, then
// copies the agent to its place and runs it there once.
func (j *joining) prepare(ctx context.Context, state identity.State) error {
	if err := j.fit(); err != nil {
		return err
	}
	if err := j.manager.MakeBase(); err != nil {
		return err
	}
	free, err := j.lock(ctx)
	if err == nil {
		_, err = j.place(ctx)
		free()
	}
	if err == nil || state.Current != nil || state.Pending != "" { // a key that may have been sent must stay: by it the gateway knows a retry
		return err
	}
	return errors.Join(fmt.Errorf("%w (the token is not spent)", err), j.manager.Undo())
}

// goOn keeps the identity that is here.
func (j *joining) goOn(ctx context.Context, state identity.State) (identity.State, error) {
	if err := j.checkPin(ctx, state); err != nil {
		return state, err
	}
	if state.Gateway.URL != j.GatewayURL() { // with --force: the same gateway has another address
		return j.moveGateway(ctx)
	}
	return state, nil
}

// dropToken removes the file in which cloud-init left a bootstrap token, because the token is used up. It removes no other file: a person
// may need that one for other machines.
func (j *joining) dropToken() {
	if from, err := filepath.Abs(j.from); j.from == "" || err != nil || from != j.manager.BootstrapToken() {
		return
	}
	if err := os.Remove(j.from); err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.note("remove the token's file: %v", err)
	}
}

// replaceIdentity stops the agent at work, because that holds the lock of the state directory, and enrols. If the enrolment fails, it
// starts the agent again with the identity from before.
func (j *joining) replaceIdentity(ctx context.Context, state identity.State) (identity.State, error) {
	switch {
	case j.HasSecret():
	case j.Elsewhere(state):
		return state, fmt.Errorf("the identity in %s belongs to instance %s and this is %s: give a token (MUSTER_TOKEN) to enrol this "+
			"machine afresh", j.State, state.InstanceID, j.InstanceID)
	default:
		return state, command.ErrNoCredential
	}
	if err := j.manager.Stop(ctx); err != nil {
		return state, err
	}
	next, err := j.enrolAfresh(ctx)
	if kind := j.manager.Installed(); err != nil && state.Current != nil && kind != "" && !j.Elsewhere(state) {
		j.note("nothing has changed: the identity of node %s goes on", state.NodeID)
		_, started := j.manager.Install(context.WithoutCancel(ctx), kind, false)
		err = errors.Join(err, started)
	}
	return next, err
}

// moveGateway stores the new address of the gateway. The identity still trusts only the root that it knows, so the agent refuses another
// gateway at that address.
func (j *joining) moveGateway(ctx context.Context) (identity.State, error) {
	if err := j.manager.Stop(ctx); err != nil {
		return identity.State{}, err
	}
	directory, state, err := j.open()
	if err != nil {
		return state, err
	}
	defer directory.Close()
	state.Gateway.URL = j.GatewayURL()
	state.Gateway.Last = ""
	return state, directory.Save(state)
}

// open takes the lock of the state directory and reads the identity. The caller closes the directory.
func (j *joining) open() (*identity.Directory, identity.State, error) {
	directory, err := identity.Open(j.State)
	if err != nil {
		return nil, identity.State{}, err
	}
	state, err := directory.Load()
	if err != nil {
		directory.Close()
		return nil, state, err
	}
	return directory, state, nil
}

// needsEnrolment reports whether this machine needs another identity for this gateway. If no credential was given, it keeps one
// that may still be good.
func (j *joining) needsEnrolment(ctx context.Context, state identity.State) bool {
	if state.Current == nil || j.Elsewhere(state) {
		return true
	}
	if !j.HasSecret() {
		return false
	}
	status, err := identity.ReadStatus(j.State)
	if err == nil && status.Phase == identity.PhaseRefused || state.Gateway.URL != j.GatewayURL() {
		return true
	}
	j.anew = j.force && j.strange(ctx, state) // a gateway that was set up anew at the same address
	return j.anew
}

// enrolAfresh enrols in this process, so that a failure is printed here and the token is written to no file.
func (j *joining) enrolAfresh(ctx context.Context) (identity.State, error) {
	directory, state, err := j.open()
	if err != nil {
		return state, err
	}
	defer directory.Close()
	file := logfile.New(j.layout.Log())
	file.Hide(j.Secrets()...)
	defer file.Flush()
	a := &command.Applicant{
		Program: j.quiet(), Options: j.Options, Directory: directory, ByHand: true, Anew: j.anew, Agent: j.AgentInfo(),
		Log:    logfile.NewLogger(j.Level, io.Discard, file),
		Status: command.Begin(j.Version, j.GatewayURL()),
	}
	if _, err := a.Moved(state); err != nil {
		return state, err
	}
	next, err := j.enrolBounded(ctx, a, state)
	if err == nil && state.Current != nil {
		j.note("the identity of node %s is not used any more; kept in %s", state.NodeID, j.State)
	}
	return next, err
}

// errNotYet ends an enrolment, which by itself would go on for ever.
var errNotYet = errors.New("no end of the enrolment in sight")

// enrolBounded enrols, and gives up after enrolTime. It gives up after the third answer that is not proven: such answers come from
// something between, or from a gateway that does not know the credential, and a person has to look.
func (j *joining) enrolBounded(ctx context.Context, a *command.Applicant, state identity.State) (identity.State, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	timer := time.AfterFunc(j.Limit(enrolTime), func() { giveUp(errNotYet) })
	defer timer.Stop()
	var former silence
	var last error
	unproven := 0
	a.Progress = func(err error) {
		if err == nil {
			return
		}
		last = err
		if wanted(err) > 0 {
			if former.wait(j, timer, err); former.over {
				giveUp(errNotYet)
			}
			return
		}
		var between *transport.Unproven
		if errors.As(err, &between) {
			unproven++
		}
		if unproven > 2 {
			giveUp(errNotYet)
			return
		}
		j.live.again("not enrolled yet", err)
	}
	state, err := a.Enrol(ctx, state)
	if err == nil || !errors.Is(context.Cause(ctx), errNotYet) {
		return state, err
	}
	if wanted(last) > 0 {
		return state, former.gaveUp(last)
	}
	if last == nil {
		last = errors.New("the gateway did not answer in time")
	}
	return state, fmt.Errorf("not enrolled: %w: mend that, then run the same command again; the token is not lost", last)
}
