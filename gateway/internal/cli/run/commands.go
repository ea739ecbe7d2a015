// Package run has the commands that start programs on nodes, list, follow and end them.
package run

import "muster/gateway/internal/cli"

// Commands returns the commands of the group.
func Commands() []cli.Command {
	return []cli.Command{
		{Name: "run ls", Args: "[NODE...]", Most: -1, Flags: []string{"selector", "all", "output"}, Run: runList,
			Says:    map[string]string{"all": "also those that have ended, as without it"},
			Summary: "list the programs that were started on nodes",
			Text: "Those that run, those that are queued for their node, and those that have ended and are not removed yet: a node keeps the " +
				"last ones. A line is as the node said last.",
			Examples: []string{"muster run ls", "muster run ls gpu-1", "muster run ls -l tier=spot -o json"}},
		{Name: "run show", Args: "NAME [NODE]", Least: 1, Most: -1, Flags: []string{"output"}, Run: runShow,
			Says:     map[string]string{"output": "table or json; json prints what muster run ls prints"},
			Summary:  "show one program: how it is, or how it ended",
			Text:     "On each node that has one of this name. What is shown is as the node said last.",
			Examples: []string{"muster run show train", "muster run show train gpu-1"}},
		{Name: "run logs", Args: "NAME [NODE]", Least: 1, Most: -1, Flags: []string{"follow", "lines"}, Run: cli.With(runLogs),
			Says: map[string]string{"follow": "go on with new lines as they come, until the program ends",
				"lines": "only so many of the last lines"},
			Summary: "show what a program has written",
			Text: "The node keeps the last 16 to 32 MiB. muster node logs NODE --source workload:NAME shows the same with times, and " +
				"muster logs ship takes it to Loki.",
			Examples: []string{"muster run logs train", "muster run logs -f train gpu-1"}},
		{Name: "run stop", Args: "NAME [NODE]", Least: 1, Most: -1, Flags: []string{"all", "grace"}, Run: cli.With(runStop),
			Says:    map[string]string{"all": "on each node that has one of this name"},
			Summary: "end a program, and remove it with its output",
			Text: "The program and all that it has started are asked to end (SIGTERM), and killed after the grace. A program that has ended by " +
				"itself is only removed, and a queued one is taken back. Again it changes nothing.",
			Examples: []string{"muster run stop train", "muster run stop train gpu-1 --grace 2m"}},
		{Name: "run", Args: "NODE... -- PROGRAM [ARG...]", Most: -1, Program: true,
			Flags: []string{"selector", "alloc", "name", "gpus", "env", "env-secret", "user", "dir", "wait", "expires", "key", "yes", "output"},
			Run:   runStart, Forms: []string{cli.FormTable, cli.FormJSON},
			Says: map[string]string{
				"name":   "what the program is called on its node, else its own name and a few letters; one that has ended is replaced",
				"gpus":   "so many GPUs that nothing uses; it sees no others",
				"alloc":  "the allocation whose GPUs it uses; without NODE on each node that it has",
				"wait":   "show what the program writes, and end with its exit code",
				"output": "table or json; json prints one task a line",
			},
			Summary: "start a program that runs on without you",
			Text: "The program runs on when this command, the connection or the agent ends, and through updates of the agent. Its node keeps " +
				"what it writes, and how it ended: muster run logs, muster run ls and muster run stop name it. No shell looks at the words " +
				"behind --; for a pipe or a variable, run sh -c '...'. It has no terminal and nothing to read: muster node shell is for that.\n\n" +
				"When the program ends, what it has left behind ends too: a daemon stays in the foreground (--foreground, --no-daemon).\n\n" +
				"--env-secret NAME=SECRET takes the value from a secret of muster secret set. It is in no argument, and what the program " +
				"writes has [secret] in its place.\n\n" +
				"Without --gpus the program may see all GPUs and holds none. With --gpus N the node chooses N that nothing uses, or says why " +
				"there are fewer. They count as in use until the program ends. With --alloc ID it uses the GPUs of an allocation " +
				"(muster alloc create), and ends with it.\n\n" +
				"With --wait, ^C leaves the program running. " + cli.AskText,
			Examples: []string{"muster run gpu-1 --gpus 1 -- python train.py --epochs 3",
				"muster run gpu-1 --name train --wait --env-secret HF_TOKEN=hf-token --dir /srv/job -- python train.py",
				"muster run --alloc 7xk2mnb4qz6wpa3d -- torchrun train.py",
				"muster run -l tier=spot --yes -- sh -c 'nvidia-smi > /tmp/gpus.txt'"}},
	}
}
