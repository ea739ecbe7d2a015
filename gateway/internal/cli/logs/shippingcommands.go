package logs

import "muster/gateway/internal/cli"

// ShippingCommands say which nodes ship which logs, and to where.
func ShippingCommands() []cli.Command {
	return []cli.Command{
		{Name: "logs ship create", Args: "[NAME]", Most: 1, Run: create,
			Flags: []string{"to", "selector", "source", "tenant", "auth-file", "bearer-file", "tenant-id", "sink-ca", "rate", "output"},
			Says: map[string]string{"selector": "the nodes that ship; without it all", "tenant": "nodes of this tenant only",
				"source":    "agent, kernel, boot, unit:NAME or workload:NAME, with commas between; may be repeated",
				"auth-file": "file with USER:PASSWORD for the sink (- is standard input)", "output": "table or json; json prints the rule"},
			Summary: "have nodes ship logs to a Loki, or change how",
			Text: "A name that is there already is changed, and goes on with the lines that wait. With the same URL it keeps its secret. " +
				"Without NAME the host and the selector make one. muster help logs describes the labels.",
			Examples: []string{"muster logs ship create prod --to https://loki.example --selector tier=prod --source agent,kernel",
				"muster logs ship create cloud --to https://logs.example --source agent --auth-file loki.txt --rate 256KiB"}},
		{Name: "logs ship ls", Flags: []string{"tenant", "output"}, Run: list, Summary: "list the rules, and how they do",
			Text: "The numbers count since the gateway started.", Examples: []string{"muster logs ship ls -o wide"}},
		{Name: "logs ship show", Args: "NAME", Least: 1, Most: 1, Flags: []string{"output"}, Run: show,
			Says:    map[string]string{"output": "table or json; json prints the rule"},
			Summary: "show one rule, what was dropped, and why", Text: "The numbers count since the gateway started.",
			Examples: []string{"muster logs ship show prod"}},
		{Name: "logs ship test", Args: "NAME", Least: 1, Most: 1, Flags: []string{"output"}, Run: test,
			Says:    map[string]string{"output": "table or json; json prints how it went"},
			Summary: "push one test line", Text: "It waits for the answer, and fails if the line was not taken.",
			Examples: []string{"muster logs ship test prod"}},
		{Name: "logs ship delete", Args: "NAME", Least: 1, Most: 1, Flags: []string{"yes"}, Run: drop,
			Summary: "ship no more by a rule", Text: "The lines that wait in its buffer are deleted with it.",
			Examples: []string{"muster logs ship delete lab --yes"}},
	}
}
