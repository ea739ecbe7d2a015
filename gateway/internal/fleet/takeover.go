package fleet

import (
	"context"
	"errors"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/store"
)

// Reasons that allow a name to be taken over, as events give them.
const (
	becauseKey      = "signed by the node's own key"
	becauseStale    = "the node was silent and the token is newer"
	becauseInstance = "the same instance with its own token"
	becauseRecovery = "the operator allowed recovery"
	becauseBound    = "a token bound to this node"
)

// ofInstance tells that a node is still the one of the instance that asks: another machine may have taken it over since.
func ofInstance(n store.Node, q *wire.RegisterRequest) bool {
	return n.Provider == q.Provider && n.InstanceID == q.InstanceID
}

// comeBack is for an instance that enrolled with this token before: to its own node, once that is silent. An instance id is a
// claim that every holder of the token can make, so it takes nothing from a node that lives.
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

// stillLives refuses the place of a node that has not been silent for long enough, and says how long that takes.
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

// replace holds the rules for a name that a live node has. The refusal says nothing of another tenant.
func (f *Fleet) replace(ctx context.Context, a Applicant, holder store.Node) (place, error) {
	inUse := wire.Refuse(wire.CodeNameInUse, "the name "+a.Request.Name+" belongs to a node that is there already",
		"choose another with --name; if this machine is that node, or replaces it, the operator lets it in with: "+
			"muster node allow-recovery "+a.Request.Name+"; a token minted after that node went silent works too, and so does "+
			"muster node retire "+a.Request.Name)
	if holder.Tenant != a.Credential.Tenant {
		return place{}, taken(a.Request.Name)
	}
	if has(holder.Reasons, wire.ReasonConflict) { // either of the two could bring a key, a silence or a token
		return place{}, wire.Refuse(wire.CodeNameInUse,
			"two machines use the identity of node "+holder.Name+": nobody takes it over before that is settled",
			settle(holder.Name)+"; or enrol with a token that is bound to the node")
	}
	if why := f.allowed(a, holder); why != "" {
		return f.takeOver(a, holder, why)
	}
	if a.IsPSK || holder.EnrolmentID == "" { // a node that waits for its first enrolment is not stale, it has its own token
		return place{}, inUse
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

func taken(name string) error {
	return wire.Refuse(wire.CodeNameInUse, "the name "+name+" is taken", "choose another with --name")
}

// allowed gives what lets an applicant in whether the node lives or not, empty where nothing does.
func (f *Fleet) allowed(a Applicant, holder store.Node) string {
	switch {
	case a.Identity != nil && a.Identity.NodeID == holder.ID:
		return becauseKey
	case holder.RecoveryUntil != nil && f.now().Before(*holder.RecoveryUntil):
		return becauseRecovery
	}
	return ""
}

// silence reads a node with all that was heard of it, and gives how long it has to be silent yet before it counts as stale. An
// enrolment counts as being heard: whoever has just got the node has a chance to report first.
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
		interval = usualInterval // it has not said how often it means to report
	}
	return n, f.ref().Left(heard, interval), nil
}

// lastReport is the last heartbeat, or the enrolment where none was ever heard.
func lastReport(n store.Node) time.Time {
	switch {
	case n.LastSeen != nil:
		return *n.LastSeen
	case n.EnrolledAt != nil:
		return *n.EnrolledAt
	}
	return n.CreatedAt
}

// lastHeard is the last heartbeat or the last enrolment, whichever came later.
func lastHeard(n store.Node) time.Time {
	heard := lastReport(n)
	if n.EnrolledAt != nil && n.EnrolledAt.After(heard) {
		return *n.EnrolledAt
	}
	return heard
}

// heardSince tells that a node has reported after it was read, which the database may not know yet.
func (f *Fleet) heardSince(nodeID string, read time.Time) bool {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.beats.live[nodeID]
	return l != nil && l.beat.NodeID != "" && l.beat.At.UnixMilli() > read.UnixMilli()
}

// takeOver re-enrols an existing node: its tenant and what a person decided stay, its older certificates end. What the decision
// rests on has to hold still when it is written.
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
	if node.GPUsExpected = max(a.Credential.GPUs, a.GPUs); still.EnrolmentID == "" { // its first machine: what was said of it holds
		node.GPUsExpected = max(node.GPUsExpected, said)
	}
	return place{node: node, takeOver: still, why: why}, nil
}

// stillGood gives the identity that also signed a request as it is now, nil once it can prove nothing any more.
func (f *Fleet) stillGood(ctx context.Context, id *Identity) (*Identity, error) {
	if id == nil {
		return nil, nil
	}
	now, err := f.Identity(ctx, id.Fingerprint)
	if err != nil || f.Check(now, ForRenewal) != nil {
		return nil, err
	}
	return now, nil
}

// errHeard says that a node which was to be taken over for its silence has just reported.
var errHeard = errors.Join(store.ErrConflict, errors.New("the node was heard"))
