package commands

import "muster/gateway/internal/cli"

// first are the words that people type before they know the groups. Help shows them in this order, before all other commands. A word whose
// command is not there is left out.
func first() []cli.Word {
	return []cli.Word{
		{Word: "status", Command: "status"},
		{Word: "ls", Command: "node ls"},
		{Word: "gpus", Command: "gpu ls"},
		{Word: "ssh", Command: "node shell"},
		{Word: "shell", Command: "node shell"},
		{Word: "exec", Command: "node exec"},
		{Word: "logs", Command: "node logs"},
		{Word: "cp", Command: "node cp"},
		{Word: "forward", Command: "node forward"},
		{Word: "run", Command: "run"},
		{Word: "cost", Command: "cost"},
		{Word: "doctor", Command: "doctor"},
		{Word: "whoami", Command: "account whoami", Later: true},
		{Word: "run rm", Command: "run stop", Later: true},
	}
}
