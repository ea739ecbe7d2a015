package identity

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"

	"muster/agent/internal/transport"
	"muster/agent/sign"
	"muster/agent/wire"
)

// accept checks every part of a proven welcome, saves the identity, and uses it. The gateway's time and epoch count before the other
// checks, because a refused welcome is proven too and the next attempt needs them.
func (e *enrolling) accept(ctx context.Context, w wire.Welcome) error {
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
	leaf, err := CheckCertificate(w.Certificate, Wanted{
		Key: e.key, Roots: w.Roots, NodeID: w.NodeID, TrustDomain: set.TrustDomain, Now: e.Client.Now(),
	})
	if err != nil {
		return err
	}
	// All of the welcome is checked. What follows replaces the identity as a whole.
	next := e.state
	next.NodeID = w.NodeID
	next.Name = w.Name
	next.Asked = e.Own
	next.Tenant = w.Tenant
	next.Enrolment = w.Enrolment
	next.Provider = e.Provider
	next.InstanceID = e.InstanceID
	next.Current = &Pair{
		Key: next.Pending, Certificate: w.Certificate, Generation: w.Generation, IssuedAt: IssuedAt(leaf, e.Client.Now()),
	}
	next.Pending = ""
	next.Gateway = Gateway{
		URL: e.Client.Gateway(), Roots: w.Roots, TrustKey: set.TrustKey, Trust: w.Trust, AnswerKeys: set.AnswerKeys,
		GPUsExpected: w.GPUsExpected, Channel: w.Channel, ChannelSequence: w.ChannelSequence, IntervalSeconds: w.IntervalSeconds,
		Gateways: wire.Gateways(w.Gateways),
	}
	next.Previous = nil         // it belongs to the former identity
	if e.state.Current != nil { // the identity was good until now, and a person may want it back
		kept, err := e.Directory.Keep(e.state.NodeID)
		if err != nil {
			return err
		}
		e.Logger.Warn("the identity from before is not used any more", "node", e.state.NodeID, "kept_in", kept)
	}
	if err := e.Directory.Save(next); err != nil {
		return err // the pending key is still on the disk: with it the next attempt gets the answer that the gateway recorded
	}
	e.state = next
	return nil
}

// checkTrust checks the signed set. Each root and the answer key of the welcome must be in the set too, because later sets continue
// this one and nothing else of the welcome.
func (e *enrolling) checkTrust(w wire.Welcome) (wire.TrustSet, error) {
	// The trust key is believed here because the proof of the welcome covers it. Later sets are believed by signatures alone.
	trustKey, err := sign.DecodeKey(w.TrustKey)
	if err != nil {
		return wire.TrustSet{}, fmt.Errorf("%w: its trust key: %w", errUnusable, err)
	}
	set, err := openSet(w.Trust, trustKey)
	if err == nil {
		_, err = check(set)
	}
	switch {
	case err != nil:
		return set, fmt.Errorf("%w: its trust set: %w", errUnusable, err)
	case !slices.Contains(set.AnswerKeys, w.AnswerKey):
		return set, fmt.Errorf("%w: its answer key is not in its trust set", errUnusable)
	}
	return set, e.checkRoots(w.Roots, set.Roots)
}

// checkKnown makes sure that a machine which enrols again reaches the gateway that it knows. A known root in the welcome proves
// little: everybody may copy a root, and others may hold the credential. Only a chain of signatures from the known set proves it.
func (e *enrolling) checkKnown(ctx context.Context, set json.RawMessage) error {
	if e.Known == nil || Continues(*e.Known, set, nil) {
		return nil
	}
	document, err := e.Client.FetchTrust(ctx)
	if err != nil {
		return err
	}
	if !Continues(*e.Known, set, document) {
		return fmt.Errorf("%w: %w", errUnusable, ErrNotContinued)
	}
	return nil
}

// checkRoots checks that the signed set has every root of the welcome, and that one of them is pinned where the operator gave pins.
func (e *enrolling) checkRoots(bundle, signed string) error {
	roots, err := ParseCertificates(bundle)
	if err != nil {
		return fmt.Errorf("%w: its roots: %w", errUnusable, err)
	}
	known, err := ParseCertificates(signed)
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

// plainID reports whether a node id is safe in a URL's path and in a file name without escaping.
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
