package task

import (
	"context"
	"errors"
	"slices"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
)

// Claimer is a node that has proven its identity.
type Claimer struct {
	NodeID, Enrolment, Fingerprint string
	Generation                     int
	Proof                          string // of a result, for the record: its request's signature with what that covers, or "tls:FINGERPRINT"
	Address                        string
}

// Takes says what the node takes in this wait.
type Takes struct {
	Tasks  bool
	Report bool                    // ErrReport, where the node has to learn something
	Aside  func() *wire.SignedTask // gives what comes before tasks: the document of a session. It must not wait. Nil: the wait takes none
}

// ErrReport ends a wait if the node should send its next heartbeat at once.
var ErrReport = errors.New("the node should report now")

// Wait returns the node's next task as soon as there is one; nil: none came within that time. A later wait of the same node ends this one.
// A wait asks the database nothing while there is no task for it. Sessions come before tasks: a person waits for them.
func (d *Service) Wait(ctx context.Context, c Claimer, within time.Duration, takes Takes) (*wire.SignedTask, error) {
	bell := d.enter(c.NodeID)
	if bell == nil {
		return nil, nil
	}
	defer d.leave(c.NodeID, bell)
	end := time.NewTimer(within)
	defer end.Stop()
	for {
		if takes.Report && d.mustReport(c.NodeID, bell) {
			return nil, ErrReport
		}
		if takes.Aside != nil && ctx.Err() == nil {
			if t := takes.Aside(); t != nil {
				return t, nil
			}
		}
		var look <-chan time.Time
		if takes.Tasks && d.Waiting(c.NodeID) > 0 {
			if t, err := d.claim(ctx, c); t != nil || err != nil {
				return t, err
			}
			look = time.After(lookAgain)
		}
		select {
		case _, open := <-bell:
			if !open {
				return nil, nil
			}
		case <-look:
		case <-end.C:
			return nil, nil
		case <-ctx.Done():
			return nil, nil // nobody reads the answer
		}
	}
}

// enter makes the bell of a wait, and ends the earlier wait of this node. It gives nil when the gateway stops.
func (d *Service) enter(nodeID string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return nil
	}
	if earlier := d.waits[nodeID]; earlier != nil {
		close(earlier)
	}
	bell := make(chan struct{}, 1)
	d.waits[nodeID] = bell
	return bell
}

func (d *Service) leave(nodeID string, bell chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waits[nodeID] == bell {
		delete(d.waits, nodeID)
		delete(d.reports, nodeID)
	}
}

// Report ends the wait of a node with ErrReport: its next heartbeat has news for it. A node that does not wait now is not told.
func (d *Service) Report(nodeID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if bell := d.waits[nodeID]; bell != nil {
		d.reports[nodeID] = true
		ring(bell)
	}
}

// mustReport tells whether the wait with this bell has to end so.
func (d *Service) mustReport(nodeID string, bell chan struct{}) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waits[nodeID] == bell && d.reports[nodeID]
}

// Ring wakes the wait of a node: a session waits for it.
func (d *Service) Ring(nodeID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if bell := d.waits[nodeID]; bell != nil {
		ring(bell)
	}
}

// Waiting returns how many tasks wait for a node, as far as memory knows.
func (d *Service) Waiting(nodeID string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting[nodeID].tasks
}

// ring wakes the one who waits for a bell, now or when it looks next.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// recount reads how many tasks wait for a node, and wakes its wait where there are some. Whatever changes that number calls it after its
// write. Of two counts at once the one that began later stands: it has seen the writes of both.
func (d *Service) recount(ctx context.Context, nodeID string) error {
	n, err := d.count(ctx, nodeID)
	if err != nil || n == 0 {
		return err
	}
	d.Ring(nodeID)
	return nil
}

// count is recount without the bell.
func (d *Service) count(ctx context.Context, nodeID string) (int, error) {
	d.mu.Lock()
	d.counts++
	number := d.counts
	d.mu.Unlock()
	waiting, err := d.Store.WaitingTasks(context.WithoutCancel(ctx), nodeID)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch n := waiting[nodeID]; {
	case d.waiting[nodeID].number > number:
	case n == 0:
		delete(d.waiting, nodeID)
	default:
		d.waiting[nodeID] = hint{n, number}
	}
	return waiting[nodeID], nil
}

// claim asks the database for the node's next task; nil: there is none that it may have now.
func (d *Service) claim(ctx context.Context, c Claimer) (*wire.SignedTask, error) {
	now := d.Now()
	q := store.TaskClaim{NodeID: c.NodeID, EnrolmentID: c.Enrolment, Fingerprint: c.Fingerprint, At: now, Active: wire.StateActive,
		Without: wire.ReasonConflict, Again: now.Add(-again), Deliveries: deliveries}
	t, err := d.Store.ClaimTask(ctx, q)
	if errors.Is(err, store.ErrNotFound) {
		_, err := d.count(ctx, c.NodeID) // it is the wait itself that asks: without the bell
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	signed := wire.SignedTask{Payload: t.Payload, Signature: t.Signature, SigningKeyID: t.SigningKeyID}
	if !d.believed(c, t.ID, signed) {
		return nil, d.giveUp(ctx, c, t.ID)
	}
	d.Moved(c.NodeID, t.ID)
	return &signed, nil
}

// believed tells whether a node would believe a task. It could not answer about one that it does not believe.
func (d *Service) believed(c Claimer, id string, signed wire.SignedTask) bool {
	p, _, err := sign.OpenTask(signed, d.Keys())
	return err == nil && p.TaskID == id && p.NodeID == c.NodeID && p.Enrolment == c.Enrolment
}

// giveUp ends a task that no node would believe, so that it holds up no others.
func (d *Service) giveUp(ctx context.Context, c Claimer, id string) error {
	t, err := d.Task(ctx, "", id)
	if err != nil {
		return err
	}
	const why = "its signature is of no task key that nodes believe now, or the record was changed: give it again"
	detail := map[string]string{"task": t.ID, "type": t.Type, "key": t.SigningKeyID, "why": why}
	r := store.TaskResult{ID: t.ID, Fingerprint: c.Fingerprint, Status: wire.TaskFailed, At: d.Now(), TaskEnd: store.TaskEnd{Error: why}}
	err = d.Store.FinishTask(ctx, r, store.Event{At: r.At, Kind: "task.finished", Actor: byGateway, NodeID: t.NodeID, NodeName: t.NodeName,
		Tenant: t.Tenant, Outcome: r.Status, Security: true, Detail: detail})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	d.ringFollowers(id)
	return d.recount(ctx, c.NodeID)
}

// WaitingFor says why a task that is queued is not given out; "": nothing holds it back.
func WaitingFor(t store.Task) string {
	switch {
	case t.Status != wire.TaskQueued:
	case slices.Contains(t.NodeReasons, wire.ReasonConflict):
		return "two machines use its node's identity"
	case t.NodeState != wire.StateActive && !t.Drained:
		return "its node is " + t.NodeState
	case t.Behind:
		return "its node is at work on another task of this type, or has an earlier one on the same account or workload"
	}
	return ""
}
