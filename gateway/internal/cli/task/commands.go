// Package task has the commands that give work to nodes, watch it, and show what came of it.
package task

import "muster/gateway/internal/cli"

const paramText = "Params stand behind the type as NAME=VALUE. NAME=@FILE takes the value from a file (for a list of texts, each line is " +
	"one), @- from standard input; a text that begins with @ is written with two. A list takes NAME=VALUE again and again, a " +
	"map NAME=KEY=VALUE. muster task types TYPE shows the params of a type."

// Commands returns the commands of the group.
func Commands() []cli.Command {
	return []cli.Command{
		{Name: "task run", Args: "NODE... TYPE [NAME=VALUE...]", Least: 1, Most: -1,
			Flags: []string{"selector", "params", "wait", "timeout", "expires", "at-most", "stop-after", "key", "yes", "output"}, Run: taskRun,
			Forms: []string{cli.FormTable, cli.FormJSON},
			Says: map[string]string{
				"timeout": "how long the work may take on a node, else what the type says",
				"output":  "table or json; json prints one task a line",
			},
			Summary: "give nodes a task",
			Text: paramText + "\n\nA workload whose params have allocation=ID needs no node: it runs where that " +
				"allocation is.\n\nThe command ends when the tasks are queued. With --wait it shows what they write while they run, and " +
				"ends when all have ended: with 0 if each was completed, else with 1. Ended by ^C it leaves the tasks as they are.\n\n" +
				"--at-most and --stop-after are for work that should not hit all nodes at once: both wait. " + cli.AskText +
				"\n\nWith --key FILE the task is signed here with a key that the gateway does not have; muster key add --task makes nodes " +
				"trust it.",
			Examples: []string{"muster task run gpu-1 diag.collect --wait",
				"muster task run gpu-1 provision_user username=ada ssh_public_keys=@ada.pub --wait",
				"muster task run -l tier=spot workload.stop all=true --at-most 10 --stop-after 2 --yes",
				"muster task run gpu-1 workload.oci_launch --params launch.json --key /media/usb/task.key"}},
		{Name: "task ls", Flags: []string{"node", "type", "status", "open", "lost", "tenant", "limit", "output"}, Run: cli.With(taskList),
			Says:    map[string]string{"node": "tasks of this node only", "status": "such as running, completed or failed"},
			Summary: "list tasks, newest first",
			Text:    "A table has the newest hundred unless --limit says another number. -o json has all.",
			Examples: []string{"muster task ls", "muster task ls --open", "muster task ls --lost", "muster task ls --node gpu-1 --status failed",
				"muster task ls -o json"}},
		{Name: "task show", Args: "ID...", Least: 1, Most: -1, Flags: []string{"output"}, Run: taskShow,
			Summary:  "show all that is known of tasks",
			Text:     "With the beginning and the end of what each has written. -o json has one object a line.",
			Examples: []string{"muster task show 4sl5ucv6e2vnxq7a"}},
		{Name: "task logs", Args: "ID", Least: 1, Most: 1, Flags: []string{"follow"}, Run: cli.With(taskLogs),
			Says:    map[string]string{"follow": "go on while the task runs"},
			Summary: "show what a task has written",
			Text: "Of long output the beginning (64 KiB) and the end (192 KiB) are kept. A line says how much is missing between them. " +
				"Into a file or a pipe the bytes go as they are; on a terminal, what could control it is escaped.",
			Examples: []string{"muster task logs 4sl5ucv6e2vnxq7a", "muster task logs -f 4sl5ucv6e2vnxq7a"}},
		{Name: "task download", Args: "ID [FILE]", Least: 1, Most: 2, Flags: []string{"force"}, Run: cli.With(taskDownload),
			Says:     map[string]string{"force": "replace a file that is there"},
			Summary:  "get the file that a task made",
			Text:     "Without FILE it gets the name that the node gave it, in this directory. FILE - is standard output.",
			Examples: []string{"muster task download 4sl5ucv6e2vnxq7a", "muster task download 4sl5ucv6e2vnxq7a - | tar tz"}},
		{Name: "task cancel", Args: "ID...", Least: 1, Most: -1, Run: taskCancel,
			Summary: "end tasks",
			Text: "A task that waits ends at once. A running task is ended by its node, within seconds; muster task show says when that " +
				"was. What it has done by then stays done.",
			Examples: []string{"muster task cancel 4sl5ucv6e2vnxq7a"}},
		{Name: "task retry", Args: "ID...", Least: 1, Most: -1, Run: taskRetry,
			Summary: "give lost tasks again",
			Text: "Nobody knows whether a lost task was done: look first. The new task has the same type, params and time, and the gateway " +
				"signs it. A task is not given again where a later one changes the same account or workload of its node.",
			Examples: []string{"muster task ls --lost", "muster task retry 4sl5ucv6e2vnxq7a"}},
		{Name: "task types", Args: "[TYPE]", Most: 1, Flags: []string{"output"}, Run: taskTypes,
			Summary:  "show what nodes can be asked to do, with the params",
			Text:     "A node's own policy may forbid types: muster help tasks says how.",
			Examples: []string{"muster task types", "muster task types workload.oci_launch", "muster task types -o json"}},
		{Name: "secret set", Args: "NAME", Least: 1, Most: 1, Flags: []string{"tenant", "file"}, Run: cli.With(secretSet),
			Summary: "keep a secret that tasks refer to by its name",
			Text: "The value comes from standard input or --file, never from the arguments; a newline at its end is cut. The gateway seals " +
				"it, and lends it to a node only for a task that names it and while that task runs. It is never shown again. The same name " +
				"replaces the value.",
			Examples: []string{"muster secret set hf-token --file token.txt",
				"pass show registry | muster secret set registry-login --tenant platform"}},
		{Name: "secret ls", Flags: []string{"tenant", "output"}, Run: secretList,
			Summary: "list secrets by name, without their values", Text: "A secret belongs to one tenant, and only its tasks can name it.",
			Examples: []string{"muster secret ls"}},
		{Name: "secret drop", Args: "NAME", Least: 1, Most: 1, Flags: []string{"tenant", "yes"}, Run: cli.With(secretDrop),
			Summary: "forget a secret", Text: "Tasks that name it fail from then on. It asks first unless --yes is given.",
			Examples: []string{"muster secret drop hf-token"}},
	}
}
