package fleet

import (
	"context"
	"slices"
	"time"

	"muster/gateway/internal/reading"
	"muster/store"
)

const (
	// tellPause is how often what stands behind a reason may change, after a few times: it is for a person, and an agent's words can
	// hold a number that is another one each time.
	tellPause = 10 * time.Minute
	atOnce    = 5 // of what an allowance bounds
)

// allowance bounds what a node can have written, so that one gone wild does not fill the log: a few at once, and then one each time
// that a pause is over.
type allowance struct{ full time.Time } // when it is whole again

func (a *allowance) take(now time.Time, pause time.Duration) bool {
	if left := a.full.Sub(now); left < 0 || left > atOnce*pause { // whole, or the clock went back
		a.full = now
	}
	if a.full.Sub(now) > (atOnce-1)*pause {
		return false
	}
	a.full = a.full.Add(pause)
	return true
}

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
func (f *Fleet) retell(ctx context.Context, id *Identity, health []string, detail map[string]string) error {
	for _, reason := range id.Reasons {
		now := reading.Plain(detail[reason.Reason])
		if now == "" || now == reason.Detail || !isHealth(reason.Reason) || !slices.Contains(health, reason.Reason) ||
			!f.mayTell(id.NodeID) {
			continue
		}
		e := f.event("node.failed", id.about(), itself(id.NodeID, ""))
		e.Detail = map[string]string{"from": string(id.State), "to": string(id.State), "reasons": reason.Reason, reason.Reason: now}
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
	return f.live(nodeID).retold.take(f.now(), tellPause)
}

// applyHealth records what newly speaks against a node, or no longer does, and moves it accordingly.
func (f *Fleet) applyHealth(ctx context.Context, nodeID string, add, remove []string, detail map[string]string) (store.Node, error) {
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
	c := change{verb: verb, by: itself(nodeID, ""), addHealth: add, clearHealth: remove, because: map[string]string{}}
	for _, reason := range add {
		if text := reading.Plain(detail[reason]); text != "" {
			c.because[reason] = text
		}
	}
	return f.apply(ctx, nodeID, c)
}
