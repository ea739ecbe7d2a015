// Package placement has the commands about who gets which GPUs: profiles and checks of nodes, slots, SKUs, allocations, quotas.
package placement

import "muster/gateway/internal/cli"

const oneJSON = "table or json; json prints what the gateway answers"

// Commands returns the commands of the group, except the check of a node.
func Commands() []cli.Command {
	return append(append(profileCommands(), slotCommands()...), allocCommands()...)
}

// CheckCommands returns the command that checks a node.
func CheckCommands() []cli.Command {
	return []cli.Command{{Name: "node check", Args: "NAME [-- PROGRAM [ARG...]]", Least: 1, Most: 1, Program: true, Run: cli.With(nodeCheck),
		Flags: []string{"accept", "image", "login", "timeout", "wait", "output"},
		Says: map[string]string{"timeout": "give up after this long (30m)", "wait": "wait for what it finds, as without it",
			"output": oneJSON},
		Summary: "look whether a node is as its profile asks",
		Text: "The agent looks at what the node's profile asks for, and says of each check ok, failed or unknown, with what it saw. What is " +
			"unknown counts as failed. The command waits for that, and ends with 1 where something is missing; ^C leaves the check at work." +
			"\n\nWith --accept it also proves that the machine is what is paid for: its GPUs against what the token or the offer says, " +
			"PCIe, NVLink, memory errors, disk and network. Each figure is shown beside the median of the nodes with the same GPUs. With " +
			"--image a container gets all GPUs and runs the words behind --; its exit code counts.",
		Examples: []string{"muster node check gpu-1", "muster node check gpu-1 --accept",
			"muster node check gpu-1 --accept --image registry.example/dcgm@sha256:DIGEST -- dcgmi diag -r 1"}}}
}

func profileCommands() []cli.Command {
	return []cli.Command{
		{Name: "profile push", Args: "FILE", Least: 1, Most: 1, Flags: []string{"output"}, Run: profilePush,
			Says:    map[string]string{"output": oneJSON},
			Summary: "add a profile, or change one",
			Text: "FILE is JSON (- is standard input), as muster profile show NAME -o json prints it. A profile says which checks a host must " +
				"pass, what cloud-init does for it, and which slots it gives. Those that are built in cannot be changed.",
			Examples: []string{"muster profile push lab.json"}},
		{Name: "profile ls", Flags: []string{"output"}, Run: profileList, Summary: "list the profiles",
			Text: "A node has at most one.", Examples: []string{"muster profile ls", "muster profile ls -o wide"}},
		{Name: "profile show", Args: "PROFILE...", Least: 1, Most: -1, Flags: []string{"output"}, Run: profileShow,
			Says: map[string]string{"output": oneJSON}, Summary: "show what a profile asks for and gives",
			Text: "With what cloud-init does for such a host.", Examples: []string{"muster profile show gpuaas-profile-slice-vm"}},
		{Name: "profile assign", Args: "PROFILE NODE...", Least: 1, Most: -1, Flags: []string{"selector", "yes", "output"}, Run: assign,
			Says:    map[string]string{"output": oneJSON},
			Summary: "say what nodes are for: give them a profile",
			Text: "It takes the place of the profile that a node had. PROFILE none takes it away. A node that is heard from is looked at then. " +
				"A profile for slices and one for bare metal exclude each other: a node with allocations keeps what it has. " + cli.AskText,
			Examples: []string{"muster profile assign gpuaas-profile-baremetal gpu-1 gpu-2", "muster profile assign container -l provider=vast_ai",
				"muster profile assign none gpu-1"}},
		{Name: "profile rm", Args: "PROFILE", Least: 1, Most: 1, Flags: []string{"yes"}, Run: profileRemove,
			Summary: "remove a profile", Text: "A profile that nodes have is kept: assign them another first.",
			Examples: []string{"muster profile rm lab --yes"}},
	}
}

func slotCommands() []cli.Command {
	return []cli.Command{
		{Name: "slot ls", Flags: []string{"selector", "node", "state", "sku", "tenant", "limit", "output"}, Run: cli.With(slotList),
			Says: map[string]string{"node": "slots of this node only", "selector": "slots of these nodes only",
				"state": "proposed, approved, allocated, cleaning, cleanup_blocked or disabled"},
			Summary: "list slots: what of the nodes can be allocated",
			Text: "A slot is a GPU, some GPUs for a virtual machine, or a whole node. Evidence and profile propose it, a person or a rule " +
				"approves it. WHY says what keeps it from being allocated; -o wide also has the next step and the GPUs.",
			Examples: []string{"muster slot ls", "muster slot ls --node gpu-1 -o wide", "muster slot ls -l provider=vast_ai --state proposed"}},
		{Name: "slot approve", Args: "SLOT...", Most: -1, Flags: []string{"selector", "node", "shape", "keep", "dry-run", "yes", "output"},
			Run: cli.With(approve),
			Says: map[string]string{"selector": "all slots of these nodes", "node": "all slots of this node", "output": oneJSON,
				"keep": "also make this selector a rule of this name, for slots that come later"},
			Summary: "let slots be allocated",
			Text: "With a selector or a node it shows the slots and asks first; --yes skips the question. An approval is for the machine as " +
				"it was looked at: other GPUs than then wait for a new one. muster slot rules lists the rules.",
			Examples: []string{"muster slot approve sl-0123456789abcdef", "muster slot approve --node gpu-1 --shape gpu",
				"muster slot approve -l provider=vast_ai --keep rented --yes"}},
		{Name: "slot disable", Args: "SLOT...", Most: -1, Flags: []string{"selector", "node", "shape", "reason", "dry-run", "yes", "output"},
			Run:     cli.With(disable),
			Says:    map[string]string{"selector": "all slots of these nodes", "node": "all slots of this node", "output": oneJSON},
			Summary: "let slots be allocated no more",
			Text:    "An allocation that has one keeps it to its end. muster slot approve undoes it.",
			Examples: []string{"muster slot disable sl-0123456789abcdef --reason 'its fan is loud'",
				"muster slot disable --node gpu-1 --shape node --yes"}},
		{Name: "slot rules", Flags: []string{"output"}, Run: ruleList, Summary: "list the rules that approve slots",
			Text:     "A rule approves what the nodes of its selector propose. muster slot approve --keep makes one.",
			Examples: []string{"muster slot rules"}},
		{Name: "slot rule-rm", Args: "RULE", Least: 1, Most: 1, Flags: []string{"yes"}, Run: ruleRemove,
			Summary: "remove a rule that approves slots", Text: "What it has approved stays so.",
			Examples: []string{"muster slot rule-rm rented --yes"}},
		{Name: "sku ls", Flags: []string{"tenant", "output"}, Run: skuList, Summary: "list the kinds of slots that there are",
			Text:     "A SKU follows from what nodes are, their profiles, and the shape of their slots now. PRICE is an hour of one slot.",
			Examples: []string{"muster sku ls"}},
		{Name: "sku explain", Args: "SKU", Least: 1, Most: 1, Flags: []string{"tenant", "output"}, Run: skuExplain,
			Says: map[string]string{"output": oneJSON}, Summary: "say which nodes have a SKU, and why others do not",
			Text:     "Nodes that qualify come first. A name that no node has is explained too, with what is nearest.",
			Examples: []string{"muster sku explain h100-sxm-baremetal-8g"}},
	}
}
