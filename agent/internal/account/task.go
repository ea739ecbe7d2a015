package account

import (
	"context"

	"muster/agent/internal/task"
	"muster/agent/wire"
)

// DoProvision does a task provision_user. The values of the outcome are changed and, if it came to its end, uid and home.
func (a *Accounts) DoProvision(ctx context.Context, job task.Job, params *wire.ProvisionUser) task.Outcome {
	done, err := a.Provision(ctx, params, job.Output)
	values := map[string]any{"changed": done.Changed}
	if err == nil {
		values["uid"] = done.UID
		values["home"] = done.Home
	}
	return task.Ended(err, values)
}

// DoDeprovision does a task deprovision_user. The values of the outcome are changed, removed (the accounts) and kept (the home directories
// that are still there).
func (a *Accounts) DoDeprovision(ctx context.Context, job task.Job, params *wire.DeprovisionUser) task.Outcome {
	done, err := a.Deprovision(ctx, params, job.Output)
	return task.Ended(err, map[string]any{"changed": done.Changed, "removed": list(done.Removed), "kept": list(done.Kept)})
}

// list is a list in JSON also if it is empty.
func list(names []string) []string { return append([]string{}, names...) }
