package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/transport"
	"muster/agent/internal/trust"
	"muster/agent/wire"
)

const leaveExamples = `  muster-agent leave
  muster-agent leave --force          also where the gateway cannot be told

The gateway retires the node: its certificate is worth nothing from then on, and its name is free. Then the service, its
settings, the agent's state and the agent itself are removed, with what a bootstrap script put beside them: what of that
stays, such as the trust in a registry, is named. To come back, join with a new token.
`

func (p program) leave(ctx context.Context, args []string) error {
	settingsPath := p.system.SettingsPath()
	settings, err := service.Manager{System: p.system, Settings: settingsPath}.LoadSettings()
	if err != nil {
		settings = service.Settings{} // they are about to go
	}
	p.getenv = settings.Or(p.getenv)
	f := p.flags("leave", "Gives this node back and removes the agent from this machine without a trace.", leaveExamples)
	state := f.String("state", p.statePath(), "state `DIR`")
	gateway := f.String("gateway", "", "`URL` of the gateway (default: the one that this node is enrolled with)")
	force := f.Bool("force", false, "remove the agent even if the gateway cannot be told")
	if err := f.parse(args); err != nil {
		return err
	}
	base, err := filepath.Abs(*state)
	if err != nil {
		return err
	}
	m := service.Manager{System: p.system, Base: base, Settings: settingsPath}
	if *state == "" || len(m.Traces()) == 0 {
		fmt.Fprintln(p.stdout, "no agent is installed here: nothing to do (if it was joined with --state DIR, give that)"+p.asRoot("leave"))
		return nil
	}
	if err := p.tell(ctx, base, *gateway, *force); err != nil {
		return err
	}
	stays, err := p.remove(ctx, m)
	if err != nil {
		return err
	}
	for _, what := range stays {
		fmt.Fprintf(p.stdout, "stays: %s\n", what)
	}
	if len(stays) == 0 {
		fmt.Fprintln(p.stdout, "left: this machine is as it was before")
		return nil
	}
	fmt.Fprintln(p.stdout, "left: but for what stays, this machine is as it was before")
	return nil
}

// remove takes away what there is of muster, and says so line by line.
func (p program) remove(ctx context.Context, m service.Manager) (stays []string, err error) {
	var removed []string
	if p.system.UID == 0 {
		removed, stays, err = m.RemoveBootstrap(ctx)
	}
	if err == nil {
		var more []string
		more, err = m.Remove(ctx)
		removed = append(removed, more...)
	}
	if err == nil && p.system.UID == 0 && len(removed) > 0 {
		m.RemoveBootstrapFolder()
	}
	for _, path := range removed {
		fmt.Fprintf(p.stdout, "removed %s\n", path)
	}
	return stays, err
}

// tell has the gateway retire the node. It comes first: a gateway that cannot be told leaves everything as it was.
func (p program) tell(ctx context.Context, base, gateway string, force bool) error {
	state, err := identity.Read(base)
	if err == nil && state.Current == nil {
		fmt.Fprintln(p.stdout, "this machine is not enrolled: there is no gateway to tell")
		return nil
	}
	if err == nil {
		if gateway == "" {
			gateway = state.Gateway.URL
		}
		err = p.retire(ctx, state, gateway)
	}
	if err == nil {
		fmt.Fprintf(p.stdout, "told %s: node %s is retired\n", gateway, state.Name)
		return nil
	}
	if !force {
		return fmt.Errorf("%w\nnothing was removed: try again when the gateway can be reached, or add --force to remove the agent all the same", err)
	}
	fmt.Fprintf(p.stdout, "the gateway was not told (%v): %s\n", err, untold(err, state.Name))
	return nil
}

// untold is what an operator does about a node that left without a word. In a conflict the name is also that of the machine that stays.
func untold(err error, name string) string {
	var refusal *transport.Refusal
	if errors.As(err, &refusal) && refusal.Code == wire.CodeIdentityConflict {
		return "another machine uses this identity too, so the node is not retired; an operator gives it back to that machine: " +
			"muster help identity-trouble says how"
	}
	return "an operator should run muster node retire " + name
}

// retire says goodbye. A gateway that does not want this node any more has nothing to be told.
func (p program) retire(ctx context.Context, state identity.State, gateway string) error {
	client, err := transport.New(transport.Config{Gateway: gateway, Version: version, Timeout: p.limit(transport.DefaultTimeout), Way: transport.Auto})
	if err != nil {
		return err
	}
	defer client.Close()
	id, err := state.Transport()
	if err != nil {
		return err
	}
	client.Use(id)
	var answer wire.LeaveAnswer
	err = client.Call(ctx, wire.LeavePath(state.NodeID), struct{}{}, &answer)
	if trust.Stale(err) {
		err = p.retryTrusted(ctx, client, state, err)
	}
	var refusal *transport.Refusal
	if errors.As(err, &refusal) {
		switch refusal.Code {
		case wire.CodeRetired, wire.CodeRevoked, wire.CodeBanned, wire.CodeSuperseded, wire.CodeUnknownCertificate:
			fmt.Fprintf(p.stdout, "the gateway has given this node up already (%s)\n", refusal.Code)
			return nil
		}
	}
	return err
}

// retryTrusted says goodbye again where the gateway's roots or keys have changed since the agent last heard of them.
func (p program) retryTrusted(ctx context.Context, client *transport.Client, state identity.State, failed error) error {
	next, news, err := trust.Refresh(ctx, client, state)
	if err != nil || !news {
		return failed
	}
	id, err := next.Transport()
	if err != nil {
		return err
	}
	client.Use(id)
	var answer wire.LeaveAnswer
	return client.Call(ctx, wire.LeavePath(state.NodeID), struct{}{}, &answer)
}
