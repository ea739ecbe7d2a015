package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/store"
)

// Create makes a node in state ready, which waits for its bootstrap. Refusals: bad_name, bad_label, bad_request, name_in_use,
// banned.
func (f *Fleet) Create(ctx context.Context, q api.CreateNodeRequest, by store.Actor) (Node, error) {
	return f.create(ctx, q, store.Node{State: wire.StateReady}, by)
}

// Commission makes a node in state commissioned, which is a machine of a provider. It refuses as Create does.
func (f *Fleet) Commission(ctx context.Context, name, tenant, provider, instanceID string, by store.Actor) (Node, error) {
	return f.create(ctx, api.CreateNodeRequest{Name: name, Tenant: tenant},
		store.Node{State: wire.StateCommissioned, Provider: provider, InstanceID: instanceID}, by)
}

func (f *Fleet) create(ctx context.Context, q api.CreateNodeRequest, row store.Node, by store.Actor) (Node, error) {
	q.Tenant = cmp.Or(q.Tenant, store.DefaultTenant)
	if err := checkNew(q); err != nil {
		return Node{}, err
	}
	row.ID, row.Name, row.Tenant, row.CreatedAt, row.GPUsExpected = newID(nodePrefix, f.now()), q.Name, q.Tenant, f.now(), q.GPUs
	err := f.store.CreateNode(ctx, row, q.Labels, f.audited("node.created", aboutNode(row), by, nil))
	if errors.Is(err, store.ErrConflict) {
		return Node{}, f.nameTaken(store.Fresh(ctx), q)
	}
	if err != nil {
		return Node{}, err
	}
	return f.Node(ctx, "", row.ID)
}

func checkNew(q api.CreateNodeRequest) error {
	if err := cmp.Or(checkName(q.Name, "muster node create NAME"), wire.CheckTenant(q.Tenant), label.Check(q.Labels)); err != nil {
		return err
	}
	if q.GPUs < 0 || q.GPUs > wire.MaxGPUs {
		return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%d GPUs: not allowed", q.GPUs),
			fmt.Sprintf("0 (not said) to %d", wire.MaxGPUs))
	}
	return nil
}

// nameTaken says why a name cannot be used.
func (f *Fleet) nameTaken(ctx context.Context, q api.CreateNodeRequest) error {
	holder, err := f.holder(ctx, q.Tenant, q.Name, "choose another")
	switch {
	case err != nil:
		return err
	case holder == nil:
		return wire.Refuse(wire.CodeUnavailable, "the name "+q.Name+" was taken a moment ago", "try again")
	case holder.EnrolmentID == "":
		return wire.Refuse(wire.CodeNameInUse, "the name "+q.Name+" belongs to a node that is there already and has yet to join",
			"choose another, or bootstrap that node: muster bootstrap "+q.Name)
	}
	return wire.Refuse(wire.CodeNameInUse, "the name "+q.Name+" belongs to a node that is there already",
		"choose another, or bootstrap that node again: muster bootstrap "+q.Name+" --again")
}

// Bootstrappable refuses a bootstrap token for a node that cannot use one: a banned, a retired or a commissioned node. Unless
// again is set, it also refuses a node that has enrolled, because a bootstrap replaces its machine.
func (n Node) Bootstrappable(again bool) error {
	switch state := State(n.State); {
	case n.Banned:
		return wire.Refuse(wire.CodeBanned, "node "+n.Name+" is banned", "create another node with another name: muster node create NAME")
	case state == Retired:
		return wire.Refuse(wire.CodeRetired, "node "+n.Name+" was retired", "create it anew: muster node create "+n.Name)
	case state == Commissioned:
		return wire.Refuse(wire.CodeIllegalMove, "node "+n.Name+" is commissioned: it is not ready to be bootstrapped",
			"it must be accepted first")
	case n.EnrolmentID != "" && !again:
		return wire.Refuse(wire.CodeIllegalMove,
			"node "+n.Name+" is "+n.State+": it has enrolled already, and a new bootstrap replaces the machine that it is now",
			"if that is meant: muster bootstrap "+n.Name+" --again (?again=true)")
	}
	return nil
}

// Fetched records that the bootstrap script of a node was fetched. A ready node becomes deploying; other states stay. A node
// that is commissioned or retired is refused.
func (f *Fleet) Fetched(ctx context.Context, nodeID string, by store.Actor) error {
	_, err := f.apply(ctx, nodeID, change{verb: Fetch, by: by})
	return err
}
