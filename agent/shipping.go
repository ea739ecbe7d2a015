package main

import (
	"context"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/logs"
	"muster/agent/internal/task"
	"muster/agent/internal/update"
	"muster/agent/internal/workload"
	"muster/agent/wire"
)

// shipPace is the wait between two looks at a log that is shipped: nobody watches the lines come.
const shipPace = 2 * time.Second

// shipping sends the logs that the gateway asks for.
func (a *foreground) shipping(state identity.State, host logs.Host) *logs.Shipper {
	return logs.NewShipper(logs.Shipping{Node: state.NodeID, Folder: a.State, Call: a.Client.Call, Logger: a.Log,
		May: func() error { return mayShip(a.policies()) },
		Follow: func(ctx context.Context, source string, from logs.Place, take func(wire.LogLine, string) error) error {
			return followLog(ctx, host, logs.Ask{Source: source, Since: from.Since, After: from.After, Follow: true, Pace: shipPace}, take)
		},
	})
}

// logs is what reads the logs of this machine.
func (a *foreground) logs(workloads workload.Host) logs.Host {
	host := logs.Host{State: a.State, User: a.System.UID != 0, Workloads: workloads}
	if token := a.Getenv(wire.EnvToken); token != "" {
		host.Secrets = []string{token}
	}
	return host
}

// followLog hands on the lines of a log, with the place behind each.
func followLog(ctx context.Context, host logs.Host, ask logs.Ask, take func(wire.LogLine, string) error) error {
	r, err := host.Open(ctx, ask)
	if err != nil {
		return err
	}
	return r.Each(ctx, take)
}

// mayShip asks the owner's policy: who lets nobody read the logs lets nobody have them shipped. The gateway alone orders what is shipped,
// so no operator's key vouches for it.
func mayShip(policies []string) error {
	owners, err := task.LoadPolicy(policies...)
	if err != nil {
		return err
	}
	return owners.CheckSession(wire.SessionLogs, nil)
}

// heard hands the answer to a heartbeat to those who follow it.
func heard(updates *update.Updater, shipping *logs.Shipper) func(identity.State, *wire.Update, wire.HeartbeatAnswer) {
	return func(state identity.State, said *wire.Update, answer wire.HeartbeatAnswer) {
		updates.Heard(state, said, answer)
		shipping.Heard(answer.Logs)
	}
}
