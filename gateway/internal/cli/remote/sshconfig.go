package remote

import (
	"context"
	"fmt"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
)

// aliveEvery is how often ssh says something by itself, in seconds. So a session in which nothing happens is not taken for one that is
// idle.
const aliveEvery = 60

func sshConfig(ctx context.Context, s *cli.Session) error {
	names := s.Words
	if len(names) == 0 {
		var err error
		if names, err = allNames(ctx, s); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := wire.CheckName(name); err != nil {
			return cli.Usagef("name nodes as muster node ls shows them", "%q is not a node's name", name)
		}
	}
	fmt.Fprintf(s.Stdout, "Host %s\n    ProxyCommand %s\n    ServerAliveInterval %d\n", strings.Join(names, " "), proxyCommand(s), aliveEvery)
	return nil
}

func allNames(ctx context.Context, s *cli.Session) ([]string, error) {
	var names []string
	err := s.EachNode(ctx, api.NodeFilter{}, func(n api.Node) error {
		names = append(names, n.Name)
		return nil
	})
	if err == nil && len(names) == 0 {
		err = cli.Hinted("the fleet has no node", "muster token create prints the command that joins one")
	}
	return names, err
}

// proxyCommand is what ssh gives to a shell, in whatever folder it runs. To ssh a percent sign is more than itself.
func proxyCommand(s *cli.Session) string {
	words := s.Program + s.Way()
	return strings.ReplaceAll(words, "%", "%%") + " node proxy %h %p"
}
