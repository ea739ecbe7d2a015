package task

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"muster/agent/wire"
	"muster/store"
)

// Secrets lends the secrets which the params of a task name to the one who has claimed it, while the task is open. Each time is an event.
func (d *Desk) Secrets(ctx context.Context, c Claimer, taskID string) (wire.TaskSecrets, error) {
	work, err := d.work(ctx, taskID, "")
	if err == nil {
		err = d.refusal(ctx, c, taskID, work, "")
	}
	if err != nil {
		return wire.TaskSecrets{}, err
	}
	names, err := d.secretNames(ctx, taskID)
	if err != nil {
		return wire.TaskSecrets{}, err
	}
	lent := wire.TaskSecrets{Secrets: map[string]string{}}
	for _, name := range names {
		value, err := d.Store.LentSecretValue(ctx, work.Tenant, name)
		if errors.Is(err, store.ErrNotFound) {
			return wire.TaskSecrets{}, noSecret(work.Tenant, name)
		}
		if err != nil {
			return wire.TaskSecrets{}, err
		}
		lent.Secrets[name] = string(value)
	}
	if len(names) == 0 {
		return lent, nil
	}
	err = d.Store.AddEvents(ctx, store.Event{At: d.Now(), Kind: "task.secret_lent", Actor: "node:" + c.NodeID, NodeID: c.NodeID,
		NodeName: work.NodeName, Tenant: work.Tenant, Address: c.Address, Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{"task": taskID, "type": work.Type, "secrets": strings.Join(names, ","), "fingerprint": c.Fingerprint}})
	if err != nil {
		return wire.TaskSecrets{}, err // nothing is lent that is not on record
	}
	return lent, nil
}

// secretNames reads the names of secrets out of the params that were signed.
func (d *Desk) secretNames(ctx context.Context, taskID string) ([]string, error) {
	t, err := d.Task(ctx, "", taskID)
	if err != nil {
		return nil, err
	}
	kind, err := wire.FindTaskType(t.Type)
	if err != nil {
		return nil, err
	}
	params := kind.New()
	if err := json.Unmarshal(Params(t), params); err != nil {
		return nil, err
	}
	return wire.TaskSecretNames(params), nil
}

func noSecret(tenant, name string) error {
	return wire.Refuse(wire.CodeNotFound, "tenant "+tenant+" has no secret "+name,
		"an operator sets it: muster secret set "+name+" --tenant "+tenant)
}
