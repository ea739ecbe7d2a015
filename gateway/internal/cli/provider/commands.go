// Package provider has the commands about companies that rent machines: accounts there, what runs and what it costs, leases, renting.
package provider

import "muster/gateway/internal/cli"

const (
	longID  = 40 // columns of an account and an instance, such as those of Lambda Cloud: commands take the whole of it
	oneJSON = "table or json; json prints what the gateway answers"
	which   = "An instance is ACCOUNT/INSTANCE, as muster provider instances shows it, or the name of its node. "
)

// AccountCommands returns the commands about accounts and their machines.
func AccountCommands() []cli.Command { return append(accountCommands(), actCommands()...) }

// LeaseCommands returns the commands about leases, renting and costs.
func LeaseCommands() []cli.Command { return append(leaseCommands(), rentCommands()...) }

func accountCommands() []cli.Command {
	return []cli.Command{
		{Name: "provider add", Args: "KIND", Least: 1, Most: 1, Run: cli.With(add),
			Flags: []string{"key-file", "name", "tenant", "ssh-key", "yes", "output"},
			Says: map[string]string{"name": "what the account is called here, else its kind", "tenant": "whose machines these are",
				"ssh-key": "the name, at the company, of the ssh key that new machines get: Lambda Cloud needs one", "output": oneJSON},
			Summary: "add an account with a company that rents machines",
			Text: "KIND is vast_ai, runpod or lambda. The key is tried at once; a key that the company refuses is not kept. It is sealed in the " +
				"gateway's database, and never shown again. muster help providers says which rights it needs.\n\nThe last --url URL is where the " +
				"company's API is, if that is another place than usual. The gateway is named by one before it, by MUSTER_URL or by --data." +
				"\n\n" + cli.TenantText,
			Examples: []string{"muster provider add vast_ai --key-file key",
				"pass show runpod | muster provider add runpod --key-file - --name lab"}},
		{Name: "provider ls", Flags: []string{"tenant", "output"}, Run: list, Summary: "list the accounts with companies that rent machines",
			Text: "SEEN is when all instances of an account were seen last. STATE says whether that is of now, and else why not: what was seen " +
				"last is kept.",
			Examples: []string{"muster provider ls", "muster provider ls -o wide"}},
		{Name: "provider show", Args: "ACCOUNT...", Least: 1, Most: -1, Flags: []string{"output"}, Run: show,
			Says: map[string]string{"output": oneJSON}, Summary: "show all of an account but its key",
			Text: "The key is never shown.", Examples: []string{"muster provider show vast_ai"}},
		{Name: "provider remove", Args: "ACCOUNT", Least: 1, Most: 1, Flags: []string{"forget-machines", "plan", "yes"},
			Run: cli.With(remove), Says: map[string]string{"plan": "forget nothing, and show what would be forgotten"},
			Summary: "forget an account and its key",
			Text: "What runs there goes on, and is charged. An account with leases or rentals is kept: end them first with muster lease end and " +
				"muster rent cancel.\n\nWhere the key is dead, nothing can be ended there. --forget-machines then shows what may be charged on, " +
				"asks, and forgets that too: leases and orders end as given up. The company is asked once more before; while it answers, or may " +
				"soon, the account is kept. muster provider add with the account's --name gives it a new key, and is the better way.",
			Examples: []string{"muster provider remove vast_ai --yes", "muster provider remove vast_ai --forget-machines --plan"}},
		{Name: "provider sync", Args: "ACCOUNT...", Least: 1, Most: -1, Flags: []string{"output"}, Run: syncAll,
			Says: map[string]string{"output": oneJSON}, Summary: "look at once what an account has",
			Text: "Without it the gateway looks about every 45 seconds.", Examples: []string{"muster provider sync vast_ai"}},
		{Name: "provider limit", Args: "[ACCOUNT] [PRICE|none]", Most: 2, Flags: []string{"tenant", "output"}, Run: limit,
			Says:    map[string]string{"tenant": "the limit of this tenant, over all accounts", "output": oneJSON},
			Summary: "bound what machines may cost an hour, or show it",
			Text: "What would pass a limit is neither rented nor started. What runs already goes on. Without words it shows the limits and what " +
				"is spent now.",
			Examples: []string{"muster provider limit", "muster provider limit vast_ai 20", "muster provider limit --tenant research 12.5",
				"muster provider limit vast_ai none"}},
		{Name: "provider plan", Flags: []string{"tenant", "output"}, Run: plan,
			Summary: "show what the fleet and the companies do not agree on, and what it costs",
			Text: "What is charged and not heard, what runs and never joined, what is in the fleet and does not run, and so on, each with its " +
				"cost a day and the command that settles it. It changes nothing. muster help providers goes through the findings one by one.",
			Examples: []string{"muster provider plan", "muster provider plan -o json | jq '.cost_per_day'"}},
	}
}

