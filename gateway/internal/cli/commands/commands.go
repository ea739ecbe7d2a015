// Package commands is the whole command line: it lists the groups of commands, in the order in which help shows them.
package commands

import (
	"slices"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/fleet"
	"muster/gateway/internal/cli/gateway"
	"muster/gateway/internal/cli/giveback"
	"muster/gateway/internal/cli/health"
	"muster/gateway/internal/cli/join"
	"muster/gateway/internal/cli/logs"
	"muster/gateway/internal/cli/maas"
	"muster/gateway/internal/cli/node"
	"muster/gateway/internal/cli/placement"
	"muster/gateway/internal/cli/provider"
	"muster/gateway/internal/cli/release"
	"muster/gateway/internal/cli/remote"
	"muster/gateway/internal/cli/run"
	"muster/gateway/internal/cli/session"
	"muster/gateway/internal/cli/status"
	"muster/gateway/internal/cli/task"
)

// All returns the commands of all groups. A new group is a package beside these, and a line here.
func All() []cli.Command {
	return cli.Shorten(first(), slices.Concat(
		join.TokenCommands(),
		join.BootstrapCommands(),
		node.Commands(),
		giveback.Commands(),
		placement.CheckCommands(),
		logs.LogsCommands(),
		logs.ShippingCommands(),
		remote.TunnelCommands(),
		remote.ShellCommands(),
		fleet.GPUCommands(),
		fleet.TopCommands(),
		health.HealthCommands(),
		health.AlertCommands(),
		task.Commands(),
		run.Commands(),
		session.Commands(),
		placement.Commands(),
		provider.AccountCommands(),
		join.OnboardCommands(),
		provider.LeaseCommands(),
		maas.Commands(),
		release.Commands(),
		join.PushCommands(),
		gateway.AccountCommands(),
		gateway.TenantCommands(),
		gateway.LoginCommands(),
		gateway.CACommands(),
		gateway.BackupCommands(),
		gateway.ServiceCommands(),
		gateway.ClusterCommands(),
		health.EventCommands(),
		status.Commands(),
		cli.OwnCommands(),
	))
}
