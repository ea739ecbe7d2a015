// Command demo shows renting and bare metal without a company, a rack or a bill: a gateway of its own, a simulated vast.ai, RunPod, Lambda
// Cloud and MAAS, and an agent for each machine that is rented or installed. It prints what to type, and where machines can be made to
// fail. At its end nothing of it is left.
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

// run plays until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	programs := flags.String("programs", "bin", "the folder with muster and muster-agent")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p, err := openPlay(*programs)
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.open(ctx); err != nil {
		return err
	}
	fmt.Fprint(stdout, p.text())
	err = p.last(ctx)
	fmt.Fprintln(stdout, "\nThe demo ends: all of it is removed.")
	return err
}
