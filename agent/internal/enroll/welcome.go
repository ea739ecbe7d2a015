package enroll

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/trust"
	"muster/agent/sign"
	"muster/agent/wire"
)

// accept checks a proven welcome in all its parts, makes it durable and takes it over.
func (e *enrolment) accept(ctx context.Context, w wire.Welcome) error {
	e.Client.LearnTime(w.Time)
	e.Client.LearnEpoch(w.Epoch)
	set, err := e.checkTrust(w)
	if err != nil {
		return err
	}
	if err := e.checkKnown(ctx, w.Trust); err != nil {
		return err
	}
	if !plainID(w.NodeID) {
		return fmt.Errorf("%w: it gives no usable node id", errUnusable)
	}
	leaf, err := identity.CheckCertificate(w.Certificate, identity.Wanted{
		Key: e.key, Roots: w.Roots, NodeID: w.NodeID, TrustDomain: set.TrustDomain, Now: e.Client.Now(),
	})
	if err != nil {
		return err
	}
	next := e.state
	next.NodeID = w.NodeID
	next.Name = w.Name
	next.Tenant = w.Tenant
	next.Provider = e.Provider
	next.InstanceID = e.InstanceID
	next.Current = &identity.Pair{
		Key: next.Pending, Certificate: w.Certificate, Generation: w.Generation, IssuedAt: identity.IssuedAt(leaf, e.Client.Now()),
	}
	next.Pending = ""
	next.Gateway = identity.Gateway{
		URL: e.Client.Gateway(), Roots: w.Roots, TrustKey: set.TrustKey, Trust: w.Trust, AnswerKey: w.AnswerKey, AnswerKeys: set.AnswerKeys,
		GPUsExpected: w.GPUsExpected, Channel: w.Channel, ChannelSequence: w.ChannelSequence, IntervalSeconds: w.IntervalSeconds,
	}
	next.Previous = nil
	if e.state.Current != nil { // it was good until now, and a person may want it back
		kept, err := e.Directory.Keep(e.state.NodeID)
		if err != nil {
			return err
		}
		e.Logger.Warn("the identity from before is not used any more", "node", e.state.NodeID, "kept_in", kept)
	}
	if err := e.Directory.Save(next); err != nil {
		return err // the key still waits there: the next attempt gets the recorded answer
	}
	e.state = next
	return nil
}

// checkTrust checks the signed set and that the welcome says nothing that the set does not.
func (e *enrolment) checkTrust(w wire.Welcome) (wire.TrustSet, error) {
	var set wire.TrustSet
	trustKey, err := sign.DecodeKey(w.TrustKey)
	if err != nil {
		return set, fmt.Errorf("%w: its trust key: %w", errUnusable, err)
	}
	var envelope sign.Envelope
	if err := json.Unmarshal(w.Trust, &envelope); err != nil {
		return set, fmt.Errorf("%w: its trust set is no signed document", errUnusable)
	}
	payload, err := envelope.Open(trustKey, sign.RoleTrust)
	if err != nil {
		return set, fmt.Errorf("%w: its trust set is not signed by its trust key", errUnusable)
	}
	if err := sign.DecodeStrict(payload, &set); err != nil {
		return set, fmt.Errorf("%w: its trust set: %w", errUnusable, err)
	}
	if _, err := sign.DecodeKey(set.TrustKey); err != nil {
		return set, fmt.Errorf("%w: the key of its next trust set: %w", errUnusable, err)
	}
	if !slices.Contains(set.AnswerKeys, w.AnswerKey) {
		return set, fmt.Errorf("%w: its answer key is not in its trust set", errUnusable)
	}
	if _, err := sign.DecodeKey(w.AnswerKey); err != nil {
		return set, fmt.Errorf("%w: its answer key: %w", errUnusable, err)
	}
	return set, e.checkRoots(w.Roots, set.Roots)
}

// checkKnown holds an enrolment afresh to the gateway that this machine knows. That its welcome names a known root says
// little, since everybody may copy that; and others may hold the credential too. Only the trust key's signatures lead on.
func (e *enrolment) checkKnown(ctx context.Context, set json.RawMessage) error {
	if e.Known == nil || trust.Continues(*e.Known, set, nil) {
		return nil
	}
	document, err := e.Client.FetchTrust(ctx)
	if err != nil {
		return err
	}
	if !trust.Continues(*e.Known, set, document) {
		return fmt.Errorf("%w: %w", errUnusable, ErrNotContinued)
	}
	return nil
}

func (e *enrolment) checkRoots(bundle, signed string) error {
	roots, err := identity.ParseCertificates(bundle)
	if err != nil {
		return fmt.Errorf("%w: its roots: %w", errUnusable, err)
	}
	known, err := identity.ParseCertificates(signed)
	if err != nil {
		return fmt.Errorf("%w: the roots of its trust set: %w", errUnusable, err)
	}
	for _, root := range roots {
		if !slices.ContainsFunc(known, func(k *x509.Certificate) bool { return bytes.Equal(k.Raw, root.Raw) }) {
			return fmt.Errorf("%w: a root is not in its trust set", errUnusable)
		}
	}
	if e.Pins != nil && !slices.ContainsFunc(roots, e.Pins.Fits) {
		return fmt.Errorf("%w: none of its roots is %s, they are %s: %w; compare them with what muster ca show prints on the gateway: "+
			"another pin is given with --root-pin", errUnusable, e.Pins, transport.PinsOf(bundle), ErrOtherRoot)
	}
	return nil
}

// plainID accepts what may stand in a path and a file name as it is.
func plainID(id string) bool {
	if id == "" || len(id) > wire.MaxNodeID {
		return false
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
