package health

import "muster/gateway/internal/cli"

// AlertCommands show what people are told of, silence it, and say who is told.
func AlertCommands() []cli.Command {
	return []cli.Command{
		{Name: "alert ls", Flags: []string{"all", "selector", "cause", "tenant", "output"}, Run: cli.With(alertList),
			Says:    map[string]string{"all": "also those that are resolved"},
			Summary: "list what is wrong now, as people are told of it",
			Text:    "One alert for each cause and subject. A silenced one is listed too. muster help alerts says what each cause means.",
			Examples: []string{"muster alert ls", "muster alert ls --all -l tier=sovereign", "muster alert ls -o wide",
				"muster alert ls --cause node_stale"}},
		{Name: "alert show", Args: "ALERT", Least: 1, Most: 1, Flags: []string{"output"}, Run: alertShow,
			Says:     map[string]string{"output": "table or json; json prints the alert"},
			Summary:  "show one alert: what to do, and who was told",
			Text:     "The name is the one that muster alert ls shows.",
			Examples: []string{"muster alert show al-0123456789abcdef"}},
		{Name: "alert silence", Args: "[ALERT]", Most: 1, Run: cli.With(silence),
			Flags: []string{"node", "selector", "cause", "tenant", "for", "reason", "output"},
			Says: map[string]string{"node": "alerts of this node", "for": "how long, from 1m to 90d (2h)",
				"output": "table or json; json prints the silence"},
			Summary: "keep alerts from being told for a while",
			Text: "Name an alert: it stands for its cause and its node, or for its cause and its tenant if it is about several nodes. Or name a " +
				"node, a selector, a cause, or several of these: then all must fit. What is silenced stays in the list. When the " +
				"silence ends and the cause is still there, it is told.",
			Examples: []string{"muster alert silence al-0123456789abcdef --reason 'the fan is ordered'",
				"muster alert silence --node gpu-7 --for 4h --reason 'new power supply'",
				"muster alert silence -l site=fra --cause node_stale --reason 'the provider works on the network'"}},
		{Name: "alert silences", Flags: []string{"tenant", "output"}, Run: silences, Summary: "list the silences",
			Text: "Those that have not ended.", Examples: []string{"muster alert silences"}},
		{Name: "alert unsilence", Args: "SILENCE", Least: 1, Most: 1, Run: unsilence, Summary: "end a silence now",
			Text: "What is still wrong is told then.", Examples: []string{"muster alert unsilence si-0123456789abcdef"}},
		{Name: "alert receiver add", Args: "NAME", Least: 1, Most: 1, Run: cli.With(receiverAdd),
			Flags: []string{"kind", "file", "selector", "tenant", "cause", "severity", "priority", "replace", "output"},
			Says: map[string]string{"kind": "webhook, slack, ntfy or alertmanager", "file": "file with the URL (- is standard input)",
				"selector": "what is about these nodes only", "tenant": "what is about this tenant only",
				"cause": "these causes only, with commas between", "output": "table or json; json prints the receiver"},
			Summary: "say who is told, or change how",
			Text: "The URL is a secret. It comes from a file or a pipe; a second line may hold a token for the Authorization header. A name " +
				"that is there already is refused without --replace; with it, without a URL, it keeps its own: --file /dev/null. A new webhook " +
				"prints the secret " +
				"that signs what it gets, this once. Of an Alertmanager, give the URL without /api/v2/alerts.",
			Examples: []string{"muster alert receiver add ops --kind slack --file slack-url.txt",
				"muster alert receiver add phone --kind ntfy --severity severe < ntfy-topic-url.txt",
				"echo http://localhost:9093 | muster alert receiver add am --kind alertmanager"}},
		{Name: "alert receiver ls", Flags: []string{"output"}, Run: receiverList, Summary: "list who is told",
			Text: "Of a receiver's address only the host is shown.", Examples: []string{"muster alert receiver ls -o wide"}},
		{Name: "alert receiver test", Args: "NAME", Least: 1, Most: 1, Flags: []string{"output"}, Run: receiverTest,
			Says:     map[string]string{"output": "table or json; json prints how it went"},
			Summary:  "send a receiver a test alert",
			Text:     "It waits for the receiver's answer, and fails if the receiver did not take it.",
			Examples: []string{"muster alert receiver test ops"}},
		{Name: "alert receiver rm", Args: "NAME", Least: 1, Most: 1, Flags: []string{"yes"}, Run: receiverDrop,
			Summary: "tell somebody no more", Text: "Its address is forgotten, with all that it was still to be told.",
			Examples: []string{"muster alert receiver rm ops --yes"}},
	}
}
