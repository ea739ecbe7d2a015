package fleet

import (
	"context"
	"errors"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/store"
)

// Reasons that allow an applicant to take a node over. Events show these words.
const (
	becauseKey      = "signed by the node's own key"
	becauseStale    = "the node was silent and the token is newer"
	becauseInstance = "the same instance with its own token"
	becauseRecovery = "the operator allowed recovery"
	becauseBound    = "a token bound to this node"
)

// ofInstance is true if the node still belongs to the instance that asks. Another machine may have taken it over.
func ofInstance(n store.Node, q *wire.RegisterRequest) bool {
	return n.Provider == q.Provider && n.InstanceID == q.InstanceID
}

// comeBack gives an instance that enrolled with this token before its own node again, once that node is silent. Every holder of
// the token can claim any instance id, so the claim alone takes nothing from a node that lives.
func (f *Fleet) comeBack(ctx context.Context, a Applicant, own store.Node) (place, error) {
	if has(own.Reasons, wire.ReasonConflict) {
		return place{}, wire.Refuse(wire.CodeNameInUse,
			"two machines use the identity of node "+own.Name+": it is not enrolled again before that is settled", settle(own.Name))
	}
	if why := f.allowed(a, own); why != "" {
		return f.takeOver(a, own, why)
	}
	own, left, err := f.silence(ctx, own.ID)
	if err != nil {
		return place{}, err
	}
	if left > 0 {
		return place{}, f.stillLives(own, left)
	}
	return f.takeOver(a, own, becauseInstance)
}

// stillLives refuses a take-over because the node has not been silent for long enough, and says how much longer that takes.
func (f *Fleet) stillLives(own store.Node, left time.Duration) error {
	ago := max(f.now().Sub(lastHeard(own)), 0).Round(time.Second).String()
	seconds := max(int((left+time.Second-1)/time.Second), 1)
	return &wire.ErrorDetail{
		Code:    wire.CodeNameInUse,
		Message: "node " + own.Name + " of this instance was heard " + ago + " ago: a node that reports is not replaced",
		Hint: "if this machine lost its disk, ask again when that node has been silent for " + strconv.Itoa(seconds) +
			" s more; the operator lets it in at once with: muster node allow-recovery " + own.Name,
		RetrySeconds: seconds,
	}
}

// replace holds the rules for a name that another node of the tenant has.
func (f *Fleet) replace(ctx context.Context, a Applicant, holder store.Node) (place, error) {
	inUse := wire.Refuse(wire.CodeNameInUse, "the name "+a.Request.Name+" belongs to a node that is there already",
		otherName(a.Credential.Name)+"; if this machine is that node, or replaces it, the operator lets it in with: "+
			"muster node allow-recovery "+a.Request.Name+"; a token minted after that node went silent works too, and so does "+
			"muster node retire "+a.Request.Name)
	if has(holder.Reasons, wire.ReasonConflict) { // either machine could meet the conditions below
		return place{}, wire.Refuse(wire.CodeNameInUse,
			"two machines use the identity of node "+holder.Name+": nobody takes it over before that is settled",
			settle(holder.Name)+"; or enrol with a token that is bound to the node")
	}
	if why := f.allowed(a, holder); why != "" {
		return f.takeOver(a, holder, why)
	}
	if a.IsPSK || holder.EnrolmentID == "" { // a node before its first enrolment is not stale: it waits for its own token
		return place{}, inUse
	}
	if a.Credential.BindInstance && !ofInstance(holder, a.Request) {
		return place{}, wire.Refuse(wire.CodeNameInUse, "the name "+a.Request.Name+" belongs to a node of another instance, and the uses of "+
			"this token belong to instances", otherName(a.Credential.Name)+"; if this machine replaces that node, the operator lets it in with: "+
			"muster node allow-recovery "+a.Request.Name)
	}
	holder, left, err := f.silence(ctx, holder.ID)
	if err != nil {
		return place{}, err
	}
	if left > 0 || !a.Credential.CreatedAt.After(lastHeard(holder)) {
		return place{}, inUse
	}
	return f.takeOver(a, holder, becauseStale)
}

