package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"muster/agent/flags"
	"muster/agent/internal/command"
	"muster/agent/internal/join"
	"muster/agent/internal/service"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

const overviewHead = `muster-agent makes this machine a node of a muster fleet.

Usage: muster-agent COMMAND [FLAGS]

`

const overviewTail = `
Examples:
  muster-agent join --gateway https://gateway.example:7443 --token mse_...
  muster-agent join --check --gateway https://gateway.example:7443
  MUSTER_TOKEN=mse_... muster-agent run --gateway https://gateway.example:7443
  muster-agent status
  muster-agent COMMAND --help

Every flag can also be given as an environment variable: --root-pin as
MUSTER_ROOT_PIN. A flag wins.
Exit status: 0 done, 1 failed, 2 used wrongly.
`

// entry is one command of the agent, with its line in the overview.
type entry struct {
	name  string
	about string
	run   func(ctx context.Context, p command.Program, args []string) error
}

// commands are listed in the order in which a person needs them. It is a function because the table would be a global variable.
func commands() []entry {
	return []entry{
		{"join", "enrol, install the agent so that it stays, wait until it is online", join.Run},
		{"run", "enrol if needed, then report to the gateway, in the foreground", work},
		{"status", "what the agent on this machine is doing", command.Status},
		{"probe", "what this machine looks like to the agent, as JSON", command.Probe},
		{"profile", "for cloud-init: note which profile the machine is set up for", command.Profile},
		{"leave", "give the node back and remove the agent without a trace", command.Leave},
		{"supervise", "keep the agent running where there is no init system", supervise},
		{"keep", "for tasks: keep a program's output and how it ended", keepRun},
		{"settle", "for services: decide which version is started next", command.Settle},
		{"launch", "for services: decide that, and start it", command.Launch},
		{"version", "which build this is", showVersion},
	}
}

// run is the whole program without the process around it, so that a test can run it.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := command.Program{Version: version, Getenv: getenv, Stdin: stdin, Stdout: stdout, Stderr: stderr}
	p.System = service.System{UID: os.Geteuid(), Getenv: getenv}
	return execute(ctx, p, args)
}

// execute runs one command, and says what went wrong. Everything that a command prints for programs goes to stdout, and errors to stderr.
func execute(ctx context.Context, p command.Program, args []string) int {
	name, rest := findCommand(args)
	err := dispatch(ctx, p, name, rest)
	var usage *flags.Error
	switch {
	case err == nil || errors.Is(err, flags.ErrHelp):
		return exitDone
	case errors.As(err, &usage):
		if !slices.ContainsFunc(commands(), func(c entry) bool { return c.name == name }) {
			name = "" // what is no command has no help
		}
		fmt.Fprintf(p.Stderr, "muster-agent: %v\nTry: muster-agent %s\n", usage, strings.TrimSpace(name+" --help"))
		return exitUsage
	}
	fmt.Fprintf(p.Stderr, "muster-agent: %v\n", err)
	return exitFailed
}

// dispatch runs the command of this name. Without any argument the agent prints its overview and fails, because a script that lost its
// arguments must notice.
func dispatch(ctx context.Context, p command.Program, name string, args []string) error {
	switch name {
	case "--version":
		name = "version"
	case "":
		return noCommand(p, args)
	case "help", "--help", "-help", "-h":
		printOverview(p.Stdout)
		return nil
	}
	var names []string
	for _, one := range commands() {
		if one.name == name {
			return one.run(ctx, p, args)
		}
		names = append(names, one.name)
	}
	last := len(names) - 1
	return command.Usagef("there is no command %.40q: the commands are %s and %s", name, strings.Join(names[:last], ", "), names[last])
}

// noCommand answers what names no command. With flags it is a mistake too: a unit that lost its "run" must not count as done.
func noCommand(p command.Program, args []string) error {
	if len(args) == 0 || asksHelp(args) {
		printOverview(p.Stdout)
	}
	if asksHelp(args) {
		return nil
	}
	return command.Usagef("no command given")
}

// asksHelp tells whether one of the arguments asks for help.
func asksHelp(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		switch strings.TrimLeft(arg, "-") {
		case "help", "h":
			return strings.HasPrefix(arg, "-")
		}
		return false
	})
}

func printOverview(to io.Writer) {
	fmt.Fprint(to, overviewHead)
	for _, one := range commands() {
		fmt.Fprintf(to, "  %-10s %s\n", one.name, one.about)
	}
	fmt.Fprint(to, overviewTail)
}

// findCommand takes the command out of the arguments. Flags may stand in front of it. A flag takes the next argument as its value unless
// it is a switch, so this function must know every switch: TestFlagsBeforeTheCommand checks that.
func findCommand(args []string) (name string, rest []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") {
			return arg, append(args[:i:i], args[i+1:]...)
		}
		switch strings.TrimLeft(arg, "-") {
		case "help", "h", "version":
			if i == 0 && len(args) == 1 {
				return arg, nil
			}
		case "no-gpu", "capture", "check", "force", "reload-units", "foreground", "detached", "guard", "stay", "dry-run":
		default:
			if !strings.Contains(arg, "=") {
				i++
			}
		}
	}
	return "", args
}
