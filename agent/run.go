package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
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
}

// usageError is a wrong call: the command's name and what to do instead follow it on the screen.
type usageError struct {
	message string
}

func (u usageError) Error() string { return u.message }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

const overview = `muster-agent makes this machine a node of a muster fleet.

Usage: muster-agent COMMAND [FLAGS]

  run      enrol if needed, then report to the gateway, in the foreground
  status   what the agent on this machine is doing
  probe    what this machine looks like to the agent, as JSON
  version  which build this is

Examples:
  MUSTER_TOKEN=mse_... muster-agent run --gateway https://gateway.example:7443
  muster-agent status
  muster-agent COMMAND --help

Every flag can also be given as an environment variable: --root-pin as MUSTER_ROOT_PIN. A flag wins.
Exit status: 0 done, 1 failed, 2 used wrongly.
`

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := program{getenv, stdin, stdout, stderr}
	name, rest := findCommand(args)
	err := p.dispatch(ctx, name, rest)
	var usage usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "muster-agent: %s\nTry: muster-agent %s\n", usage.message, strings.TrimSpace(name+" --help"))
		return exitUsage
	}
	fmt.Fprintf(stderr, "muster-agent: %v\n", err)
	return exitFailed
}

func (p program) dispatch(ctx context.Context, name string, args []string) error {
	switch name {
	case "run":
		return p.run(ctx, args)
	case "status":
		return p.status(args)
	case "probe":
		return p.probe(ctx, args)
	case "version", "--version":
		return p.version(args)
	case "", "help", "--help", "-help", "-h":
		fmt.Fprint(p.stdout, overview)
		if len(args) == 0 && name == "" {
			return usagef("no command given")
		}
		return nil
	}
	return usagef("there is no command %.40q: the commands are run, status, probe and version", name)
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
		case "no-gpu", "capture":
		default:
			if !strings.Contains(arg, "=") {
				i++
			}
		}
	}
	return "", args
}
