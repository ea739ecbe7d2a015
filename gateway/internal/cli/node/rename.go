package node

import (
	"context"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
)

func renameCommand() cli.Command {
	return cli.Command{Name: "node rename", Args: "NODE NAME", Least: 2, Most: 2, Flags: []string{"output"}, Run: nodeRename,
		Forms:   []string{cli.FormTable, cli.FormJSON},
		Summary: "give a node another name",
		Text: "The node's id stays, and with it its certificates, tasks, logs, series and costs, the bootstrap tokens that are bound to it, " +
			"and silences of the node itself. Its agent hears of the name with the next heartbeat. The old name is free from then on.\n\n" +
			"A selector such as name=gpu-7 in a silence, a health setting, an alert receiver or a rule of log shipping is not changed: the " +
			"command names each of them. In metrics the node has its new name, so a graph by name begins anew. Earlier events keep the name " +
			"that the node had then; muster events --node NAME finds them by the new one.\n\n" +
			"Names of retired nodes are free. Names of banned nodes are not.",
		Examples: []string{"muster node rename gpu-7 h100-a", "muster node rename n-1996f3a07ab20c55 h100-a"}}
}

func nodeRename(ctx context.Context, s *cli.Session) error {
	path := api.At(api.PathRename, s.Words[0])
	return cli.Show(ctx, s, "POST", path, api.RenameRequest{Name: s.Words[1]}, func(r api.RenamedNode) {
		s.Printf("%s: its name is %s\n", s.Words[0], r.Node.Name)
		for _, old := range r.Old {
			s.Printf("still by the old name: %s\n", old)
		}
	})
}
