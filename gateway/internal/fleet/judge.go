package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/store"
)

// Judge adds and removes reasons that the gateway itself has found, each with what a person should know of it. An active node fails by
// the first reason, and comes back with the last one, unless a person or another reason holds it. A node that is retired, that has not
// enrolled yet, or that two machines claim to be, is left alone: that is no error.
func (f *Fleet) Judge(ctx context.Context, nodeID string, add map[string]string, remove []string) error {
	row, err := f.store.Node(ctx, "", nodeID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || has(row.Reasons, wire.ReasonConflict) {
		return err
	}
	added := slices.DeleteFunc(slices.Sorted(maps.Keys(add)), func(reason string) bool { return has(row.Reasons, reason) })
	removed := slices.DeleteFunc(slices.Clone(remove), func(reason string) bool { return !takesBack(row.Reasons, reason) })
	if len(added)+len(removed) == 0 {
		return nil
	}
	_, err = f.applyHealth(ctx, nodeID, byGateway(), added, removed, add)
	return unlessRefused(err)
}

// byGateway is the actor for what nobody asked for.
func byGateway() store.Actor { return store.Actor{Name: "gateway"} }

// takesBack is true if a node has a reason that no person gave.
func takesBack(reasons []store.Reason, reason string) bool {
	return slices.ContainsFunc(reasons, func(x store.Reason) bool { return x.Reason == reason && !x.Person })
}

// unlessRefused drops a refusal: the node left its state meanwhile, and cannot move so in the new one.
func unlessRefused(err error) error {
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// RetireSilent retires a node that was not heard from for the duration after. Time in which the gateway was away does not count, and
// nothing is retired in the grace after a start. It leaves a node alone that a person holds, that two machines claim to be, or that never
// joined. It reports whether the node was retired.
func (f *Fleet) RetireSilent(ctx context.Context, nodeID string, after time.Duration) (bool, error) {
	f.watch(ctx)
	n, err := f.Node(ctx, "", nodeID)
	if err != nil {
		return false, unlessRefused(err)
	}
	silent := f.unheard(n)
	if silent < after || n.Status != store.StatusStale || f.Ref().Grace || !retirable(n) {
		return false, nil
	}
	_, err = f.apply(ctx, nodeID, change{verb: Retire, by: byGateway(), detail: map[string]string{
		"why": "it was not heard from for " + silent.Round(time.Minute).String(), "last_seen": n.LastSeen.UTC().Format(time.RFC3339),
		"limit": after.String(),
	}})
	return err == nil, unlessRefused(err)
}

// unheard is how long a node was not heard from while the gateway was there to hear it.
func (f *Fleet) unheard(n Node) time.Duration {
	if n.LastSeen == nil {
		return 0
	}
	now := f.now()
	return now.Round(0).Sub(*n.LastSeen) - f.clock.Absent(*n.LastSeen, now)
}

// retirable is true if nothing but the gateway's own findings keeps a node from work.
func retirable(n Node) bool {
	switch State(n.State) {
	case Active, Enrolled, Unavailable:
		return !personSet(n.Reasons) && !has(n.Reasons, wire.ReasonConflict)
	}
	return false
}