func actCommands() []cli.Command {
	flags := []string{"yes", "output"}
	says := map[string]string{"output": oneJSON}
	return []cli.Command{
		{Name: "provider instances", Args: "[ACCOUNT...]", Most: -1, Flags: []string{"tenant", "output"}, Run: instances,
			Summary: "list machines as their companies show them, beside the fleet",
			Text: "THERE is the state at the company, in the same words for all of them; WORD (-o wide) is the company's own. HERE is the status " +
				"of the node that says that it is this; foreign is a machine that another gateway with this " +
				"account has rented. PRICE is what is charged an hour now, STOPPED what is charged while it is stopped.",
			Examples: []string{"muster provider instances", "muster provider instances vast_ai -o wide"}},
		{Name: "provider stop", Args: "INSTANCE...", Least: 1, Most: -1, Flags: flags, Says: says, Run: actOn("stop", "stop"),
			Summary: "stop machines at their company, and keep their disks",
			Text: which + "It shows the machines, and asks. A disk is charged on; Lambda Cloud cannot stop machines. Work on the node has time " +
				"to finish first.",
			Examples: []string{"muster provider stop vast_ai/39467543", "muster provider stop gpu-7 gpu-8 --yes"}},
		{Name: "provider start", Args: "INSTANCE...", Least: 1, Most: -1, Flags: flags, Says: says, Run: actOn("start", "start"),
			Summary: "start machines that are stopped",
			Text: which + "It is charged again from then on, within the spending limits. The company may have given the GPUs to somebody else: " +
				"then it stays as it is, and the command fails.",
			Examples: []string{"muster provider start vast_ai/39467543"}},
		{Name: "provider destroy", Args: "INSTANCE...", Least: 1, Most: -1, Flags: flags, Says: says, Run: actOn("destroy", "destroy"),
			Summary: "destroy machines at their company, with their disks",
			Text: which + "It shows the machines, and asks: there is no way back. Work on the node has time to finish first. The gateway asks " +
				"until the company says that it is gone, and raises an alert while it is not. muster node return --destroy cleans the machine first.",
			Examples: []string{"muster provider destroy vast_ai/39467543", "muster provider destroy gpu-7 gpu-8 --yes"}},
	}
}

func leaseCommands() []cli.Command {
	return []cli.Command{
		{Name: "lease set", Args: "INSTANCE... DURATION", Least: 2, Most: -1, Flags: []string{"act", "idle-end", "output"},
			Run:  cli.With(leaseSet),
			Says: map[string]string{"output": oneJSON}, Summary: "say until when a machine is paid for",
			Text: which + "The time counts from now. Before the end its owner is told; at the end its node takes no new work, has ten minutes to " +
				"finish, and is stopped or destroyed at the company. Without --act that is destroy for what muster has rented, and stop for the rest.",
			Examples: []string{"muster lease set gpu-7 8h", "muster lease set vast_ai/39467543 2d --act destroy --idle-end 2h"}},
		{Name: "lease extend", Args: "INSTANCE... DURATION", Least: 2, Most: -1, Flags: []string{"output"},
			Run: leaseExtend, Says: map[string]string{"output": oneJSON}, Summary: "go on paying for a machine",
			Text: which + "The time counts from the end that the lease has.", Examples: []string{"muster lease extend gpu-7 gpu-8 2h"}},
		{Name: "lease ls", Flags: []string{"provider", "tenant", "all", "output"}, Run: cli.With(leaseList),
			Says:     map[string]string{"provider": "those of this account only", "all": "also those that have ended"},
			Summary:  "list until when machines are paid for",
			Text:     "THEN is what is done at the end. WHY says why a lease ends, or what keeps it from that.",
			Examples: []string{"muster lease ls", "muster lease ls --all -o wide"}},
		{Name: "lease end", Args: "INSTANCE...", Least: 1, Most: -1, Flags: []string{"act", "yes", "output"}, Run: cli.With(leaseEnd),
			Says: map[string]string{"output": oneJSON}, Summary: "stop paying for a machine now",
			Text:     which + "It shows the machines, and asks. What the lease says is done, or what --act says.",
			Examples: []string{"muster lease end gpu-7", "muster lease end gpu-7 --act destroy --yes"}},
	}
}

