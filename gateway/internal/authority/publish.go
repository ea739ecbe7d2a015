package authority

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api/trust"
	"muster/store"
)

// trustSigner is the key that signs the next set. It is nil if its private half is kept elsewhere.
func (a *Authority) trustSigner(ctx context.Context) (*ed25519Key, error) {
	found, err := a.keyOf(ctx, roleTrust, sign.EncodeKey(a.held.Load().signer))
	if err != nil || found.private == nil {
		return nil, err
	}
	return &found, nil
}

// propose signs the next set and publishes it. If the trust key is kept elsewhere, the answer holds the set to sign there with
// Seal in the role trust, for Publish.
func (a *Authority) propose(ctx context.Context, next wire.TrustSet, event store.Event) (trust.TrustChange, error) {
	payload, err := json.Marshal(next)
	if err != nil {
		return trust.TrustChange{}, err
	}
	signer, err := a.trustSigner(ctx)
	if err != nil || signer == nil {
		return trust.TrustChange{Number: next.Number, Draft: payload}, err
	}
	return trust.TrustChange{Number: next.Number, Published: true}, a.publish(ctx, sign.Seal(signer.private, sign.RoleTrust, payload), event)
}

// Publish publishes a set that was signed elsewhere. It must be the next set and complete. It must name a root that signed this
// gateway's intermediate, and an answer key that this gateway has: otherwise the gateway could not serve it. Refusals are
// *wire.ErrorDetail.
func (a *Authority) Publish(ctx context.Context, envelope sign.Envelope, by store.Actor) (int64, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	number := a.held.Load().set().Number + 1
	event := a.event("trust.published", by, map[string]string{"number": strconv.FormatInt(number, 10)})
	return number, a.publish(ctx, envelope, event)
}

// publish verifies a signed set as nodes will, stores it, and only then works with it. The caller holds the lock changing.
func (a *Authority) publish(ctx context.Context, envelope sign.Envelope, event store.Event) error {
	text, err := json.Marshal(envelope)
	if err != nil {
		return err
	}
	now := a.held.Load()
	next := &held{envelopes: slices.Clone(now.envelopes), sets: slices.Clone(now.sets), verifies: now.verifies, signer: now.signer}
	if err := next.follow(text, a.config.TrustDomain); err != nil {
		return badChange("the set does not follow the newest one: "+err.Error(),
			"sign with the present trust key what the gateway drafted last: muster key ls names the key")
	}
	if err := checkVerifiers(next.set()); err != nil {
		return err
	}
	if err := a.complete(ctx, next); err != nil {
		return badChange("this gateway cannot work with the set: "+err.Error(), "sign what the gateway drafted")
	}
	err = a.config.Store.AddMeta(ctx, metaSet(len(next.sets)), string(text), event)
	if errors.Is(err, store.ErrConflict) {
		return wire.Refuse(wire.CodeAlreadyThere, "a set with this number is there already", "start again from the first step")
	}
	if err != nil {
		return err
	}
	a.held.Store(next)
	return a.forgetRoots(ctx, now.roots, next.roots)
}

// checkVerifiers refuses a set with a key that does not decode, or with one key for two roles.
func checkVerifiers(set *wire.TrustSet) error {
	seen := map[string]bool{set.TrustKey: true}
	for _, list := range [][]string{set.AnswerKeys, set.TaskKeys, set.ReleaseKeys} {
		for _, key := range list {
			if _, err := sign.DecodeKey(key); err != nil || seen[key] {
				return badChange("the set names a key that does not decode, or one key twice", "sign what the gateway drafted")
			}
			seen[key] = true
		}
	}
	return nil
}

// forgetRoots drops the keys of roots that are not trusted any more.
func (a *Authority) forgetRoots(ctx context.Context, before, now []*x509.Certificate) error {
	for _, root := range before {
		if slices.ContainsFunc(now, root.Equal) {
			continue
		}
		if err := a.stripRoot(ctx, root); err != nil {
			return fmt.Errorf("the root is dropped, but its key is still in the database: %w", err)
		}
	}
	return nil
}

// stripRoot removes a root's key from the store. Its certificate stays.
func (a *Authority) stripRoot(ctx context.Context, root *x509.Certificate) error {
	for _, name := range [...]string{rootSecret(root), secretRoot} {
		kept, err := a.rootIn(ctx, name, root)
		if err != nil {
			return err
		}
		if kept == nil || kept.key == nil {
			continue
		}
		stripped, err := encodeLevel(nil, root.Raw)
		if err != nil {
			return err
		}
		if err := a.config.Store.SetSecret(ctx, name, stripped); err != nil {
			return err
		}
	}
	return nil
}

// Repeat publishes the newest set again this many times, each time under the next number. That is for a restore: nodes may have seen
// higher numbers since the backup, and refuse lower ones. key is the trust key; nil: the one in the store. The error wraps
// ErrTrustKey if there is none.
func (a *Authority) Repeat(ctx context.Context, times int, key ed25519.PrivateKey, by store.Actor) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	if key == nil {
		signer, err := a.trustSigner(ctx)
		if err != nil {
			return err
		}
		if signer == nil {
			return ErrTrustKey
		}
		key = signer.private
	}
	for range times {
		next := a.next()
		payload, err := json.Marshal(next)
		if err != nil {
			return err
		}
		event := a.event("trust.published", by, map[string]string{"number": strconv.FormatInt(next.Number, 10)})
		if err := a.publish(ctx, sign.Seal(key, sign.RoleTrust, payload), event); err != nil {
			return err
		}
	}
	return nil
}

// ErrTrustKey is wrapped by errors that come from a trust key that is kept elsewhere.
var ErrTrustKey = errors.New("the trust key is not in the database")
