package fleet

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/fleet/clash"
	"muster/store"
)

const (
	// lateUse is how long a certificate may still be used after the first use of its successor. Such a request was sent before
	// that, and proves no second machine.
	lateUse = time.Minute
	// strayPause is the pause between two events about the use of one long expired certificate.
	strayPause = time.Hour
	strayKeys  = 10_000 // certificates whose pause is remembered
)

// recoveryAllowed is the kind of the event that an operator allowed a recovery.
const recoveryAllowed = "node.recovery_allowed"

// Stray judges a proven use of a superseded certificate, which Check has refused. Soon after the first use of the successor it means
// nothing. Later it shows that two machines hold the node's identity, so Stray closes the node. A certificate that is too old to be renewed
// can do no harm, so its use is only recorded. If Stray returns nil, the request may go on.
func (f *Fleet) Stray(ctx context.Context, id *Identity, p Proof, purpose Purpose) error {
	refused := f.Check(id, purpose)
	switch {
	case refused == nil || !isCode(refused, wire.CodeSupersededRetry) || id.succeeded == nil:
		return refused
	case f.now().After(id.NotAfter.Add(f.grace)):
		f.recordStray(ctx, id, p)
		return refused
	case !p.At.After(id.succeeded.Add(f.lateness(id, p))), f.clock.Leapt(*id.succeeded, clash.Straggle):
		return refused
	}
	ctx = context.WithoutCancel(ctx) // a sender that hangs up must not prevent this
	_, err := f.conflict(ctx, id, p, map[string]string{"why": "a certificate was used after its successor",
		"generation": strconv.Itoa(id.Generation), "successor_used": id.succeeded.UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	again, err := f.Identity(ctx, id.Fingerprint)
	if err != nil {
		return err
	}
	return f.Check(again, purpose)
}

// lateness is how late a proof may be. It is longer for a connection that was opened before the successor's first use: the
// proof was made when the connection was opened, and the kernel may send a lost request again for longer than lateUse.
func (f *Fleet) lateness(id *Identity, p Proof) time.Duration {
	if !p.Opened.IsZero() && p.Opened.Before(*id.succeeded) {
		return clash.Straggle
	}
	return lateUse
}

// recordStray records the use of a long expired certificate, at most once in strayPause.
func (f *Fleet) recordStray(ctx context.Context, id *Identity, p Proof) {
	if f.strays.Over(id.Fingerprint) {
		return
	}
	e := f.audited("identity.stray", id.about(), itself(id.NodeID, p.Address), map[string]string{"fingerprint": id.Fingerprint,
		"generation": strconv.Itoa(id.Generation), "expired": id.NotAfter.UTC().Format(time.RFC3339)})
	e.Outcome = wire.CodeSupersededRetry
	if err := f.store.AddEvents(context.WithoutCancel(ctx), e); err != nil {
		f.log.Error("an event was not recorded", "kind", e.Kind, "error", err)
	}
}

// conflict closes a node whose identity two machines use. It adds the fingerprint to detail.
func (f *Fleet) conflict(ctx context.Context, id *Identity, p Proof, detail map[string]string) (State, error) {
	detail["fingerprint"] = id.Fingerprint
	row, err := f.apply(ctx, id.NodeID, change{
		verb: Fail, by: itself(id.NodeID, p.Address), addHealth: []string{wire.ReasonConflict},
		kind: "identity.conflict", detail: detail, security: true,
	})
	if err == nil {
		f.log.Warn("two machines use one identity: the node is closed until an operator chooses", "node", id.Name, "why", detail["why"],
			"address", p.Address)
	}
	return State(row.State), err
}

// How long a recovery is open.
const (
	usualRecovery = time.Hour
	maxRecovery   = 7 * 24 * time.Hour
)

// AllowRecovery lets a node back in, so that nobody has to go to the machine. While the recovery is open, the node's expired
// certificate may renew, however long ago it expired. Also another machine may take the node's name over, once. With a
// fingerprint it also ends a conflict: that certificate is good from now on, and all others of the node are revoked.
func (f *Fleet) AllowRecovery(ctx context.Context, tenant, idOrName string, q api.RecoveryRequest, by store.Actor) (Node, error) {
	open := cmp.Or(time.Duration(q.For), usualRecovery)
	if open < time.Minute || open > maxRecovery {
		return Node{}, wire.Refuse(wire.CodeBadRequest, "a recovery cannot be allowed for "+open.String(), "between a minute and 7 days")
	}
	node, err := f.Node(ctx, tenant, idOrName)
	if err != nil {
		return Node{}, err
	}
	err = tries(func() error {
		move, err := f.recovery(ctx, node.ID, q.Fingerprint, open, by)
		if err != nil {
			return err
		}
		return f.recover(ctx, move)
	})
	if err != nil {
		return Node{}, err
	}
	return f.Node(ctx, "", node.ID)
}

// recover writes a recovery. What was heard until now may come from the machine that loses. So recover drops it, and holds
// flushing so that no flush writes it later.
func (f *Fleet) recover(ctx context.Context, move *store.Move) error {
	f.flushing.Lock()
	defer f.flushing.Unlock()
	err := f.store.MoveNode(ctx, *move)
	f.Forget(move.NodeID)
	if move.KeepCertificate != "" {
		f.forgetBeat(move.NodeID)
	}
	return err
}

func (f *Fleet) recovery(ctx context.Context, nodeID, fingerprint string, open time.Duration, by store.Actor) (*store.Move, error) {
	row, err := f.store.Node(ctx, "", nodeID)
	if err != nil {
		return nil, err
	}
	switch {
	case State(row.State) == Retired:
		return nil, wire.Refuse(wire.CodeIllegalMove, "node "+row.Name+" was retired", "enrol the machine again with a new token")
	case row.EnrolmentID == "":
		return nil, wire.Refuse(wire.CodeIllegalMove, "node "+row.Name+" has not enrolled yet: there is nothing to recover",
			"it enrols with its own token")
	case fingerprint == "" && has(row.Reasons, wire.ReasonConflict):
		return nil, wire.Refuse(wire.CodeIllegalMove,
			"two machines use the identity of node "+row.Name+": say which certificate is the good one", settle(row.Name))
	}
	until := f.now().Add(open)
	move := &store.Move{NodeID: row.ID, From: row.State, To: row.State, At: f.now(), RecoveryUntil: &until}
	e := f.audited(recoveryAllowed, aboutNode(row), by, map[string]string{"until": until.UTC().Format(time.RFC3339)})
	if fingerprint != "" {
		if move.KeepCertificate, err = f.choose(ctx, row, fingerprint); err != nil {
			return nil, err
		}
		e.Detail["fingerprint"] = move.KeepCertificate
		f.endConflict(row, move)
	}
	move.Events = []store.Event{e}
	return move, nil
}

// endConflict removes the reason for the conflict, and moves the node to the state that it has without it.
func (f *Fleet) endConflict(row store.Node, move *store.Move) {
	if !has(row.Reasons, wire.ReasonConflict) {
		return
	}
	move.RemoveReasons = []string{wire.ReasonConflict}
	if len(row.Reasons) > 1 {
		return
	}
	if to, err := Decide(Situation{State: State(row.State)}, Cure); err == nil {
		move.To = string(to)
	}
}

// choose finds the one certificate of the present enrolment whose fingerprint begins with the given digits.
func (f *Fleet) choose(ctx context.Context, row store.Node, fingerprint string) (string, error) {
	fingerprint = strings.ToLower(strings.TrimPrefix(fingerprint, "sha256:"))
	bad := func(what string) error {
		return wire.Refuse(wire.CodeBadRequest, what, "muster node show "+row.Name+" lists the certificates; 8 digits of one are enough")
	}
	_, err := hex.DecodeString(fingerprint + strings.Repeat("0", len(fingerprint)%2))
	if err != nil || len(fingerprint) < 8 || len(fingerprint) > 64 {
		return "", bad("this is no certificate's fingerprint")
	}
	certificates, err := f.store.Certificates(ctx, row.ID)
	if err != nil {
		return "", err
	}
	var found []string
	for _, c := range certificates {
		if strings.HasPrefix(c.Fingerprint, fingerprint) {
			found = append(found, c.Fingerprint)
		}
	}
	if len(found) != 1 {
		return "", bad("node " + row.Name + " has " + strconv.Itoa(len(found)) + " certificates with this fingerprint")
	}
	return found[0], nil
}

func isCode(err error, code string) bool {
	var refused *wire.ErrorDetail
	return errors.As(err, &refused) && refused.Code == code
}
