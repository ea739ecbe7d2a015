// Command swarm plays many nodes against one running gateway: it enrols them, lets them report, renews their certificates,
// and prints as JSON how many of each the gateway took per second, how long each took, and what was refused.
//
// It speaks agent/wire and agent/sign as the agent does, over mTLS and over signatures. On one machine the gateway is to get the
// processor. So swarm makes keys, certificate requests and signatures before the clock starts, and its HTTP is a few lines over a
// connection. It also plays the same against a step-ca, and against a server that does nothing, to compare them with the gateway.
// It is for gateways under test and talks to loopback addresses only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes, as the other programs of the house have them.
const (
	exitDone   = 0
	exitFailed = 1 // something was refused that should not have been
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, getenv, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		fmt.Fprintf(stderr, "swarm: %v\nswarm -help shows every flag\n", err)
		return exitUsage
	}
	if o.noop != "" {
		if err := serveNoop(ctx, o.noop, stdout); err != nil {
			fmt.Fprintf(stderr, "swarm: %v\n", err)
			return exitFailed
		}
		return exitDone
	}
	s := &swarm{options: o, say: stderr, epoch: &epoch{}}
	err = s.play(ctx, stdin, stdout)
	if len(s.phases) > 0 && !o.inTurns {
		s.report(stdout, s.phases)
	}
	if err != nil {
		fmt.Fprintf(stderr, "swarm: %v\n", err)
		return exitFailed
	}
	if what := s.unexpected(); what != "" {
		fmt.Fprintf(stderr, "swarm: not every request was taken: %s\n", what)
		return exitFailed
	}
	return exitDone
}
