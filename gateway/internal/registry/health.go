package registry

import (
	"context"
	"slices"
	"time"

	"muster/store"
)

// tellPause is how often what stands behind a reason may change: it is for a person, and an agent's words can hold a number that
// is another one each time.
const tellPause = 10 * time.Minute

// healthChange compares the health reasons on record with what the node says now. A node that has not looked says nothing (nil):
// that adds nothing and cures nothing.
func healthChange(reasons []store.Reason, health []string) (add, remove []string) {
	if health == nil || len(reasons)+len(health) == 0 {
		return nil, nil
	}
	for _, h := range health {
		if isHealth(h) && !has(reasons, h) && !slices.Contains(add, h) {
			add = append(add, h)
		}
	}
	for _, x := range reasons {
		if isHealth(x.Reason) && !x.Person && !slices.Contains(health, x.Reason) {
			remove = append(remove, x.Reason)
		}
	}
	return add, remove
}

// retell records that something else stands behind reasons that hold already: one GPU was gone, now it is two.
func (r *Registry) retell(ctx context.Context, id *Identity, health []string, detail map[string]string) error {
	for _, reason := range id.Reasons {
		now := plain(detail[reason.Reason])
		if now == "" || now == reason.Detail || !isHealth(reason.Reason) || !slices.Contains(health, reason.Reason) || !r.mayTell(id.NodeID) {
			continue
		}
		e := r.event("node.failed", id.NodeID, store.Actor{Name: "node:" + id.NodeID})
		e.NodeName, e.Tenant = id.Name, id.Tenant
		e.Detail = map[string]string{"from": string(id.State), "to": string(id.State), "reasons": reason.Reason, reason.Reason: now}
		err := r.store.TellReason(ctx, id.NodeID, reason.Reason, now, e)
		r.Forget(id.NodeID)
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Registry) mayTell(nodeID string) bool {
	r.beats.Lock()
	defer r.beats.Unlock()
	l, now := r.live(nodeID), r.now()
	if !l.toldAt.IsZero() && now.Sub(l.toldAt) < tellPause && !now.Before(l.toldAt) {
		return false
	}
	l.toldAt = now
	return true
}

// applyHealth records what newly speaks against a node, or no longer does, and moves it accordingly.
func (r *Registry) applyHealth(ctx context.Context, nodeID string, add, remove []string, detail map[string]string) (store.Node, error) {
	row, err := r.store.Node(ctx, "", nodeID)
	if err != nil {
		return store.Node{}, err
	}
	left := 0
	for _, reason := range row.Reasons {
		if !slices.Contains(remove, reason.Reason) {
			left++
		}
	}
	event := Cure
	if left+len(add) > 0 {
		event = Fail
	}
	c := change{event: event, by: store.Actor{Name: "node:" + nodeID}, addHealth: add, clearHealth: remove, because: map[string]string{}}
	for _, reason := range add {
		if text := plain(detail[reason]); text != "" {
			c.because[reason] = text
		}
	}
	return r.apply(ctx, nodeID, c)
}
