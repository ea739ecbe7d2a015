// Package commands is the whole command line: it lists the groups of commands, in the order in which help shows them.
package commands

import (
	"slices"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/account"
	"muster/gateway/internal/cli/alert"
	"muster/gateway/internal/cli/backup"
	"muster/gateway/internal/cli/bootstrap"
	"muster/gateway/internal/cli/ca"
	"muster/gateway/internal/cli/event"
	"muster/gateway/internal/cli/gpu"
	"muster/gateway/internal/cli/health"
	"muster/gateway/internal/cli/login"
	"muster/gateway/internal/cli/logs"
	"muster/gateway/internal/cli/node"
	"muster/gateway/internal/cli/push"
	"muster/gateway/internal/cli/release"
	"muster/gateway/internal/cli/service"
	"muster/gateway/internal/cli/session"
	"muster/gateway/internal/cli/shell"
	"muster/gateway/internal/cli/shipping"
	"muster/gateway/internal/cli/task"
	"muster/gateway/internal/cli/token"
	"muster/gateway/internal/cli/top"
	"muster/gateway/internal/cli/tunnel"
)

// All are the commands of all groups. A new group is a package beside these, and a line here.
func All() []cli.Command {
	return slices.Concat(
		token.Commands(),
		bootstrap.Commands(),
		node.Commands(),
		logs.Commands(),
		shipping.Commands(),
		tunnel.Commands(),
		shell.Commands(),
		gpu.Commands(),
		top.Commands(),
		health.Commands(),
		alert.Commands(),
		task.Commands(),
		session.Commands(),
		release.Commands(),
		push.Commands(),
		account.Commands(),
		login.Commands(),
		ca.Commands(),
		backup.Commands(),
		service.Commands(),
		event.Commands(),
		cli.OwnCommands(),
	)
}
