package registry

import (
	"context"
	"errors"
	"strings"
	"time"

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

// place decides by name: one name, one node. A bound use leads to its own node whatever name is asked for.
func (r *Registry) place(ctx context.Context, a Applicant, bound *store.Recorded) (place, error) {
	if bound != nil && bound.Node.Banned {
		return place{}, refusal(wire.CodeBanned, "this instance's node is banned", "ask the operator; nothing can be done from here")
	}
	if bound != nil && State(bound.Node.State) != Retired {
		if has(bound.Node.Reasons, ReasonConflict) { // an instance id is a claim: the other machine can make it as well
			return place{}, refusal(wire.CodeNameInUse, "two machines use the identity of node "+bound.Node.Name+": it is not enrolled again before that is settled",
				settle(bound.Node.Name))
		}
		return r.takeOver(ctx, a, bound.Node, "the same instance with its own token")
	}
	if a.Credential.NodeID != "" {
		return r.bound(ctx, a)
	}
	if likeID(a.Request.Name) {
		return place{}, refusal(wire.CodeBadName, "the name "+a.Request.Name+" has the form of a node's id", "choose another with --name")
	}
	holder, err := r.store.Node(ctx, "", a.Request.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r.newNode(a), nil
	case err != nil:
		return place{}, err
	case holder.Banned && holder.Name == a.Request.Name:
		return place{}, refusal(wire.CodeBanned, "the name "+a.Request.Name+" is banned", "choose another name, or ask the operator")
	case State(holder.State) == Retired || holder.Name != a.Request.Name:
		return r.newNode(a), nil
	}
	why, err := r.mayTakeOver(ctx, a, holder)
	if err != nil {
		return place{}, err
	}
	return r.takeOver(ctx, a, holder, why)
}

// likeID tells names that a person could mean another node with: nodes are found by either.
func likeID(name string) bool {
	digits, ok := strings.CutPrefix(name, nodePrefix+"-")
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

func (r *Registry) newNode(a Applicant) place {
	return place{node: store.Node{
		ID: newID(nodePrefix, r.now()), Name: a.Request.Name, Tenant: a.Credential.Tenant, Provider: a.Request.Provider,
		InstanceID: a.Request.InstanceID, State: string(Enrolled), CreatedAt: r.now(),
		EnrolmentID: newID("e", r.now()), GPUsExpected: a.Credential.GPUs,
	}}
}

// Reasons that allow a name to be taken over, as events give them.
const (
	becauseKey      = "signed by the node's own key"
	becauseStale    = "the node was silent and the token is newer"
	becauseRecovery = "the operator allowed recovery"
)

// mayTakeOver holds the rules for a name that a live node has. The refusal says nothing of another tenant.
func (r *Registry) mayTakeOver(ctx context.Context, a Applicant, holder store.Node) (string, error) {
	inUse := refusal(wire.CodeNameInUse, "the name "+a.Request.Name+" belongs to a node that is there already",
		"choose another with --name; if this machine is that node, or replaces it, the operator lets it in with: muster node allow-recovery "+
			a.Request.Name+"; a token minted after that node went silent works too, and so does muster node retire "+a.Request.Name)
	if holder.Tenant != a.Credential.Tenant {
		return "", refusal(wire.CodeNameInUse, "the name "+a.Request.Name+" is taken", "choose another with --name")
	}
	if has(holder.Reasons, ReasonConflict) { // either of the two could bring a key, a silence or a token
		return "", refusal(wire.CodeNameInUse, "two machines use the identity of node "+holder.Name+": nobody takes it over before that is settled",
			settle(holder.Name)+"; or enrol with a token that is bound to the node")
	}
	if a.Identity != nil && a.Identity.NodeID == holder.ID {
		return becauseKey, nil
	}
	if holder.RecoveryUntil != nil && r.now().Before(*holder.RecoveryUntil) {
		return becauseRecovery, nil
	}
	if a.IsPSK || holder.EnrolmentID == "" { // a node that waits for its first enrolment is not stale, it has its own token
		return "", inUse
	}
	if err := r.Flush(ctx); err != nil {
		return "", err
	}
	holder, err := r.store.Node(ctx, "", holder.ID)
	if err != nil {
		return "", err
	}
	heard := lastHeard(holder)
	if holder.Interval == 0 {
		holder.Interval = usualInterval // it has not said how often it means to report
	}
	if r.ref().Status(&heard, holder.Interval) == "stale" && a.Credential.CreatedAt.After(heard) {
		return becauseStale, nil
	}
	return "", inUse
}

// lastHeard is the last heartbeat, or the enrolment where none followed.
func lastHeard(n store.Node) time.Time {
	if n.LastSeen != nil {
		return *n.LastSeen
	}
	if n.EnrolledAt != nil {
		return *n.EnrolledAt
	}
	return n.CreatedAt
}

// takeOver re-enrols an existing node: its tenant and what a person decided stay, its older certificates end.
func (r *Registry) takeOver(ctx context.Context, a Applicant, node store.Node, why string) (place, error) {
	to, err := Decide(Situation{State: State(node.State), Person: personSet(node.Reasons)}, Enrol)
	if err != nil {
		return place{}, err
	}
	still := &store.TakeOver{EnrolmentID: node.EnrolmentID, State: node.State, UseRecovery: why == becauseRecovery}
	if why == becauseStale {
		heard := lastHeard(node)
		still.LastSeenAtMost = &heard
	}
	node.State, node.EnrolmentID = string(to), newID("e", r.now())
	node.Provider, node.InstanceID = a.Request.Provider, a.Request.InstanceID
	if a.Credential.GPUs > 0 {
		node.GPUsExpected = a.Credential.GPUs
	}
	return place{node: node, takeOver: still, why: why}, nil
}
