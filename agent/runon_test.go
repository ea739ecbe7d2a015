package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"muster/agent/internal/command"
	"muster/agent/internal/service"
)

// runOn is the main function for a machine whose files are in the folder root.
func runOn(root string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	p := command.Program{Version: version, Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	p.System = service.System{Root: root, Getenv: os.Getenv}
	code := execute(ctx, p, os.Args[1:])
	stop()
	os.Exit(code)
}