// allowed returns the reason that lets an applicant in even if the node lives; empty: there is none.
func (f *Fleet) allowed(a Applicant, holder store.Node) string {
	switch {
	case a.Identity != nil && a.Identity.NodeID == holder.ID:
		return becauseKey
	case holder.RecoveryUntil != nil && f.now().Before(*holder.RecoveryUntil):
		return becauseRecovery
	}
	return ""
}

// silence flushes and then reads a node. It returns how much longer the node must be silent to be stale. An enrolment counts as
// a sign of life: a machine that has just enrolled gets the time to report.
func (f *Fleet) silence(ctx context.Context, nodeID string) (store.Node, time.Duration, error) {
	if err := f.Flush(ctx); err != nil {
		return store.Node{}, 0, err
	}
	n, err := f.store.Node(ctx, "", nodeID)
	if err != nil {
		return store.Node{}, 0, err
	}
	heard := lastHeard(n)
	interval := n.Interval
	if n.LastSeen == nil || n.LastSeen.Before(heard) || interval == 0 {
		interval = wire.UsualInterval // this enrolment has not said yet how often it reports
	}
	return n, f.Ref().Left(heard, interval), nil
}

// lastHeard is the last heartbeat or the last enrolment, whichever came later; without both, the creation.
func lastHeard(n store.Node) time.Time {
	heard := n.EnrolledAt
	if heard == nil || n.LastSeen != nil && n.LastSeen.After(*heard) {
		heard = n.LastSeen
	}
	if heard == nil {
		return n.CreatedAt
	}
	return *heard
}

// heardSince is true if a node has reported after its row was read. The database may not know that yet.
func (f *Fleet) heardSince(nodeID string, read time.Time) bool {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.beats.live[nodeID]
	return l != nil && l.beat.NodeID != "" && l.beat.At.UnixMilli() > read.UnixMilli()
}

// takeOver enrols an existing node again. Its tenant and what a person decided stay; its older certificates end. The result
// names what the decision rests on, so that the store can check that it is still true.
func (f *Fleet) takeOver(a Applicant, node store.Node, why string) (place, error) {
	to, err := Decide(Situation{State: State(node.State), Person: personSet(node.Reasons)}, Enrol)
	if err != nil {
		return place{}, err
	}
	still := &store.TakeOver{EnrolmentID: node.EnrolmentID, State: node.State, UseRecovery: why == becauseRecovery}
	if why != becauseBound {
		still.Without = wire.ReasonConflict
	}
	if why == becauseKey {
		still.SignedBy = a.Identity.Fingerprint
	}
	if why == becauseStale || why == becauseInstance {
		never := time.UnixMilli(0)
		still.LastSeenAtMost = &never
		if node.LastSeen != nil {
			still.LastSeenAtMost = node.LastSeen
		}
	}
	said := node.GPUsExpected
	node.State = string(to)
	node.EnrolmentID = newID("e", f.now())
	node.Provider = a.Request.Provider
	node.InstanceID = a.Request.InstanceID
	node.GPUsExpected = a.gpus()
	if still.EnrolmentID == "" { // the node's first machine: the number from its creation counts too
		node.GPUsExpected = max(node.GPUsExpected, said)
	}
	return place{node: node, takeOver: still, why: why}, nil
}

// stillGood looks up again the identity that signed the request too. It returns nil if that identity proves nothing any more.
func (f *Fleet) stillGood(ctx context.Context, id *Identity) (*Identity, error) {
	if id == nil {
		return nil, nil
	}
	now, err := f.Identity(ctx, id.Fingerprint)
	if err != nil || f.Check(now, ForEnrolment) != nil {
		return nil, err
	}
	return now, nil
}

// errHeard says that a node has just reported which was to be taken over because it was silent. It is a conflict, so that Enrol
// decides again.
var errHeard = errors.Join(store.ErrConflict, errors.New("the node was heard"))
