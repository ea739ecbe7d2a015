// Package release has the commands that push agent releases, point channels at them, and watch how nodes take them.
package release

import "muster/gateway/internal/cli"

const (
	channelText = "Without --channel it is about the channel stable."
	nameText    = "A release is named by its version, by its digest, or by the beginning of its digest, if that names one alone."
	keyText     = "If an operator holds the release key, --key FILE signs here, or --pointer FILE brings what muster release sign has made."
	wavesHelp   = "One node gets the release first: the canary. The others get it when that one has been well for ten minutes. --canary, " +
		"--steps, --soak and --max-failed say it otherwise; --now lets all nodes in at once."
)

// ways are the flags of a change that waves may carry.
func ways() []string {
	return []string{"channel", "canary", "steps", "soak", "max-failed", "now", "key", "pointer", "watch", "yes", "output"}
}

// nowText says what --now means here.
func nowText() map[string]string {
	return map[string]string{"now": "let all nodes in at once", "watch": "show how the rollout goes until it ends, as release status does",
		"output": "table or json; json prints the channel"}
}

// Commands returns the commands of the group.
func Commands() []cli.Command {
	return append(contentCommands(), append(channelCommands(), append(pinCommands(), loginCommands()...)...)...)
}

func contentCommands() []cli.Command {
	return []cli.Command{
		{Name: "release push", Args: "DIR|FILE...", Least: 1, Most: -1, Flags: []string{"version", "channel", "yes", "output"},
			Run:     cli.With(releasePush),
			Says:    map[string]string{"output": "table or json; json prints the release", "channel": "point this channel at it as well"},
			Summary: "upload agents, and make them a release",
			Text: "A folder has files such as muster-agent-linux-amd64, or linux-amd64/muster-agent. A file may stand alone, or with its " +
				"platform: linux/arm64=FILE. What the registry has already is not sent again. The digest of the release is printed: the " +
				"same files and the same version give the same digest everywhere.\n\nNo node gets it until a channel points at it: that is muster " +
				"release promote.",
			Examples: []string{"muster release push gateway/agents --version 0.4.0", "muster release push bin/muster-agent --version 0.4.0-rc1",
				"muster release push linux/amd64=a linux/arm64=b --version 0.4.0 --channel canary --yes"}},
		{Name: "release add", Args: "DIGEST", Least: 1, Most: 1,
			Flags: []string{"version", "channel", "reference", "credential", "yes", "output"}, Run: cli.With(releaseAdd),
			Says:    map[string]string{"output": "table or json; json prints the release", "channel": "point this channel at it as well"},
			Summary: "make a release of what another tool has pushed",
			Text: "DIGEST is that of the OCI index, as docker, crane, skopeo and oras print it. It lies in this gateway's registry, in the " +
				"repository muster/agent. --reference names another registry: then the gateway gives nodes a credential that lives for minutes.",
			Examples: []string{"muster release add sha256:4f9a... --version 0.4.0",
				"muster release add sha256:4f9a... --reference ghcr.io/example/muster-agent --credential ghcr"}},
		{Name: "release ls", Flags: []string{"output"}, Run: releaseList, Summary: "list releases, newest first",
			Text: "CHANNELS are those that point at the release. -o wide has whole digests.", Examples: []string{"muster release ls"}},
		{Name: "release show", Args: "DIGEST|VERSION", Least: 1, Most: 1, Flags: []string{"output"}, Run: releaseShow,
			Summary: "show a release with the programs in it", Text: nameText, Examples: []string{"muster release show 0.4.0"}},
		{Name: "release drop", Args: "DIGEST|VERSION", Least: 1, Most: 1, Flags: []string{"yes"}, Run: releaseDrop,
			Summary: "take a release off the record",
			Text: nameText + " It must not be what a channel or a pin points at, nor what a channel would go back to. It asks first unless " +
				"--yes is given.", Examples: []string{"muster release drop 0.3.0"}},
	}
}

