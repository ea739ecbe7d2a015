package registry

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
func (r *Registry) Sweep(ctx context.Context) error {
	r.watch(ctx)
	if r.ref().Grace {
		return nil
	}
	for {
		due, err := r.store.OverdueExists(ctx, r.now())
		if err != nil {
			return err
		}
		if !due {
			break
		}
		n, err := r.store.MarkOverdue(ctx, r.now(), "renewal.overdue", "gateway")
		if err != nil {
			return err
		}
		r.log.Warn("certificates are not renewed in time; muster node ls marks their nodes", "nodes", n)
	}
	nodes, err := r.store.ExpiredNodes(ctx, r.now(), ReasonExpired)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		_, err := r.apply(ctx, node, change{event: Fail, by: store.Actor{Name: "gateway"}, addHealth: []string{ReasonExpired}})
		var refused *wire.ErrorDetail
		if err != nil && !errors.As(err, &refused) && !errors.Is(err, store.ErrNotFound) { // where it is it cannot fail
			return err
		}
	}
	return nil
}
