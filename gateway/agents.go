package main

import (
	"embed"
	"io/fs"
)

// The agents that `make build` put here, as agents/<os>-<arch>/muster-agent. A bare checkout has none and builds all the same.
//
//go:embed all:agents
var embedded embed.FS

func agentFiles() (fs.FS, error) { return fs.Sub(embedded, "agents") }
