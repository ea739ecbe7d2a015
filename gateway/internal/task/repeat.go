package task

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"muster/agent/wire"
	"muster/store"
)

// repeatLost queues lost tasks anew: those of types that do no harm when they are done twice, for the enrolment that they were for, as
// long as there is no later task that this would undo.
func (d *Service) repeatLost(ctx context.Context) error {
	lost, err := d.Store.LostTasks(ctx)
	if err != nil {
		return err
	}
	for _, t := range lost {
		_, repeated := d.repeat(ctx, t, t.Repeats-1, t.Repeats, store.Actor{Name: byGateway})
		var refused *wire.ErrorDetail
		switch {
		case errors.As(repeated, &refused): // operators keep the task keys now, so the task waits for one of them
		case errors.Is(repeated, store.ErrConflict): // its node changed meanwhile
		default:
			err = errors.Join(err, repeated)
		}
	}
	return err
}

// Retry queues a lost task again because a person wants it, whatever its type, and returns the new task.
func (d *Service) Retry(ctx context.Context, tenant, id string, by store.Actor) (store.Task, error) {
	lost, err := d.Task(ctx, tenant, id)
	switch {
	case err != nil:
		return lost, err
	case lost.Status != wire.TaskLost:
		return lost, wire.Refuse(wire.CodeIllegalMove, "task "+id+" is "+lost.Status+", and not lost", "muster task ls --lost")
	case lost.RetriedAs != "":
		return lost, wire.Refuse(wire.CodeIllegalMove, "task "+id+" was given again already, as "+lost.RetriedAs,
			"muster task show "+lost.RetriedAs)
	}
	further := 0
	if kind, err := wire.FindTaskType(lost.Type); err == nil && kind.Repeat {
		further = repeats
	}
	next, err := d.repeat(ctx, lost, further, 0, by)
	if errors.Is(err, store.ErrConflict) {
		return lost, wire.Refuse(wire.CodeIllegalMove, "task "+id+" cannot be given again: there is a later task on the same account or "+
			"workload, somebody canceled it, or its node enrolled anew", "see muster task ls --node "+lost.NodeName+
			", and give it with muster task run where it is still wanted")
	}
	return next, err
}

// repeat queues a task in place of a lost one that may be repeated so often still at least. further is how often the new one may be
// repeated. An ErrConflict says that it may not be queued.
func (d *Service) repeat(ctx context.Context, lost store.Task, further, least int, by store.Actor) (store.Task, error) {
	var payload wire.TaskPayload
	if err := json.Unmarshal(lost.Payload, &payload); err != nil {
		return lost, err
	}
	now := d.Now().UTC().Truncate(time.Millisecond)
	payload.ExpiresAt = now.Add(payload.ExpiresAt.Sub(payload.IssuedAt))
	payload.IssuedAt = now
	payload.TaskID = wire.NewTaskID()
	payload.Nonce = rand.Text()
	next := store.Task{ID: payload.TaskID, NodeID: lost.NodeID, EnrolmentID: lost.EnrolmentID, Type: lost.Type, Subject: lost.Subject,
		Drained: lost.Drained, Repeats: further, CreatedBy: lost.CreatedBy, CreatedAt: now, ExpiresAt: payload.ExpiresAt, RetryOf: lost.ID}
	if by.Name != byGateway {
		next.CreatedBy = by.Name
	}
	if err := d.seal(&next, payload); err != nil {
		return lost, err
	}
	node := store.Node{ID: lost.NodeID, Name: lost.NodeName, Tenant: lost.Tenant}
	if err := d.Store.RepeatTask(ctx, next, least, d.created(next, node, by)); err != nil {
		return lost, err
	}
	if err := d.recount(ctx, next.NodeID); err != nil {
		return lost, err
	}
	return d.Task(ctx, "", next.ID)
}
