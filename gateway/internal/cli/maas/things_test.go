package maas_test

import (
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
)

func at(minutes float64) *time.Time {
	t := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC).Add(time.Duration(minutes * float64(time.Minute)))
	return &t
}

func seen() machines.State {
	return machines.State{Enabled: true, URL: "http://maas.lab:5240/MAAS", Version: "3.6.1", SyncedAt: at(-.5), Known: true}
}

func ready() machines.Machine {
	return machines.Machine{SystemID: "abc123", Hostname: "rack-1", Status: 4, StatusRaw: "Ready", State: machines.StateReady, Power: "off",
		Tags: []string{"slice-vm", "gpu"}, Pool: "default", Zone: "hall-2", CPUs: 192, MemoryMiB: 2 << 20, SeenAt: *at(-.5), Node: "rack-1",
		NodeID: "id-rack-1", NodeState: wire.StateReady, Profile: "slice-vm"}
}

// deploying is a machine at a step of a deployment.
func deploying(state, step, why string) machines.Machine {
	m := ready()
	m.State, m.StatusRaw, m.Owner, m.Power, m.NodeState = state, "Deploying", "muster", "on", wire.StateDeploying
	m.Heard = wire.StatusPending
	m.Work = &machines.Work{Act: machines.ActDeploy, Step: step, Since: *at(-5), By: "account:ada", Why: why}
	m.Next, m.Deadline = "deploy: waits for: its agent", at(40)
	return m
}

func deployed() machines.Machine {
	m := deploying(machines.StateDeployed, "", "")
	m.StatusRaw, m.Series, m.Work, m.Next, m.Deadline, m.NodeState, m.Heard = "Deployed", "noble", nil, "", nil, wire.StateActive, "online"
	m.Ended = &machines.Ended{Act: machines.ActDeploy, At: *at(0)}
	return m
}

func failed() machines.Machine {
	return machines.Machine{SystemID: "bad9", Hostname: "rack-2", Status: 11, StatusRaw: "Failed deployment", State: machines.StateFailed,
		Power: "error", Owner: "muster", Locked: true, SeenAt: *at(-.5), Error: "time-out \x1b[31mduring deployment", Node: "rack-2",
		NodeID: "id-rack-2", NodeState: wire.StateCommissioned, Finding: "deploy_failed_elsewhere", Next: "muster maas reset bad9"}
}

func fresh() machines.Machine {
	return machines.Machine{SystemID: "new7", StatusRaw: "New", State: machines.StateNew, SeenAt: *at(-.5)}
}

func all() machines.List {
	return machines.List{MAAS: seen(), Machines: []machines.Machine{ready(), deploying(machines.StateDeploying, "install", ""),
		failed(), fresh()}}
}

func thePlan() machines.Plan {
	return machines.Plan{MAAS: seen(), Steps: []machines.Step{
		{SystemID: "abc123", Hostname: "rack-1", Node: "rack-1", Finding: "in_work", Text: "something is done with it",
			Does: "deploy: waits for: its agent"},
		{SystemID: "bad9", Hostname: "rack-2", Node: "rack-2", Finding: "deploy_failed_elsewhere", Severity: wire.SeverityWarn,
			Text: "a deployment failed that muster has not on record", Next: "muster maas reset bad9"},
		{SystemID: "new7", Finding: "power_error", Severity: wire.SeverityWarn, Text: "MAAS cannot speak to its power control \x1b[31m",
			Next: "check its BMC's address, user and network in MAAS"}}}
}
