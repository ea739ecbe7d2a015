package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"muster/agent/internal/service"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// program is what a command works with besides its arguments.
type program struct {
	getenv         func(string) string
	stdin          io.Reader
	stdout, stderr io.Writer
	system         service.System // the machine
	patience       time.Duration  // what join waits for anything at most, in a test; 0: as long as it should
}

// usageError is a wrong call: the command's name and what to do instead follow it on the screen.
type usageError struct {
	message string
}

func (u usageError) Error() string { return u.message }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

const overview = `muster-agent makes this machine a node of a muster fleet.

Usage: muster-agent COMMAND [FLAGS]

  join       enrol, install the agent so that it stays, wait until it is online
  run        enrol if needed, then report to the gateway, in the foreground
  status     what the agent on this machine is doing
  probe      what this machine looks like to the agent, as JSON
  leave      give the node back and remove the agent without a trace
  supervise  keep the agent running where there is no init system
  version    which build this is

Examples:
  muster-agent join --gateway https://gateway.example:7443 --token mse_...
  muster-agent join --check --gateway https://gateway.example:7443
  MUSTER_TOKEN=mse_... muster-agent run --gateway https://gateway.example:7443
  muster-agent status
  muster-agent COMMAND --help

Every flag can also be given as an environment variable: --root-pin as MUSTER_ROOT_PIN. A flag wins.
Exit status: 0 done, 1 failed, 2 used wrongly.
`

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := program{getenv: getenv, stdin: stdin, stdout: stdout, stderr: stderr}
	p.system = service.System{UID: os.Geteuid(), Getenv: getenv}
	return p.main(ctx, args)
}

func (p program) main(ctx context.Context, args []string) int {
	name, rest := findCommand(args)
	err := p.dispatch(ctx, name, rest)
	var usage usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.As(err, &usage):
		fmt.Fprintf(p.stderr, "muster-agent: %s\nTry: muster-agent %s\n", usage.message, strings.TrimSpace(name+" --help"))
		return exitUsage
	}
	fmt.Fprintf(p.stderr, "muster-agent: %v\n", err)
	return exitFailed
}

func (p program) dispatch(ctx context.Context, name string, args []string) error {
	switch name {
	case "join":
		return p.join(ctx, args)
	case "run":
		return p.run(ctx, args)
	case "status":
		return p.status(args)
	case "probe":
		return p.probe(ctx, args)
	case "leave":
		return p.leave(ctx, args)
	case "supervise":
		return p.supervise(ctx, args)
	case "version", "--version":
		return p.version(args)
	case "", "help", "--help", "-help", "-h":
		fmt.Fprint(p.stdout, overview)
		if len(args) == 0 && name == "" {
			return usagef("no command given")
		}
		return nil
	}
	return usagef("there is no command %.40q: the commands are join, run, status, probe, leave, supervise and version", name)
}

// findCommand takes the command out of the arguments. Flags may stand before it; all but the switches are followed by a
// value.
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
		case "no-gpu", "capture", "check", "force", "reload-units", "foreground", "detached":
		default:
			if !strings.Contains(arg, "=") {
				i++
			}
		}
	}
	return "", args
}
