package fleet

import (
	"context"
	"errors"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/store"
)

// Purpose is what a request wants to do with an identity.
type Purpose int

// Purposes. They differ in what an expired certificate may do, and what a node may do whose identity is in conflict.
const (
	ForAnything  Purpose = iota
	ForHeartbeat         // allowed in conflict too, so that the node stays visible
	ForRenewal           // allowed to an expired certificate, within the grace or the time that an operator allowed
	ForEnrolment         // allowed to an expired certificate: a credential is proven too
)

// Check returns nil if an identity may be used now. Otherwise it refuses with the code that says why not. The gateway's clock
// and record decide, not the certificate's chain: so a change on record works at once.
//
// The order of the cases is the order of their weight: a banned node hears that it is banned, whatever else is wrong with it.
func (f *Fleet) Check(id *Identity, purpose Purpose) error {
	conflict := id.InConflict()
	switch {
	case id.banned:
		return wire.Refuse(wire.CodeBanned, "this node is banned", "ask the operator; nothing can be done from here")
	case id.State == Retired:
		return wire.Refuse(wire.CodeRetired, "this node was retired", "to bring it back, enrol it with a new token")
	case id.reenrolled:
		return wire.Refuse(wire.CodeSuperseded, "a later enrolment of this node replaced this identity",
			"if this machine is the real one, ask the operator for a token and enrol again")
	case id.certificate == store.CertificateRevoked:
		return wire.Refuse(wire.CodeRevoked, "this certificate was revoked",
			"if this machine is the real one, ask the operator: muster node allow-recovery "+id.Name+" --fingerprint "+id.Fingerprint[:16])
	case conflict && purpose != ForHeartbeat:
		return wire.Refuse(wire.CodeIdentityConflict,
			"two machines use the identity of node "+id.Name+": it is closed until an operator chooses one",
			settle(id.Name))
	case id.Superseded() && !conflict:
		return wire.Refuse(wire.CodeSupersededRetry, "a newer certificate of this node is in use", "use the newer certificate")
	}
	return f.checkDates(id, purpose)
}

func (f *Fleet) checkDates(id *Identity, purpose Purpose) error {
	now := f.now()
	expired := "this certificate expired at " + id.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case !now.After(id.NotAfter), purpose == ForEnrolment:
		return nil
	case purpose != ForRenewal:
		return wire.Refuse(wire.CodeExpired, expired, "renew it: only that is open to it")
	case f.grace > 0 && !now.After(id.NotAfter.Add(f.grace+f.clock.Absent(id.NotAfter, now))):
		return nil // nobody could renew while the gateway was away, so that time does not count
	case id.recovery != nil && now.Before(*id.recovery):
		return nil
	}
	return wire.Refuse(wire.CodeExpired, expired+", too long ago to renew by itself",
		"an operator can allow it without a visit: muster node allow-recovery "+id.Name+"; or enrol again with a new token")
}

// InConflict reports whether two machines were seen to use this identity.
func (id *Identity) InConflict() bool { return has(id.Reasons, wire.ReasonConflict) }

// Superseded reports whether a later certificate has replaced this one.
func (id *Identity) Superseded() bool { return id.certificate == store.CertificateSuperseded }

func has(reasons []store.Reason, name string) bool {
	return slices.ContainsFunc(reasons, func(x store.Reason) bool { return x.Reason == name })
}

// Use records that a checked identity was used. If the node changed since the lookup, Use checks the identity again. The first
// use of a pending certificate makes it the current one and ends the earlier one, in one transaction. The caller goes on with
// the identity that Use returns.
func (f *Fleet) Use(ctx context.Context, id *Identity, purpose Purpose) (*Identity, error) {
	switch {
	case id.certificate == store.CertificatePending:
		event := f.event("node.renewed", id.about(), itself(id.NodeID, ""), nil)
		err := f.store.PromoteCertificate(ctx, id.Fingerprint, f.now(), event)
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
	case !id.firstUsed && !id.Superseded():
		if err := f.store.MarkFirstUse(ctx, id.Fingerprint, f.now()); err != nil {
			return nil, err
		}
	default:
		if now, _ := f.cache.lookup(id.Fingerprint); now == id { // no change since: each change drops the entry
			return id, nil
		}
		return f.judged(ctx, id.Fingerprint, purpose)
	}
	f.cache.drop(id.NodeID)
	return f.judged(ctx, id.Fingerprint, purpose)
}

// judged looks an identity up again and checks it.
func (f *Fleet) judged(ctx context.Context, fingerprint string, purpose Purpose) (*Identity, error) {
	again, err := f.Identity(ctx, fingerprint)
	if err != nil {
		return nil, err
	}
	return again, f.Check(again, purpose)
}

// settle is the hint that says how an operator ends a conflict.
func settle(name string) string {
	return "muster node show " + name + " lists what was seen; stop the machine that should not be, then: muster node allow-recovery " +
		name + " --fingerprint F"
}
