package fleet

import (
	"context"
	"errors"

	"muster/agent/wire"
	"muster/store"
)

// sweepEvery is how many flushes lie between two sweeps.
const sweepEvery = 3

// Sweep looks for what no request tells: certificates whose renewal does not come, each an event, and nodes whose
// certificate has expired, which are unavailable from then on. Right after a start it finds nothing, for the nodes had
// nobody to ask.
func (f *Fleet) Sweep(ctx context.Context) error {
	f.watch(ctx)
	if f.ref().Grace {
		return nil
	}
	for {
		due, err := f.store.OverdueExists(ctx, f.now())
		if err != nil {
			return err
		}
		if !due {
			break
		}
		n, err := f.store.MarkOverdue(ctx, f.now(), "renewal.overdue", "gateway")
		if err != nil {
			return err
		}
		f.log.Warn("certificates are not renewed in time; muster node ls marks their nodes", "nodes", n)
	}
	nodes, err := f.store.ExpiredNodes(ctx, f.now(), wire.ReasonExpired)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		_, err := f.apply(ctx, node, change{verb: Fail, by: store.Actor{Name: "gateway"}, addHealth: []string{wire.ReasonExpired}})
		var refused *wire.ErrorDetail
		if err != nil && !errors.As(err, &refused) && !errors.Is(err, store.ErrNotFound) { // where it is it cannot fail
			return err
		}
	}
	return nil
}
