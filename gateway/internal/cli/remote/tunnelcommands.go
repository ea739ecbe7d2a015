package remote

import (
	"fmt"

	"muster/agent/wire"
	"muster/gateway/internal/cli"
)

const (
	policyText = "The node's own policy may forbid it; without a word there, only the node itself is reached, " +
		"by its loopback address, at any port."
	rightsText = "--user names an account of the node whose rights count; without it, the user of the agent is meant, which is root if " +
		"the agent is installed as a service."
)

// TunnelCommands carry connections and files between here and a node. Most are of the group node.
func TunnelCommands() []cli.Command {
	return []cli.Command{
		{Name: "node forward", Args: "NAME [LOCAL:]PORT...", Least: 2, Most: -1, Flags: []string{"host", "key"}, Run: orderly(nodeForward),
			Summary: "reach ports of a node on ports here",
			Text: "Listens here and carries each connection to PORT on the node. LOCAL is a port of this machine, or ADDRESS:PORT; without " +
				"it, it is the same number. It listens on 127.0.0.1, so that nobody else gets through, unless LOCAL has an address. Port 0 " +
				"takes a free one; what it is, is printed.\n\n" +
				"It goes on until ^C. A lost connection to the gateway is tried again for a minute, and nothing is lost meanwhile. Without a " +
				"byte for half an hour, or as the gateway has it, the session ends.\n\n" +
				fmt.Sprintf("It carries %d connections at once to each port; more wait until one of them ends.\n\n", wire.MaxConnections) +
				"--host HOST has the node connect to another machine that it can reach, if its policy allows that. " + policyText + "\n\n" +
				keyText,
			Examples: []string{"muster node forward gpu-1 8888", "muster node forward gpu-1 8022:22 6006",
				"muster node forward gpu-1 0.0.0.0:8080:80", "muster node forward gpu-1 5432 --host db.internal"}},
		{Name: "node proxy", Args: "NAME PORT", Least: 2, Most: 2, Flags: []string{"host", "key"}, Run: orderly(nodeProxy),
			Summary: "carry standard input and output to a port of a node",
			Text: "One connection to PORT on the node, with its bytes on standard input and output. ssh calls it as a ProxyCommand, and so " +
				"ssh, scp, rsync and editors reach a machine whose provider opens no port: muster ssh-config prints the lines for it.\n\n" +
				policyText + "\n\n" + keyText,
			Examples: []string{"ssh -o ProxyCommand='muster node proxy %h %p' root@gpu-1",
				"rsync -e \"ssh -o ProxyCommand='muster node proxy %h %p'\" -a a root@gpu-1:/srv/"}},
		{Name: "node cp", Args: "NAME:PATH... LOCAL | LOCAL... NAME:PATH", Least: 2, Most: -1, Flags: []string{"recursive", "user", "key"},
			Run:     orderly(cli.With(nodeCopy)),
			Summary: "copy files and folders from a node or to it",
			Text: "One of the two is NAME:PATH, with an absolute path; what has a slash before its colon is a file here. If the target is " +
				"a folder, the file keeps its name. Several files go into a folder: end the target with a slash. The file's permissions are kept " +
				"too. The target is replaced when the whole file is there and its " +
				"SHA-256 is right, and not before.\n\n" +
				"-r copies a folder with all that is in it. Like cp -r, it puts the folder into a target that is a folder already, and makes " +
				"a target that is not there yet. FOLDER/. means what is in the folder. Permissions, times, links and holes of files are kept; " +
				"muster help sessions says the rest.\n\n" +
				"A copy that was cut goes on where it ended: give the same command again. Of a folder, files of the same size and time are " +
				"not sent again.\n\n" + rightsText + "\n\n" + keyText,
			Examples: []string{"muster node cp gpu-1:/var/log/syslog .", "muster node cp model.bin gpu-1:/srv/models/ --user ada",
				"muster node cp *.py gpu-1:/srv/",
				"muster node cp -r gpu-1:/srv/work .            # makes ./work", "muster node cp -r data gpu-1:/srv/             # makes /srv/data",
				"muster node cp -r data/. gpu-1:/srv/data       # adds to what is in /srv/data"}},
		{Name: "ssh-config", Args: "[NAME...]", Most: -1, Flags: []string{"selector"}, Run: sshConfig,
			Summary: "print lines for ssh's configuration",
			Text: "With these lines, ssh, scp, rsync and editors reach nodes by their names, through the gateway. Without names and without " +
				"a selector all nodes are meant that are not retired. The node needs a running sshd, on loopback at least, and you an account " +
				"there; muster ssh needs neither. Put the line \"Include muster\" at the top of ~/.ssh/config, above all " +
				"Host and Match lines, and the lines into ~/.ssh/muster.\n\n" +
				"A node chooses its name, and ssh believes these lines first. So names with a dot, and localhost, are left out, unless you give " +
				"them as NAME. If another node is called like a host of yours, rename the node, or give the names of those that you want.\n\n" +
				"The labels ssh_user and ssh_port of a node say which user and which port ssh takes there. muster does not know the keys of " +
				"sshd: ssh asks you once for each machine, and remembers it by the node's id. So another machine that takes over a name is " +
				"asked for anew.\n\n" +
				"With --url the lines name the file with the API token, or ssh has MUSTER_API_TOKEN in its environment. A secret is never in " +
				"them.",
			Examples: []string{"muster ssh-config > ~/.ssh/muster",
				"muster node label gpu-1 ssh_user=ada ssh_port=2222", "muster ssh-config gpu-1 gpu-2", "muster ssh-config -l tier=spot"}},
	}
}
