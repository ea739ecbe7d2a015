// Command muster-agent makes a machine a node of a fleet: it joins a gateway, reports the machine's GPUs, and goes on.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// version is set when the program is linked.
var version = "dev"

// heapGrowth is by how many percent the heap may grow before it is collected. The agent allocates little and seldom, so an
// early collection costs next to no time and keeps the node's memory free.
const heapGrowth = 25

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
