package main

import (
	"context"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/logs"
	"muster/agent/internal/policy"
	"muster/agent/internal/ship"
	"muster/agent/internal/update"
	"muster/agent/internal/variable"
	"muster/agent/internal/workload"
	"muster/agent/wire"
)

// policyPause is the wait before the owner's policy is looked at again while a log is followed.
const policyPause = time.Minute

// shipping sends the logs that the gateway asks for.
func (a *foreground) shipping(state identity.State) *ship.Shipper {
	host := a.logs(state)
	return ship.New(ship.Config{Node: state.NodeID, Folder: a.State, Call: a.Client.Call, Logger: a.Log,
		Follow: func(ctx context.Context, source string, from ship.Place, take func(wire.LogLine, string) error) error {
			return followLog(ctx, host, a.policies(), logs.Ask{Source: source, Since: from.Since, After: from.After, Follow: true}, take)
		},
	})
}

// logs is what reads the logs of this machine.
func (a *foreground) logs(state identity.State) logs.Host {
	host := logs.Host{State: a.State, User: a.System.UID != 0, Workloads: workload.Host{State: a.State, Node: state.NodeID}}
	if token := a.Getenv(variable.Token); token != "" {
		host.Secrets = []string{token}
	}
	return host
}

// followLog hands on the lines of a log, with the place behind each. An owner who lets nobody read the logs lets nobody have them shipped.
func followLog(ctx context.Context, host logs.Host, policies []string, ask logs.Ask, take func(wire.LogLine, string) error) error {
	if err := mayShip(policies); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() { stop(forbidden(ctx, policies)) }()
	r, err := host.Open(ctx, ask)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		line, err := r.Next(ctx)
		if err == nil {
			err = take(line, r.Position())
		}
		if err != nil {
			return err
		}
	}
}

// mayShip asks the owner's policy. The gateway alone orders what is shipped, so no operator's key vouches for it.
func mayShip(policies []string) error {
	owners, err := policy.Load(policies...)
	if err != nil {
		return err
	}
	return owners.CheckSession(wire.SessionLogs, "")
}

// forbidden waits until the policy forbids to ship, or until ctx ends.
func forbidden(ctx context.Context, policies []string) error {
	ticker := time.NewTicker(policyPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		if err := mayShip(policies); err != nil {
			return err
		}
	}
}

// heard hands the answer to a heartbeat to those who follow it.
func heard(updates *update.Updater, shipping *ship.Shipper) func(identity.State, *wire.Update, wire.HeartbeatAnswer) {
	return func(state identity.State, said *wire.Update, answer wire.HeartbeatAnswer) {
		updates.Heard(state, said, answer)
		shipping.Heard(answer.Logs)
	}
}
