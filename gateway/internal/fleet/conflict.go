package fleet

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/store"
)

const (
	// lateUse is how long after the first use of its successor a certificate may still show up without meaning anything:
	// requests were on their way.
	lateUse = time.Minute
	// strayPause is how often the use of an ancient certificate is put on record.
	strayPause = time.Hour
	strayKeys  = 10_000
)

// recoveryAllowed is the kind of the event of an allowed recovery.
const recoveryAllowed = "node.recovery_allowed"

// settle is what ends a conflict.
func settle(name string) string {
	return "muster node show " + name + " lists what was seen; stop the machine that should not be, then: muster node allow-recovery " +
		name + " --fingerprint F"
}

// Stray judges the proven use of a superseded certificate, which Check has refused. Soon after the first use of its
// successor it means nothing. Later it shows that two machines hold the node's identity, and that closes the node. One that
// could not even be renewed any more harms nobody and is only put on record. Nil: the request may go on.
func (f *Fleet) Stray(ctx context.Context, id *Identity, p Proof, purpose Purpose) error {
	refused := f.Check(id, purpose)
	switch {
	case refused == nil || !isCode(refused, wire.CodeSupersededRetry) || id.succeeded == nil:
		return refused
	case f.now().After(id.NotAfter.Add(f.grace)):
		f.recordStray(ctx, id, p)
		return refused
	case !p.At.After(id.succeeded.Add(f.lateness(id, p))), f.clock.Leapt(*id.succeeded, straggle):
		return refused
	}
	ctx = context.WithoutCancel(ctx) // also where the one who used it has hung up
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

// lateness is longer on a connection from before the successor's first use: the kernel may have sent the request anew for
// longer than that, and the proof was made when the connection was opened.
func (f *Fleet) lateness(id *Identity, p Proof) time.Duration {
	if !p.Opened.IsZero() && p.Opened.Before(*id.succeeded) {
		return straggle
	}
	return lateUse
}

// recordStray logs the use of an ancient certificate, now and then.
func (f *Fleet) recordStray(ctx context.Context, id *Identity, p Proof) {
	if f.strays.Over(id.Fingerprint) {
		return
	}
	e := f.event("identity.stray", id.about(), itself(id.NodeID, p.Address))
	e.Security = true
	e.Outcome = wire.CodeSupersededRetry
	e.Detail = map[string]string{"fingerprint": id.Fingerprint, "generation": strconv.Itoa(id.Generation),
		"expired": id.NotAfter.UTC().Format(time.RFC3339)}
	if err := f.store.AddEvents(context.WithoutCancel(ctx), e); err != nil {
		f.log.Error("an event was not recorded", "kind", e.Kind, "error", err)
	}
}

// conflict closes a node whose identity two machines use.
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

// Recovery is what an operator allows a node.
type Recovery struct {
	Fingerprint string        // of the certificate that is good from now on, or its first 8 or more digits; empty: as it is
	For         time.Duration // how long the window is open; 0: an hour
}

// Bounds of a recovery's window.
const (
	usualRecovery = time.Hour
	maxRecovery   = 7 * 24 * time.Hour
)

// AllowRecovery lets a node back in without a visit. Within the window its expired certificate may renew however long ago
// it expired, and its name may be taken over once. With a fingerprint it also ends a conflict: that certificate becomes the
// one good one of the node, and all others are revoked.
func (f *Fleet) AllowRecovery(ctx context.Context, tenant, idOrName string, q Recovery, by store.Actor) (Node, error) {
	if q.For == 0 {
		q.For = usualRecovery
	}
	if q.For < time.Minute || q.For > maxRecovery {
		return Node{}, wire.Refuse(wire.CodeBadRequest, "a recovery cannot be allowed for "+q.For.String(), "between a minute and 7 days")
	}
	node, err := f.Node(ctx, tenant, idOrName)
	if err != nil {
		return Node{}, err
	}
	for range moveTries {
		move, err := f.recovery(ctx, node.ID, q, by)
		if err != nil {
			return Node{}, err
		}
		if err = f.recover(ctx, move); err == nil {
			return f.Node(ctx, "", node.ID)
		}
		if !errors.Is(err, store.ErrConflict) {
			return Node{}, err
		}
	}
	return Node{}, wire.Refuse(wire.CodeUnavailable, "the node changes too fast", "try again")
}

// recover writes a recovery. What was heard until then says nothing about the machine that stays, so no flush may bring it
// back.
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

func (f *Fleet) recovery(ctx context.Context, nodeID string, q Recovery, by store.Actor) (*store.Move, error) {
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
	case q.Fingerprint == "" && has(row.Reasons, wire.ReasonConflict):
		return nil, wire.Refuse(wire.CodeIllegalMove,
			"two machines use the identity of node "+row.Name+": say which certificate is the good one", settle(row.Name))
	}
	until := f.now().Add(q.For)
	move := &store.Move{NodeID: row.ID, From: row.State, To: row.State, At: f.now(), RecoveryUntil: &until}
	e := f.event(recoveryAllowed, aboutNode(row), by)
	e.Security = true
	e.Detail = map[string]string{"until": until.UTC().Format(time.RFC3339)}
	if q.Fingerprint != "" {
		if move.KeepCertificate, err = f.choose(ctx, row, q.Fingerprint); err != nil {
			return nil, err
		}
		e.Detail["fingerprint"] = move.KeepCertificate
		f.endConflict(row, move)
	}
	move.Events = []store.Event{e}
	return move, nil
}

// endConflict moves the node to where it would be without the reason.
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

// choose finds the one certificate of the present enrolment whose fingerprint begins so.
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
