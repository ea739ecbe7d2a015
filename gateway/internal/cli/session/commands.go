// Package session has the commands that list sessions with nodes, look at them, play their recordings and end them.
package session

import "muster/gateway/internal/cli"

// Commands returns the commands of the group.
func Commands() []cli.Command {
	return []cli.Command{
		{Name: "session ls", Flags: []string{"node", "type", "open", "tenant", "limit", "output"}, Run: cli.With(sessionList),
			Says:    map[string]string{"node": "sessions with this node only", "type": "such as session.shell", "open": "only what goes on"},
			Summary: "list sessions with nodes, newest first",
			Text: "A session is a shell, a program, a tunnel or a copy. REC says whether its terminal is recorded. A table has the newest " +
				"hundred unless --limit says another number; -o json has all.",
			Examples: []string{"muster session ls", "muster session ls --open", "muster session ls --node gpu-1 --type session.shell"}},
		{Name: "session show", Args: "ID...", Least: 1, Most: -1, Flags: []string{"output"}, Run: sessionShow,
			Summary:  "show all that is known of sessions",
			Text:     "What went over a session is not kept, but for what the terminal of a shell showed. -o json has one object a line.",
			Examples: []string{"muster session show s-4sl5ucv6e2vnxq7a"}},
		{Name: "session play", Args: "ID", Least: 1, Most: 1, Flags: []string{"speed", "idle-limit", "to", "raw"}, Run: cli.With(sessionPlay),
			Says:    map[string]string{"to": "write the recording there, as asciicast v2 (- is standard output), and show nothing"},
			Summary: "play what the terminal of a session showed",
			Text: "q or ^C ends. The terminal here shows what the one there was sent, so it should be as large. What programs did to that " +
				"terminal, such as its title, they do to this one too. The terminal is as before when the recording ends.\n\n" +
				"Into a pipe nothing is played. --raw writes what the terminal was sent, without the time between; --to keeps the " +
				"recording for asciinema and other players.\n\n" +
				"The exit code is 0 for a recording that is complete, or whose session goes on. If the end is missing, or the file is " +
				"damaged, all that is good comes first; then the command says what is wrong, with exit code 1. Who plays a recording is in " +
				"muster events.",
			Examples: []string{"muster session play s-4sl5ucv6e2vnxq7a", "muster session play s-4sl5ucv6e2vnxq7a --speed 4 --idle-limit 500ms",
				"muster session play s-4sl5ucv6e2vnxq7a --to shell.cast", "muster session play s-4sl5ucv6e2vnxq7a --raw | grep -a error"}},
		{Name: "session watch", Args: "ID", Least: 1, Most: 1, Flags: []string{"raw"}, Run: cli.With(sessionWatch),
			Summary: "watch a shell while it goes on",
			Text: "Shows what the terminal there shows, from now on, until the session ends. q or ^C leaves; the session goes on. Nothing that " +
				"you type goes there. Who watches is in muster events.",
			Examples: []string{"muster session watch s-4sl5ucv6e2vnxq7a"}},
		{Name: "session kill", Args: "ID...", Least: 1, Most: -1, Flags: []string{"yes"}, Run: sessionKill,
			Summary: "end sessions",
			Text: "The person learns who ended it. What ran on the node is told to end, and is killed five seconds later. It asks first unless " +
				"--yes is given.",
			Examples: []string{"muster session kill s-4sl5ucv6e2vnxq7a", "muster session kill s-4sl5ucv6e2vnxq7a s-7qv6x2n4e2vnxq7a --yes"}},
	}
}
