package remote

import (
	"context"
	"os/signal"
	"syscall"

	"muster/gateway/internal/cli"
)

// hungUp is the exit code that a shell gives for SIGHUP.
const hungUp = 128 + int(syscall.SIGHUP)

// orderly has a command say goodbye to the node also if its terminal goes away. ssh ends its ProxyCommand so. Otherwise the
// node would keep the connection until the gateway misses the operator. What nohup has started goes on.
func orderly(run func(context.Context, *cli.Session) error) func(context.Context, *cli.Session) error {
	return func(ctx context.Context, s *cli.Session) error {
		if signal.Ignored(syscall.SIGHUP) {
			return run(ctx, s)
		}
		within, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
		err := run(within, s)
		if within.Err() != nil && ctx.Err() == nil {
			return &cli.EndedWith{Code: hungUp} // nobody is there to read why
		}
		return err
	}
}
