package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"muster/agent/internal/service"
)

// runOn is main on another machine than this one.
func runOn(root string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	p := program{getenv: os.Getenv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	p.system = service.System{Root: root, Getenv: os.Getenv}
	code := p.main(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