func rentCommands() []cli.Command {
	return []cli.Command{
		{Name: "rent", Run: rent, Flags: []string{"provider", "gpu", "gpus", "count", "max-price", "gpu-memory", "region", "disk",
			"interruptible", "offer", "image", "ttl", "idle-end", "act", "label", "tenant", "no-accept", "plan", "yes", "output"},
			Says: map[string]string{"provider": "the account that pays, if there are several", "gpu": "machines with this model, such as H100",
				"gpus": "just so many GPUs in one machine (1, or those of --offer)", "count": "so many machines (1)",
				"max-price": "at most so much an hour for one machine, " +
					"else what the offers that it shows cost", "ttl": "how long they are paid for", "label": "a label for the nodes; may be repeated",
				"image": "the container that the machine runs, where the company runs containers", "tenant": "whose nodes they are",
				"output": "table, wide or json; json prints the rental at its end"},
			Summary: "rent machines, and have them join the fleet",
			Text: "It shows the offers, those that it would take with a star, and asks. KNOWN is what muster knows of the host from before. Then " +
				"it rents them, each with an enrollment token of one use, and shows how far they are, until every one is online and has proven that " +
				"it is what is paid for. A machine that does not come up is destroyed, and another is rented for it. ^C leaves all that at work.\n\n" +
				"Each has a lease: at its end it is destroyed. Nothing is rented beyond the spending limits: muster provider limit.",
			Examples: []string{"muster rent --gpu H100 --count 8 --max-price 2.5 --ttl 8h --label batch=x",
				"muster rent --provider vast_ai --gpu H100 --gpus 8 --plan", "muster rent --gpu H100 --max-price 2.5 --ttl 1h --yes -o json"}},
		{Name: "rent ls", Flags: []string{"all", "tenant", "output"}, Run: cli.With(rentalList),
			Says: map[string]string{"all": "also those whose machines are all given back"}, Summary: "list the requests for machines",
			Text:     "READY is how many machines are in the fleet. SPENT is what muster cost counts, as of the last look; - is not known.",
			Examples: []string{"muster rent ls", "muster rent ls --all"}},
		{Name: "rent show", Args: "RENTAL...", Least: 1, Most: -1, Flags: []string{"output"}, Run: rentalShow,
			Says: map[string]string{"output": oneJSON}, Summary: "show a request for machines, and how far each is",
			Text: "With what failed, and what it cost.", Examples: []string{"muster rent show 4sl5ucv6e2vnxq7a"}},
		{Name: "rent cancel", Args: "RENTAL...", Least: 1, Most: -1, Flags: []string{"output"}, Run: cancel,
			Says: map[string]string{"output": oneJSON}, Summary: "stop renting, and destroy machines that are not ready",
			Text:     "Machines that are ready stay to the end of their leases; muster node return --destroy gives them back.",
			Examples: []string{"muster rent cancel 4sl5ucv6e2vnxq7a"}},
		{Name: "cost", Run: cli.With(cost), Flags: []string{"since", "by", "selector", "tenant", "output"},
			Says:    map[string]string{"since": "from the day of so long ago on, such as 7d: days are counted whole, in UTC"},
			Summary: "say what machines have cost, and what of that was used",
			Text: "RENTED is all of it, and the sum of the rest. USED and IDLE are the parts while GPUs were seen to work, and not to; SILENT is " +
				"what was charged while a node was not heard; STORAGE what a stopped machine's disk cost. UNMEASURED is what was charged while a " +
				"node was heard, and nobody saw what its GPUs did: it may have been used or idle. ~ marks an estimate: by price and time, or by the " +
				"label price_per_hour. The company's own bill may differ. muster node bill has a line for each node.",
			Examples: []string{"muster cost", "muster cost --since 7d --by provider", "muster cost --by team -l tier=spot -o json"}},
	}
}
