// Package remote has the commands that work on a node from here: shells, programs, connections and files.
package remote

import (
	"muster/gateway/internal/cli"
)

// failed is the exit code where the session itself failed, so that it is not taken for the program's own. ssh has the same.
const failed = 255

// Exit codes of a node that could not run the program, as shells have them.
const (
	notRun   = 126
	notFound = 127
)

const (
	userText = "--user names an account of the node; without it, the user of the agent is meant, which is root if the agent is " +
		"installed as a service. The node's own policy may forbid sessions, or allow some users only."
	bridgeText = "A lost connection is tried again for a minute, and nothing is lost meanwhile; after that, what runs on the node is ended."
	codeText   = "Exit code 127 says that the node has no such program, 126 that it cannot be run, and 255 that the session itself failed: " +
		"the node did not take it, refused it, or was lost."
	keyText = "With --key FILE the session is signed here with a key that the gateway does not have; muster key add --task makes nodes " +
		"trust it."
)

// ShellCommands open shells and run programs on nodes. They are of the group node.
func ShellCommands() []cli.Command {
	return []cli.Command{
		{Name: "node shell", Args: "NAME [-- CMD ARG...]", Least: 1, Most: -1, Program: true, Flags: []string{"user", "key"}, Run: nodeShell,
			Says:    map[string]string{"user": "whose login shell it is, else that of the agent's user"},
			Summary: "work on a node in a terminal",
			Text: "Opens a login shell on the node, or runs CMD in a terminal there; without a terminal here, CMD runs as by muster node exec. " +
				"All keys go to the node: ^C too. The size of this " +
				"terminal goes there as it changes. The connection is the node's own, so no port of it has to be open.\n\n" +
				"Behind a new line ~. leaves and ends what runs there, ~? shows these keys, ~~ is a tilde.\n\n" +
				userText + " " + bridgeText + " What is to go on longer runs in tmux.\n\n" +
				"The gateway records shells, unless it is set otherwise; a line says so.\n\n" +
				"The exit code is that of the shell or of CMD. " + codeText + "\n\n" + keyText,
			Examples: []string{"muster node shell gpu-1", "muster node shell gpu-1 --user ada", "muster node shell gpu-1 -- tmux new -A -s work",
				"muster node shell gpu-1 -- nvtop"}},
		{Name: "node exec", Args: "NAME... -- CMD ARG...", Least: 0, Most: -1, Program: true,
			Flags:   []string{"selector", "user", "stdin", "at-most", "timeout", "key", "yes"},
			Run:     nodeExec,
			Says:    map[string]string{"at-most": "so many nodes at the same time (32)", "timeout": "end the program after this long on a node"},
			Summary: "run a program on nodes",
			Text: "Runs CMD with its arguments as they stand here. No shell looks at them: for pipes and variables of the node, CMD is " +
				"sh -c '...'. The words behind -- are for the node, also those that look like flags.\n\n" +
				"On one node, standard input, output and error are those of this command, byte for byte, and the exit code is the program's, " +
				"128 and the signal's number if a signal ended it. On several nodes, and with -l, each line begins with the node's name, " +
				"standard input is empty unless --stdin is given, and a table of all exit codes comes last, on standard error: then the exit " +
				"code is 0 if all were 0, else 1. A line of more than 64 KiB is broken.\n\n" +
				"^C sends the signal INT to the programs, a second ^C leaves them. " + cli.AskText + "\n\n" +
				userText + " " + bridgeText + " " + codeText + "\n\n" + keyText,
			Examples: []string{"muster node exec gpu-1 -- nvidia-smi -L", "muster node exec gpu-1 -- sh -c 'df -h / | tail -n 1'",
				"muster node exec gpu-1 -- tar cz -C /var/lib work > work.tgz", "muster node exec -l tier=spot --yes -- uptime",
				"muster node exec gpu-1 --user ada -- python3 - < train.py"}},
	}
}
