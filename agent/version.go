package main

import (
	"context"
	"fmt"
	"runtime"

	"muster/agent/internal/command"
	"muster/agent/wire"
)

// showVersion is the command version.
func showVersion(_ context.Context, p command.Program, args []string) error {
	if err := p.Flags("version", "Prints which build of the agent this is.", "  muster-agent version\n").Parse(args); err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "muster-agent %s %s/%s %s protocol %d\n",
		p.Version, runtime.GOOS, runtime.GOARCH, runtime.Version(), wire.ProtocolVersion)
	return nil
}
