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

// sshHead stands above the lines. Whether an sshd runs on a node, only the node knows: its answer to a connection says so.
const sshHead = `# ssh, scp, rsync and editors reach these nodes by their names, through muster. A node needs an sshd for that, on its loopback
# address at least. On one without an sshd, muster ssh NODE opens a shell and muster cp copies files.
# A node chooses its name. If one is called like a host of yours, ssh goes to the node: rename it (muster node rename).
`

func sshConfig(ctx context.Context, s *cli.Session) error {
	proxy, err := proxyCommand(s)
	if err != nil {
		return err
	}
	nodes, err := sshNodes(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprint(s.Stdout, sshHead)
	for _, n := range nodes {
		if err := wire.CheckName(n.Name); err != nil {
			return fmt.Errorf("the gateway gives a node the name %q, which is none", n.Name)
		}
		if len(s.Words) == 0 && elsewhere(n.Name) {
			fmt.Fprintf(s.Stdout, "# %s is left out, because another host can have that name. To print it: muster ssh-config %[1]s\n", n.Name)
			continue
		}
		fmt.Fprintf(s.Stdout, "Host %s\n    HostKeyAlias %s\n", n.Name, hostKey(n))
		known := api.SSHOf(n.Labels)
		if known.User != "" {
			fmt.Fprintf(s.Stdout, "    User %s\n", known.User)
		}
		if known.Port != 0 {
			fmt.Fprintf(s.Stdout, "    Port %d\n", known.Port)
		}
		fmt.Fprintf(s.Stdout, "    ProxyCommand %s\n    ServerAliveInterval %d\n", proxy, aliveEvery)
	}
	return nil
}

// elsewhere tells whether a name can be that of a host of the internet, or of this one. A node chooses its name: one that is called so
// would take the place of that host.
func elsewhere(name string) bool {
	return strings.Contains(name, ".") || strings.EqualFold(name, "localhost")
}

// hostKey is the name under which ssh keeps the host's key: another machine that gets the name of this one later is another host.
func hostKey(n api.Node) string {
	if wire.CheckName(n.ID) != nil {
		return n.Name
	}
	return n.ID
}

// sshNodes are the nodes that were named or selected; without either, all that are not retired.
func sshNodes(ctx context.Context, s *cli.Session) (nodes []api.Node, err error) {
	for _, name := range s.Words {
		if err := wire.CheckName(name); err != nil {
			return nil, cli.Usagef("name nodes as muster node ls shows them", "%q is not a node's name", name)
		}
	}
	selector := s.Flags.Text("selector")
	nodes, err = s.Nodes(ctx, s.Words)
	switch {
	case err == nil && len(nodes) == 0 && selector != "":
		err = cli.Hinted(fmt.Sprintf("no node matches %q", selector), "muster node ls -o wide shows all nodes with their labels")
	case err == nil && len(nodes) == 0:
		err = cli.Hinted("the fleet has no node", "muster token create prints the command that joins one")
	}
	return nodes, err
}

// proxyCommand is what ssh gives to a shell, in whatever folder it runs. To ssh a percent sign is more than itself, and a line ends it.
func proxyCommand(s *cli.Session) (string, error) {
	words := s.Program + s.Way()
	if strings.ContainsAny(words, "\r\n\x00") {
		return "", cli.Usagef("move it to a folder whose name is one line", "the way to the gateway has a line feed in it, which ssh cannot take")
	}
	return strings.ReplaceAll(words, "%", "%%") + " node proxy %h %p", nil
}