func channelCommands() []cli.Command {
	return []cli.Command{
		{Name: "release promote", Args: "DIGEST|VERSION", Least: 1, Most: 1, Flags: append(ways(), "go-back"), Run: releasePromote, Says: nowText(),
			Summary: "point a channel at a release, and let its nodes have it",
			Text: nameText + " " + channelText + "\n\n" + wavesHelp + " The rollout stops by itself if a canary goes back, or if too " +
				"many nodes of a wave fail, fall silent or do not do well with it, also within an hour after its end. --go-back takes the nodes " +
				"back then. A promotion ends the rollout before it, and says so; the same one again changes " +
				"nothing while it runs well. It asks first unless --yes is given.\n\n" + keyText,
			Examples: []string{"muster release promote 0.4.0 --channel stable",
				"muster release promote 0.4.0 --canary 5% --steps 25%,100% --soak 30m --max-failed 2%",
				"muster release promote 0.4.0 --now --go-back --yes --watch", "muster release promote 0.4.0 --key /media/usb/release.key"}},
		{Name: "release rollback", Flags: append(ways(), "digest"), Run: releaseRollback, Says: nowText(),
			Summary: "point a channel at the release before the present one",
			Text: channelText + " All nodes get it at once, unless flags ask for waves. It is a new number on the old digest, so nodes obey it. " +
				"It says from which release to which it goes, and asks first unless --yes is given. It does not go forward again to a release " +
				"that the channel was taken back from: --digest names that one, or any other.\n\n" + keyText,
			Examples: []string{"muster release rollback --channel stable", "muster release rollback --channel stable --digest 0.3.0"}},
		{Name: "release status", Flags: []string{"channel", "watch", "output"}, Run: cli.With(releaseStatus),
			Summary: "show where a rollout stands, and why",
			Text: "With each node that waits or has failed, the reason, and the last lines of a version that a node went back from; -o wide has " +
				"all nodes. Without --channel it lists the channels, if there are several. --watch prints a line whenever something changes, and " +
				"ends with the rollout: with 0 where it is done, with 1 where it was halted or aborted.",
			Examples: []string{"muster release status", "muster release status --channel stable --watch",
				"muster release status --channel stable -o json"}},
		{Name: "release pause", Flags: []string{"channel", "output"}, Run: releasePause, Summary: "let no further node in until release resume",
			Says: nowText(), Text: channelText + " Nodes that were let in go on. A rollout that is paused already stays so.",
			Examples: []string{"muster release pause"}},
		{Name: "release resume", Flags: []string{"channel", "output"}, Run: releaseResume,
			Summary: "go on with a rollout that is paused or halted", Says: nowText(),
			Text:     channelText + " The nodes that have failed so far do not count any more.",
			Examples: []string{"muster release resume"}},
		{Name: "release abort", Flags: []string{"channel", "key", "pointer", "yes", "output"}, Run: releaseAbort, Says: nowText(),
			Summary: "end a rollout, and take its nodes back",
			Text: channelText + " Nobody new is let in, and the nodes that have the release get the one before. If no release came before, " +
				"they keep it until a good one is promoted. It asks first unless --yes is " +
				"given.\n\n" + keyText, Examples: []string{"muster release abort --channel stable"}},
		{Name: "release sign", Args: "[FILE]", Most: 1, Flags: []string{"channel", "digest", "key"}, Run: releaseSign,
			Says:    map[string]string{"digest": "the release that the channel shall point at"},
			Summary: "sign a channel's pointer with a key that the gateway does not have",
			Text: "Without --key it prints what has to be signed. On the machine with the key, --key FILE signs that file and reaches no " +
				"gateway. The result goes to muster release promote --pointer. " + channelText,
			Examples: []string{"muster release sign --channel stable --digest 0.4.0 > pointer.json",
				"muster release sign --key /media/usb/release.key pointer.json > signed.json",
				"muster release promote 0.4.0 --channel stable --pointer signed.json"}},
	}
}

func pinCommands() []cli.Command {
	return []cli.Command{
		{Name: "release pin", Args: "NODE...", Most: -1, Flags: []string{"selector", "digest", "channel", "key", "pointer", "yes"},
			Run:     releasePin,
			Says:    map[string]string{"digest": "a release of their own", "channel": "the nodes' channel, if an operator signs"},
			Summary: "keep nodes from following their channel",
			Text: "Without --digest they stay where they are. With it they get a pointer of their own, which takes the channel's next number: the " +
				"numbers of a channel only rise, and need not follow each other. " + nameText + " " + cli.AskText + "\n\n" + keyText,
			Examples: []string{"muster release pin gpu-1", "muster release pin -l tier=lab --digest 0.4.0-rc1",
				"muster release unpin gpu-1"}},
		{Name: "release unpin", Args: "NODE...", Most: -1, Flags: []string{"selector", "channel", "key", "pointer", "yes"},
			Run:     releaseUnpin,
			Says:    map[string]string{"channel": "the nodes' channel, if an operator signs"},
			Summary: "let nodes follow their channel again", Text: cli.AskText + "\n\n" + keyText,
			Examples: []string{"muster release unpin gpu-1", "muster release unpin -l tier=lab --yes"}},
		{Name: "release pins", Flags: []string{"output"}, Run: releasePins, Summary: "list pinned nodes",
			Text: "A node without a release of its own stays where it is.", Examples: []string{"muster release pins"}},
	}
}
