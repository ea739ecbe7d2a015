package fleet

import (
	"context"
	"errors"
	"strings"

	"muster/agent/wire"
	"muster/store"
)

// nodePrefix begins the id of every node.
const nodePrefix = "n"

// place is where an applicant goes: a new node, or an existing one with what must still hold when it is written.
type place struct {
	node     store.Node
	takeOver *store.TakeOver
	why      string // what allowed the take-over
}

func (p place) detail(a Applicant) map[string]string {
	detail := map[string]string{"credential": a.Credential.ID, "enrolment": p.node.EnrolmentID}
	if p.why != "" {
		detail["took_over"] = p.why
	}
	return detail
}

// place decides by name: one name, one node. A bound use leads to its instance's own node whatever name is asked for, as long as
// that node has not become another instance's.
func (f *Fleet) place(ctx context.Context, a Applicant, bound *store.Recorded) (place, error) {
	if bound != nil && bound.Node.Banned {
		return place{}, wire.Refuse(wire.CodeBanned, "this instance's node is banned", "ask the operator; nothing can be done from here")
	}
	if bound != nil && State(bound.Node.State) != Retired && ofInstance(bound.Node, a.Request) {
		return f.comeBack(ctx, a, bound.Node)
	}
	if a.Credential.NodeID != "" {
		return f.bound(ctx, a)
	}
	if likeID(a.Request.Name) {
		return place{}, wire.Refuse(wire.CodeBadName, "the name "+a.Request.Name+" has the form of a node's id",
			"choose another with --name")
	}
	holder, err := f.store.Node(ctx, "", a.Request.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return f.newNode(a), nil
	case err != nil:
		return place{}, err
	case holder.Banned && holder.Name == a.Request.Name && holder.Tenant != a.Credential.Tenant:
		return place{}, taken(a.Request.Name)
	case holder.Banned && holder.Name == a.Request.Name:
		return place{}, wire.Refuse(wire.CodeBanned, "the name "+a.Request.Name+" is banned", "choose another name, or ask the operator")
	case State(holder.State) == Retired || holder.Name != a.Request.Name:
		return f.newNode(a), nil
	}
	return f.replace(ctx, a, holder)
}

// likeID tells names that a person could mean another node with: nodes are found by either.
func likeID(name string) bool {
	digits, ok := strings.CutPrefix(name, nodePrefix+"-")
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

func (f *Fleet) newNode(a Applicant) place {
	return place{node: store.Node{
		ID: newID(nodePrefix, f.now()), Name: a.Request.Name, Tenant: a.Credential.Tenant, Provider: a.Request.Provider,
		InstanceID: a.Request.InstanceID, State: string(Enrolled), CreatedAt: f.now(),
		EnrolmentID: newID("e", f.now()), GPUsExpected: max(a.Credential.GPUs, a.GPUs),
	}}
}
