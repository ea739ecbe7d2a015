package health

import (
	"muster/gateway/internal/cli"
)

// EventCommands show what happened.
func EventCommands() []cli.Command {
	return []cli.Command{
		{Name: "events", Flags: []string{"node", "actor", "kind", "tenant", "security", "since", "limit", "follow", "output"}, Run: cli.With(eventList),
			Summary: "show what happened: who, what, which node, from where",
			Text: "The latest 100 unless --since or --limit say " +
				"otherwise, oldest first. With -o json one event a line.",
			Examples: []string{"muster events", "muster events --since 1h --node vast-h100-39467543", "muster events -f --security"}},
		auditCommand(),
	}
}

// auditCommand is events with its eye on security.
func auditCommand() cli.Command {
	return cli.Command{Name: "audit", Flags: []string{"node", "actor", "kind", "tenant", "security", "since", "limit", "follow", "output"},
		Run:     cli.With(auditList),
		Says:    map[string]string{"security": "security events only, as without it"},
		Summary: "show who did what: tokens, enrolments, refusals, moves and admin calls",
		Text: "The events that concern security, as muster events --security shows them: the latest 100 unless --since or --limit " +
			"say otherwise, oldest first. With -o json one event a line.",
		Examples: []string{"muster audit --since 1d", "muster audit --node gpu-7", "muster audit --actor alice", "muster audit -f -o json"}}
}
