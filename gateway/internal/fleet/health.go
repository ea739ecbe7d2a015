package fleet

import (
	"context"
	"slices"
	"time"

	"muster/gateway/internal/view/reading"
	"muster/store"
)

// tellPause is the pause between two changes of a reason's detail, after the first few. The detail is for a person. The agent's text may
// hold a number that differs in each heartbeat, and each change is a write and an event.
const tellPause = 10 * time.Minute

// healthChange compares the health reasons on record with what the node says now. Nil health means that the node has not
// looked: then nothing is added and nothing is removed.
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

// retell records a new detail of reasons that the node has already. Example: one GPU was gone, now it is two.
func (f *Fleet) retell(ctx context.Context, id *Identity, health []string, detail map[string]string) error {
	for _, reason := range id.Reasons {
		now := reading.Plain(detail[reason.Reason])
		if now == "" || now == reason.Detail || !isHealth(reason.Reason) || !slices.Contains(health, reason.Reason) ||
			!f.mayTell(id.NodeID) {
			continue
		}
		e := f.event("node.failed", id.about(), itself(id.NodeID, ""),
			map[string]string{"from": string(id.State), "to": string(id.State), "reasons": reason.Reason, reason.Reason: now})
		err := f.store.TellReason(ctx, id.NodeID, reason.Reason, now, e)
		f.Forget(id.NodeID)
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *Fleet) mayTell(nodeID string) bool {
	f.beats.Lock()
	defer f.beats.Unlock()
	return f.live(nodeID).retold.Take(f.now(), tellPause)
}

// applyHealth adds and removes reasons of a node. The node fails while any reason is left, and is cured when none is.
func (f *Fleet) applyHealth(
	ctx context.Context, nodeID string, by store.Actor, add, remove []string, detail map[string]string,
) (store.Node, error) {
	row, err := f.store.Node(ctx, "", nodeID)
	if err != nil {
		return store.Node{}, err
	}
	left := 0
	for _, reason := range row.Reasons {
		if !slices.Contains(remove, reason.Reason) {
			left++
		}
	}
	verb := Cure
	if left+len(add) > 0 {
		verb = Fail
	}
	c := change{verb: verb, by: by, addHealth: add, clearHealth: remove, because: map[string]string{}}
	for _, reason := range add {
		if text := reading.Plain(detail[reason]); text != "" {
			c.because[reason] = text
		}
	}
	return f.apply(ctx, nodeID, c)
}
