// Package node has the commands that show nodes and act on them.
package node

import "muster/gateway/internal/cli"

const (
	selectorText = "A selector is a list of terms that must all hold: tier=sovereign, tier!=spot, gpu (has the label), !gpu (has it " +
		"not). The keys tenant, name, provider, instance_id, state, status and gpus (how many it has) are understood too. 'price_per_hour<2' and " +
		"'gpus>=4' compare numbers, as do <= and >: a shell needs the quotes."
	costText = "The last line counts the nodes, and says what they cost in an hour by their labels price_per_hour, how much of that is idle " +
		"GPUs, and how much is silent: nodes that are not heard from. A node that counts as online, but was not heard since the gateway's " +
		"start, is online?."
	marksText = markUnwell + " says that GPUs are ill or missing or that the probe fails (-o wide says what, in the column HEALTH, with " +
		"what rules of health have found), " +
		markOld + " that the reading is older than the node's pace, so that the values are from that time (READ is its age). 7/8x means that " +
		"seven GPUs answer where eight are expected."
)

// Commands returns the commands of the group.
func Commands() []cli.Command {
	return []cli.Command{
		{Name: "node ls", Flags: []string{"selector", "status", "state", "all", "idle", "watch", "output"}, Run: cli.With(nodeList),
			Says:    map[string]string{"watch": "keep the list up to date until q"},
			Summary: "list nodes with their GPUs",
			Text: selectorText +
				"\n\nRetired nodes are left out unless --all is given. What is not known is shown as -. --idle shows nodes on which " +
				"utilisation, memory and power of all GPUs have said for ten minutes that nothing works there, the longest idle first, with what " +
				"that costs in an hour and has cost on this day (UTC), as far as the gateway watched.\n\n" + costText + "\n\n" +
				"A mark stands before the GPUs: " + marksText +
				" On a terminal, columns are left out and cells are cut if the screen is too narrow; -o wide has everything.\n\n" +
				watchText,
			Examples: []string{"muster node ls", "muster node ls --watch -l tenant=platform",
				"muster node ls -l tier=sovereign --status stale", "muster node ls -l 'price_per_hour<2,gpus>=4'", "muster node ls --idle",
				"muster node ls -o json | jq -r '.nodes[].name'"}},
		{Name: "node show", Args: "NAME...", Most: -1, Flags: []string{"selector", "output"}, Run: nodeShow,
			Summary:  "show all that is known of nodes",
			Text:     "A node is named by its name or its id.",
			Examples: []string{"muster node show vast-h100-39467543"}},
		{Name: "node wait", Args: "NAME...", Most: -1, Flags: []string{"selector", "status", "state", "timeout"}, Run: cli.With(nodeWait),
			Summary: "wait until nodes are online",
			Text: "Waits for --status (online), or for --state if only that is given. A node that has yet to join is waited for, and " +
				"so is one that was not heard since the gateway's start (online?). " +
				"Exit code 0 means that all are there, 1 that the time is up.",
			Examples: []string{"muster node wait vast-h100-39467543", "muster node wait gpu-1 gpu-2 --timeout 10m",
				"muster node wait gpu-1 --state drained"}},
		{Name: "node label", Args: "NAME... KEY=VALUE... KEY-...", Least: 1, Most: -1, Flags: []string{"selector", "yes"}, Run: nodeLabel,
			Summary: "set and remove labels",
			Text: "KEY=VALUE sets a label, KEY- removes one. The operator's labels win over those of " +
				"tokens and agents. The gateway reads three labels itself, and takes no value for them that it cannot read: price_per_hour " +
				"(a number in your own currency, such as 1.99), channel (such as stable) and maintenance-window (such as " +
				"Sat Sun 02:00-04:00, in UTC). " + cli.AskText,
			Examples: []string{"muster node label gpu-1 tier=sovereign", "muster node label gpu-1 gpu-2 rack=7 old-",
				"muster node label -l tier=spot price_per_hour=1.99 --yes"}},
		renameCommand(),
		seriesCommand(),
		gpusCommand(),
		billCommand(),
		recoveryCommand(),
		move("drain", "take nodes out of work", "A drained node stays alive and takes no new work. "+cli.AskText),
		move("resume", "put drained nodes back to work", "Also ends what a person set a node unavailable for. "+cli.AskText),
		move("retire", "remove nodes from the fleet; the machines stay untouched", "Their certificates are revoked and their names become "+
			"free. The entry is kept; node ls --all "+
			"shows it. It asks first unless --yes is given."),
		move("ban", "remove nodes from the fleet and refuse their return",
			"As retire, but the name, the keys and the tokens bound to the node are refused from now on. A node that joined with the "+
				"pre-shared key can come under another name: rotate the key. It asks first unless --yes is given."),
	}
}

func move(verb, summary, text string) cli.Command {
	return cli.Command{Name: "node " + verb, Args: "NAME...", Most: -1, Flags: []string{"selector", "yes"}, Run: nodeMove(verb),
		Summary: summary, Text: text,
		Examples: []string{"muster node " + verb + " vast-h100-39467543", "muster node " + verb + " -l tier=spot"}}
}
