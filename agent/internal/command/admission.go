package command

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/sign"
	"muster/agent/wire"
)

// Applicant is this machine as it asks a gateway for an identity. One goroutine uses it.
type Applicant struct {
	Program
	Options
	Directory *identity.Directory
	Log       *slog.Logger
	Agent     wire.AgentInfo    // describes this program
	Client    *transport.Client // to the gateway, after Enrol or Connect
	Status    identity.Status   // what status.json says while an enrolment goes on
	Progress  func(error)       // gets each failure, and nil at the beginning; nil: nobody does
	ByHand    bool              // a person has just called join, so a given root pin is what they mean now
	Anew      bool              // the gateway was set up anew: what the identity from before knew of it does not count
}

// Begin returns the status of an agent that starts.
func Begin(version, gateway string) identity.Status {
	return identity.Status{
		PID: os.Getpid(), Version: version, Phase: identity.PhaseEnrolling, Gateway: gateway, Since: time.Now().UTC().Truncate(time.Second),
	}
}

// Moved reports whether the identity was made on another rented machine. Such an identity is never used here, because with a copied disk
// two machines would be one node. It is an error if no credential was given to get another identity.
func (a *Applicant) Moved(state identity.State) (bool, error) {
	if state.Current == nil || !a.Elsewhere(state) {
		return false, nil
	}
	if !a.HasSecret() {
		return true, fmt.Errorf("the identity in %s belongs to instance %s and this is %s: it is not used; set MUSTER_TOKEN to enrol "+
			"this machine afresh", a.State, state.InstanceID, a.InstanceID)
	}
	a.Log.Warn("the identity here belongs to another instance; enrolling afresh", "instance", state.InstanceID, "this", a.InstanceID)
	return true, nil
}

// Enrol gets an identity for this machine, however long that takes.
func (a *Applicant) Enrol(ctx context.Context, state identity.State) (identity.State, error) {
	credential, err := a.Credential(a.Program)
	if err != nil {
		return state, err
	}
	defer credential.Forget()
	a.ForgetSecret() // from here on the key alone is needed
	name := a.Name
	if name == "" {
		hostname, _ := os.Hostname()
		name = DefaultName(a.Provider, a.InstanceID, hostname)
	}
	if name == "" {
		return state, Usagef("this machine has no name of its own: give --name")
	}
	own := name
	var node *sign.Signer
	if !a.Anew && a.Knows(state) && !a.Elsewhere(state) { // another gateway gave it for itself
		name = state.NameFor(own)
		node = state.SignerAs(name)
	}
	a.Status.Name = name
	a.report(nil)
	state, err = a.enrolKnowing(ctx, state, identity.Enrolment{
		Directory: a.Directory, Credential: credential, Node: node, Name: name, Own: own, Labels: a.Labels,
		Provider: a.Provider, InstanceID: a.InstanceID, Agent: a.Agent, Logger: a.Log, Report: a.report,
	})
	if err != nil {
		return state, err
	}
	if err := gpu.Forget(a.State); err != nil {
		a.Log.Warn("how many GPUs there were before this enrolment cannot be forgotten", "error", err)
	}
	a.Log.Info("enrolled", "node", state.NodeID, "name", state.Name, "tenant", state.Tenant)
	return state, nil
}

// Connect makes the client to the gateway.
func (a *Applicant) Connect(first transport.FirstContact) (err error) {
	a.Client, err = transport.New(transport.Config{Gateway: a.Gateway, Version: a.Version, Logger: a.Log, First: first, Way: a.Way})
	return err
}

// report says on this machine how the enrolment goes.
func (a *Applicant) report(err error) {
	if err != nil {
		a.Status.LastError = err.Error()
	}
	if a.Progress != nil {
		a.Progress(err)
	}
	if err := a.Directory.SaveStatus(a.Status); err != nil {
		a.Log.Warn("the status file cannot be written", "error", err)
	}
}
