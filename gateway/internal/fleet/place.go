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

// newNode is a place that no node has yet. The transaction makes sure that the name is free.
func (f *Fleet) newNode(a Applicant) place {
	return place{node: store.Node{
		ID: newID(nodePrefix, f.now()), Name: a.Request.Name, Tenant: a.Credential.Tenant, Provider: a.Request.Provider,
		InstanceID: a.Request.InstanceID, State: string(Enrolled), CreatedAt: f.now(),
		EnrolmentID: newID("e", f.now()), GPUsExpected: a.gpus(),
	}}
}

// bound is the place for a token that is bound to a node: that node, whatever name is asked for. A machine that says it is
// another node has the wrong token.
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
	if a.Request.Name != node.Name {
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
