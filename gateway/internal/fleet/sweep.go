package fleet

import (
	"context"

	"muster/agent/wire"
)

// sweepEvery is how many flushes there are for one sweep.
const sweepEvery = 3

// Sweep looks for what no request tells. A certificate whose renewal does not come becomes an event. A node whose certificate
// has expired becomes unavailable. Sweep does nothing in the grace after a start, because the nodes could not renew while the
// gateway was away.
func (f *Fleet) Sweep(ctx context.Context) error {
	f.watch(ctx)
	if f.Ref().Grace {
		return nil
	}
	for {
		due, err := f.store.HasOverdue(ctx, f.now())
		if err != nil {
			return err
		}
		if !due {
			break
		}
		n, err := f.store.MarkOverdue(ctx, f.now(), "renewal.overdue", byGateway().Name)
		if err != nil {
			return err
		}
		f.log.Warn("certificates were not renewed in time; muster node ls marks their nodes", "nodes", n)
	}
	nodes, err := f.store.ExpiredNodes(ctx, f.now(), wire.ReasonExpired)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		_, err := f.apply(ctx, node, change{verb: Fail, by: byGateway(), addHealth: []string{wire.ReasonExpired}})
		if err := unlessRefused(err); err != nil {
			return err
		}
	}
	return nil
}
