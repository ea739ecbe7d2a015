package task

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/store"
)

// mostLent is how often the secrets of one task are lent. Its node needs them once, or once more where an answer was lost.
const mostLent = 100

// eventLent says that secrets were lent, to whom, and for which task.
const eventLent = "task.secret_lent"

// Secrets lends the secrets that the params of a task name to the node that has claimed it, while the task is open. Each call makes an
// event.
func (d *Service) Secrets(ctx context.Context, c Claimer, taskID string) (wire.TaskSecrets, error) {
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
	err = d.Store.LendSecrets(ctx, taskID, c.Fingerprint, mostLent, store.Event{At: d.Now(), Kind: eventLent,
		Actor: "node:" + c.NodeID, NodeID: c.NodeID,
		NodeName: work.NodeName, Tenant: work.Tenant, Address: c.Address, Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{"task": taskID, "type": work.Type, "secrets": strings.Join(names, ","), "fingerprint": c.Fingerprint}})
	if errors.Is(err, store.ErrConflict) {
		err = d.notLent(store.Fresh(ctx), c, taskID)
	}
	if err != nil {
		return wire.TaskSecrets{}, err // nothing is lent that is not on record
	}
	return lent, nil
}

// notLent says why the record refused: the task has ended meanwhile, or its node asks without end.
func (d *Service) notLent(ctx context.Context, c Claimer, taskID string) error {
	work, err := d.work(ctx, taskID, "")
	if err == nil {
		err = d.refusal(ctx, c, taskID, work, "")
	}
	if err == nil {
		err = wire.Refuse(wire.CodeTooManyRequests, "task "+taskID+" was lent its secrets "+strconv.Itoa(mostLent)+" times", "keep them")
	}
	return err
}

// secretNames reads the names of secrets out of the params that were signed.
func (d *Service) secretNames(ctx context.Context, taskID string) ([]string, error) {
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
