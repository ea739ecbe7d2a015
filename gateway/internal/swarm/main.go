// Command swarm plays many nodes against one running gateway: it enrols them, lets them report, renews their certificates,
// and prints how many of each the gateway took per second, how long each took, and what was refused.
//
// It speaks agent/wire and agent/sign as the agent does, over mTLS and over signatures. What costs a node's processor and
// not the gateway's (keys, certificate requests, signatures) is made before the clock starts, and the HTTP side is a few
// lines over a connection, so that on one machine the gateway gets the processor. It is for gateways under test and talks
// to loopback addresses only.
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
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, getenv, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		fmt.Fprintf(stderr, "swarm: %v\nswarm -help shows every flag\n", err)
		return exitUsage
	}
	s := &swarm{options: o, say: stderr, epoch: &epoch{}}
	err = s.play(ctx)
	if len(s.phases) > 0 {
		s.report(stdout)
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
