package fleet

import (
	"context"
	"errors"
	"fmt"

	"muster/agent/wire"
	"muster/store"
)

// Rename gives a node another name. Its id stays, and with it all that is on record of it: certificates, tokens that are bound to it,
// tasks, series, costs, logs, alerts. A node that has the name already stays as it is, and there is no event.
func (f *Fleet) Rename(ctx context.Context, tenant, idOrName, name string, by store.Actor) (Node, error) {
	if err := checkName(name, "muster node rename OLD NEW"); err != nil {
		return Node{}, err
	}
	node, err := f.Node(ctx, tenant, idOrName)
	switch {
	case err != nil || node.Name == name && State(node.State) != Retired:
		return node, err
	case State(node.State) == Retired:
		return Node{}, wire.Refuse(wire.CodeRetired, "node "+node.Name+" was retired, and keeps its name in the log",
			"its name is free for another node, unless it is banned")
	}
	e := f.audited("node.renamed", about{node.ID, name, node.Tenant}, by, map[string]string{"from": node.Name, "to": name})
	err = f.store.RenameNode(ctx, node.ID, node.Name, name, e)
	f.Forget(node.ID)
	if errors.Is(err, store.ErrConflict) {
		err = f.notRenamed(store.Fresh(ctx), node, name)
	}
	if err != nil {
		return Node{}, err
	}
	return f.Node(ctx, "", node.ID)
}

// notRenamed says why a node could not get a name; nil: somebody else has given it that name meanwhile.
func (f *Fleet) notRenamed(ctx context.Context, node Node, name string) error {
	holder, err := f.holder(ctx, node.Tenant, name, "choose another")
	switch {
	case err != nil || holder != nil && holder.ID == node.ID:
		return err
	case holder == nil:
		return wire.Refuse(wire.CodeUnavailable, "node "+node.Name+" changed just now",
			"look at it (muster node show "+node.ID+"), then try again")
	}
	return wire.Refuse(wire.CodeNameInUse, "the name "+name+" belongs to another node, which is "+holder.State,
		"choose another, or rename that node first, or retire it if it is gone for good: muster node retire "+name)
}

// Nameable refuses a name that no machine could get with a token of a tenant. The name of a node of that tenant is allowed: a machine
// that replaces a silent node joins by its name.
func (f *Fleet) Nameable(ctx context.Context, tenant, name string) error {
	if err := checkName(name, "muster token create --name NAME"); err != nil {
		return err
	}
	_, err := f.holder(ctx, tenant, name, "choose another")
	return err
}

// holder is the node of a tenant that has a name; nil: the name is free. It refuses the name of a banned node, and that of another
// tenant's node without telling more. hint says what to do then.
func (f *Fleet) holder(ctx context.Context, tenant, name, hint string) (*store.Node, error) {
	n, err := f.store.Node(ctx, "", name)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && (n.Name != name || State(n.State) == Retired && !n.Banned):
		return nil, nil
	case err != nil:
		return nil, err
	case n.Tenant != tenant:
		return nil, wire.Refuse(wire.CodeNameInUse, "the name "+name+" is taken", hint)
	case n.Banned:
		return nil, wire.Refuse(wire.CodeBanned, "the name "+name+" is banned", hint)
	}
	return &n, nil
}

// checkName refuses what cannot be a node's name. usage is how it is given.
func checkName(name, usage string) error {
	if wire.CheckName(name) != nil {
		return wire.Refuse(wire.CodeBadName, fmt.Sprintf("%.80q is not a node's name", name),
			"a name has 1 to 63 letters, digits, dots, dashes or underscores, and a letter or digit at both ends: "+usage)
	}
	if likeID(name) {
		return wire.Refuse(wire.CodeBadName, "the name "+name+" has the form of a node's id", "choose another")
	}
	return nil
}
