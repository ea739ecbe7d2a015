// Command muster-agent makes a machine a node of a fleet: it joins a gateway, reports the machine's GPUs, and goes on.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set when the program is linked.
var version = "dev"

func main() {
	beSmall(os.Getenv)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
