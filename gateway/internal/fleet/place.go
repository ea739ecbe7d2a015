package fleet

import (
	"context"
	"errors"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/label"
	"muster/store"
)

// place is the node that an applicant becomes: a new one, or an existing one that it takes over.
type place struct {
	node     store.Node
	takeOver *store.TakeOver // what must still be true when the take-over is written; nil: a new node
	why      string          // what allowed the take-over
}

// detail is the detail of the event of the enrolment.
func (p place) detail(a Applicant) map[string]string {
	detail := map[string]string{"credential": a.Credential.ID, "enrolment": p.node.EnrolmentID}
	if p.why != "" {
		detail["took_over"] = p.why
	}
	if _, dropped := label.Understood(a.Request.Labels); len(dropped) > 0 {
		detail["labels_not_understood"] = strings.Join(dropped, ",")
	}
	return detail
}

// place decides by name, because a name belongs to one node. There is one exception: an instance that used this token before
// gets its own node back, whatever name it asks for, unless another instance has taken that node over.
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
			otherName(a.Credential.Name))
	}
	holder, err := f.holder(ctx, a.Credential.Tenant, a.Request.Name, otherName(a.Credential.Name)+", or ask the operator")
	switch {
	case err != nil:
		return place{}, err
	case holder == nil:
		return f.byKey(ctx, a)
	}
	return f.replace(ctx, a, *holder)
}

// byKey is the place for a name that nobody has. If the machine also proves a node's key, it is that node: it was renamed while the
// machine did not hear of that. Without such a key it is a new node, and so it is with a token by which the operator names a new one.
func (f *Fleet) byKey(ctx context.Context, a Applicant) (place, error) {
	if a.Identity == nil || a.Identity.Tenant != a.Credential.Tenant || a.Credential.Name != "" {
		return f.newNode(a), nil
	}
	own, err := f.store.Node(ctx, "", a.Identity.NodeID)
	if err != nil || State(own.State) == Retired {
		return f.newNode(a), err
	}
	return f.replace(ctx, a, own)
}

// newNode is a place that no node has yet. The transaction makes sure that the name is free.
func (f *Fleet) newNode(a Applicant) place {
	return place{node: store.Node{
		ID: newID(nodePrefix, f.now()), Name: a.Request.Name, Tenant: a.Credential.Tenant, Provider: a.Request.Provider,
		InstanceID: a.Request.InstanceID, State: string(Enrolled), CreatedAt: f.now(),
		EnrolmentID: newID("e", f.now()), GPUsExpected: a.gpus(),
	}}
}

// bound is the place for a token that is bound to a node: that node, whatever name is asked for. A machine that says it is
// another node has the wrong token. The name that the node had when the token was made is not another node's name, also if another
// node has it now: the node's script asks for it.
func (f *Fleet) bound(ctx context.Context, a Applicant) (place, error) {
	node, err := f.store.Node(ctx, "", a.Credential.NodeID)
	if err != nil {
		return place{}, err
	}
	wrong := wire.Refuse(wire.CodeWrongNode, "the token is for the node "+node.Name+" alone",
		"use a token of this machine's own node: muster bootstrap NODE")
	if a.Identity != nil && a.Identity.NodeID != node.ID {
		return place{}, wrong
	}
	if a.Request.Name != node.Name && a.Request.Name != a.Credential.Name {
		other, err := f.store.Node(ctx, "", a.Request.Name)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return place{}, err
		}
		if err == nil && State(other.State) != Retired {
			return place{}, wrong
		}
	}
	return f.takeOver(a, node, becauseBound)
}
