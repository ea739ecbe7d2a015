package workload

import (
	"context"
	"time"

	"muster/agent/internal/child"
)

// LogCommand returns the engine's command that prints the log of a workload's container, each line with its time in front, from since on;
// without since, from the beginning. Its standard error is part of the log. secrets are the values that the container got as secrets,
// because the log may repeat them.
func (h Host) LogCommand(ctx context.Context, name string, since time.Time, follow bool) (c child.Command, secrets []string, err error) {
	found, err := h.one(ctx, name)
	if err != nil {
		return child.Command{}, nil, err
	}
	args := []string{"logs", "--timestamps"}
	// podman follows a journal only if it has read there that the container was started, and since passes by that entry:
	// libpod/container_log_linux.go of podman 4.3.1.
	whole := follow && found.HostConfig.LogConfig.Type == "journald"
	if !since.IsZero() && !whole {
		args = append(args, "--since="+since.UTC().Format(time.RFC3339)) // not all engines take parts of a second
	}
	if follow {
		args = append(args, "--follow")
	}
	return child.Command{Program: found.engine.path, Args: append(args, found.ID), Env: found.engine.env}, found.secrets(), nil
}
