package placement

import "muster/gateway/internal/cli"

func allocCommands() []cli.Command {
	return []cli.Command{
		{Name: "alloc create", Run: allocCreate, Flags: []string{"sku", "gpu", "count", "selector", "ttl", "max-price", "spread", "wait", "rent",
			"priority", "dry-run", "note", "user", "ssh-key", "sudo", "launch", "tenant",
			"yes", "output"},
			Says: map[string]string{"ttl": "how long they are yours from when you have them, else what the operator has set",
				"selector": "on these nodes only", "wait": "if there is no room now, wait in the queue and here until there is",
				"priority": "from -100 to 100 (0): the higher is served first; above 0 needs placement:write",
				"user":     "the account that you get on each node", "output": oneJSON,
				"tenant": "for this tenant, where the account is for all"},
			Summary: "get GPUs for yourself until a time",
			Text: "Name a SKU of muster sku ls, or a model of GPUs and how many. Either all of them are yours, or none. Without --spread they " +
				"are on one node. What has no room is refused, with what is nearest; with --wait it stands in a queue, first in, first " +
				"out for each priority, and ^C leaves it there.\n\nBefore the end you are told; muster alloc extend moves it. At the end your " +
				"programs, containers and the account of --user are removed, and the GPUs are looked at before somebody else gets them.\n\n" +
				"--max-price is for an hour of all of it, by the label price_per_hour of the nodes.\n\nWith --rent, what no free slot can serve " +
				"is rented within the spending limits, and given back when the allocation ends. It needs --max-price. On a terminal it says " +
				"what would be rented and the most that it can cost, and asks unless --yes is given. It takes minutes: with " +
				"--wait this command waits too, and without it the allocation waits alone. muster help providers says more.\n\n" +
				"With --dry-run nothing is done: you see which slots you would get, or what you would wait for, such as a machine of MAAS or one " +
				"that would be rented, and its price if that is known.",
			Examples: []string{"muster alloc create --gpu h100 --count 2 --ttl 2h --wait",
				"muster alloc create --sku h200-sxm-baremetal-8g --dry-run",
				"muster alloc create --gpu h100 --user ada --ssh-key ~/.ssh/id_ed25519.pub -l tier=spot --max-price 4",
				"muster alloc create --gpu h100 --count 2 --ttl 2h --rent --wait --max-price 5",
				"muster alloc create --gpu h100 --count 2 --ttl 2h --wait -o json | jq '{id,state,slots,ends_at}'"}},
		{Name: "alloc ls", Flags: []string{"all", "owner", "tenant", "state", "node", "limit", "output"}, Run: cli.With(allocList),
			Says: map[string]string{"all": "also those that are over", "node": "those with GPUs of this node only",
				"state": "waiting, allocated, releasing or released"},
			Summary: "list who has which GPUs until when",
			Text: "The newest come first. WHY says what one waits for, or what keeps its GPUs from being free again. A table has a hundred unless " +
				"--limit says another number.",
			Examples: []string{"muster alloc ls", "muster alloc ls --state waiting", "muster alloc ls --all --owner ada -o wide"}},
		{Name: "alloc show", Args: "ALLOCATION...", Least: 1, Most: -1, Flags: []string{"output"}, Run: allocShow,
			Says: map[string]string{"output": oneJSON}, Summary: "show an allocation: its GPUs, its end, what it waits for",
			Text: "With the tasks that make its account and clean up after it.", Examples: []string{"muster alloc show 4sl5ucv6e2vnxq7a"}},
		{Name: "alloc extend", Args: "ALLOCATION", Least: 1, Most: 1, Flags: []string{"for", "output"}, Run: cli.With(extend),
			Says: map[string]string{"for": "how much longer", "output": oneJSON}, Summary: "move the end of an allocation",
			Text:     "From the end that it has now. The operator says how long one may last at most.",
			Examples: []string{"muster alloc extend 4sl5ucv6e2vnxq7a --for 2h"}},
		{Name: "alloc release", Args: "ALLOCATION...", Least: 1, Most: -1, Flags: []string{"output"}, Run: release,
			Says: map[string]string{"output": oneJSON}, Summary: "give GPUs back, or give up waiting",
			Text: "What runs on them ends at once, and the account of the allocation goes with its home directory. Again it has what " +
				"could not be cleaned looked at at once.",
			Examples: []string{"muster alloc release 4sl5ucv6e2vnxq7a"}},
		{Name: "quota ls", Flags: []string{"tenant", "output"}, Run: quotaList, Summary: "list how many GPUs tenants may have, and have",
			Text:     "A tenant without a quota may have all. GPUs that are cleaned after an allocation count too.",
			Examples: []string{"muster quota ls"}},
		{Name: "quota set", Args: "TENANT N", Least: 2, Most: 2, Flags: []string{"yes", "output"}, Run: quotaSet,
			Says: map[string]string{"output": oneJSON}, Summary: "say how many GPUs a tenant may have at once",
			Text:     "A tenant that has more keeps them to their end. " + cli.TenantText,
			Examples: []string{"muster quota set research 16"}},
		{Name: "quota rm", Args: "TENANT", Least: 1, Most: 1, Flags: []string{"yes"}, Run: quotaRemove,
			Summary: "let a tenant have as many GPUs as there are", Text: "Its allocations stay as they are.",
			Examples: []string{"muster quota rm research --yes"}},
	}
}
