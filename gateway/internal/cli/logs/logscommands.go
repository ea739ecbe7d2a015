// Package logs has the commands that show the logs of nodes, and that have nodes ship them.
package logs

import "muster/gateway/internal/cli"

// LogsCommands show the logs of nodes.
func LogsCommands() []cli.Command {
	return []cli.Command{
		{Name: "node logs", Args: "NAME...", Most: -1,
			Flags: []string{"selector", "follow", "since", "source", "grep", "lines", "utc", "output"}, Run: nodeLogs,
			Forms: []string{formatText, cli.FormJSON},
			Says: map[string]string{
				"since":  "lines of so long ago and later, such as 1h, or of a time and later, such as 2026-11-23T10:00:00Z",
				"follow": "go on with new lines as they come, until ^C",
				"output": "text or json",
			},
			Summary: "show the logs of nodes, and follow them",
			Text: "A source is agent (the agent's own log, unless --source says otherwise), kernel, boot (all of this boot), unit:NAME (a " +
				"systemd unit) or workload:NAME (a container or a program that muster started). Several sources are merged by time; with -f the lines " +
				"come as the nodes send them.\n\n" +
				"Without --since it begins with the last 200 lines, with -f with the last 10. Times are the node's, in the zone of this " +
				"machine. A line that begins with --- says what is missing, or what happened to the connection. With -o json one line " +
				"is one object. muster help logs says more.",
			Examples: []string{"muster node logs gpu-1", "muster node logs gpu-1 -f --source kernel --grep Xid",
				"muster node logs gpu-1 --source unit:docker.service,agent --since 2h", "muster node logs -l tier=prod -f -o json"}},
	}
}
