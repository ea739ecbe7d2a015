// Package maas has the commands about machines of MAAS: what both sides say of them, what is about to be done, and doing it.
package maas

import (
	"muster/gateway/api/machines"
	"muster/gateway/internal/cli"
)

const (
	oneJSON = "table or json; json prints what the gateway answers"
	which   = "A MACHINE is its system id, its hostname, or the name of its node. "
	asks    = "It shows the machines, and asks where there are several or what is on them is lost. "
	goesOn  = "What is begun goes on by itself, also when this command has ended: muster maas show says how far it is. --wait shows each step."
)

// Commands returns the commands about MAAS.
func Commands() []cli.Command {
	return append(lookCommands(), actCommands()...)
}

func lookCommands() []cli.Command {
	return []cli.Command{
		{Name: "maas ls", Flags: []string{"state", "output"}, Run: list,
			Says:    map[string]string{"state": "machines in this state only, such as ready, deployed or failed"},
			Summary: "list the machines of MAAS beside their nodes",
			Text: "MAAS is the state there, in the words of muster help maas: deployed is a machine whose agent reports; one that MAAS alone " +
				"calls deployed is installed. HERE is the state of its node, and whether it is heard. WORK is what muster does with it now, " +
				"FINDING in what the two sides disagree.",
			Examples: []string{"muster maas ls", "muster maas ls --state failed -o wide"}},
		{Name: "maas show", Args: "MACHINE...", Least: 1, Most: -1, Flags: []string{"output"}, Run: show,
			Says: map[string]string{"output": oneJSON}, Summary: "show all of a machine of MAAS, and what comes next",
			Text: which + "First the state in muster's words and in MAAS's, the node, its profile and the tags that MAAS has. Then what is " +
				"done with it: the step, who began it, why the last try did not succeed, and when it is given up. Then all in which the " +
				"two sides disagree, and what comes next.",
			Examples: []string{"muster maas show rack-7", "muster maas show rack-7 rack-8", "muster maas show abc123 -o json"}},
		{Name: "maas plan", Flags: []string{"output"}, Run: plan,
			Summary: "show what muster is about to do in MAAS, and what a person must do",
			Text: "Each line is a row of the recovery table that is true of a machine, the gravest first: muster help maas has them all. " +
				"DOES is what muster does by itself in its next round. What a person does stands below. It changes nothing.",
			Examples: []string{"muster maas plan", "muster maas plan -o json | jq '.steps[] | select(.severity == \"severe\")'"}},
		{Name: "maas sync", Flags: []string{"output"}, Run: sync,
			Says: map[string]string{"output": oneJSON}, Summary: "have MAAS looked at now",
			Text: "muster looks about every 30 seconds, and seldomer while MAAS does not answer. This waits some 20 seconds for what comes " +
				"of it. It succeeds where MAAS was seen.",
			Examples: []string{"muster maas sync"}},
	}
}

func actCommands() []cli.Command {
	usual := []string{"dry-run", "yes", "wait", "output"}
	says := map[string]string{"output": oneJSON, "wait": "show each step, and wait until it has ended",
		"force": "also where its node works, an allocation has a part of it, or this gateway did not acquire it"}
	act := func(name, act, verb, summary, text string, flags []string, examples ...string) cli.Command {
		return cli.Command{Name: "maas " + name, Args: "MACHINE...", Least: 1, Most: -1, Flags: append(flags, usual...), Says: says,
			Run: acts(act, verb), Summary: summary, Text: which + text + goesOn, Examples: examples}
	}
	return []cli.Command{
		act("deploy", machines.ActDeploy, "deploy", "install a ready machine, and have it join",
			"Its node must be ready, or drained with --reimage, and nobody may have a part of it. The machine counts as deployed when its agent "+
				"reports. Where that does not come in time, it is taken back. "+asks,
			[]string{"series", "profile", "reimage"}, "muster maas deploy rack-7 --wait",
			"muster maas deploy rack-7 rack-8 --series ubuntu/noble --profile gpuaas-profile-slice-vm --yes",
			"muster maas deploy rack-7 --reimage --yes --wait"),
		act("release", machines.ActRelease, "release", "give a machine back to MAAS, to be ready again",
			"Its node must be drained, and its allocations gone. The node's certificate is revoked. "+asks, []string{"erase", "force"},
			"muster maas release rack-7 --yes", "muster maas release rack-7 --erase --yes --wait"),
		act("reset", machines.ActReset, "reset", "bring a machine that failed or is broken back to ready",
			"It is released, marked as mended and commissioned, as far as it needs that. ", []string{"erase", "force"},
			"muster maas reset rack-7 --wait"),
		act("commission", machines.ActCommission, "commission", "have MAAS look at a machine's hardware again",
			"It is switched on and started over the network. One that was taken out of muster comes back that way. ", []string{"force"},
			"muster maas commission rack-7 --wait"),
		act("decommission", machines.ActDecommission, "decommission", "take a machine out of muster, and leave it ready in MAAS",
			"Its node is retired, and the tag of its profile is taken from it. It becomes a node again when it is commissioned again. "+asks,
			[]string{"erase", "force"}, "muster maas decommission rack-7 --yes"),
		{Name: "maas cancel", Args: "MACHINE...", Least: 1, Most: -1, Flags: []string{"yes", "wait", "output"}, Says: says,
			Run: acts(machines.ActCancel, "cancel what goes on with"), Summary: "end what goes on with a machine, and take it back",
			Text: which + "What has not reached MAAS ends at once. A deployment is aborted and the machine released, as when it does not end " +
				"in time. A commissioning is aborted. What MAAS releases or erases already cannot be taken back. " + goesOn,
			Examples: []string{"muster maas cancel rack-7 --wait"}},
	}
}
