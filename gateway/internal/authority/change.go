package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api/trust"
	"muster/store"
)

// badChange is a refusal that an operator sees.
func badChange(message, hint string) error {
	return wire.Refuse(wire.CodeBadRequest, message, hint)
}

func (a *Authority) event(kind string, by store.Actor, detail map[string]string) store.Event {
	return store.Event{At: a.config.Now(), Kind: kind, Actor: by.Name, Address: by.Address, Outcome: store.OutcomeOK, Security: true,
		Detail: detail}
}

// RotateKey adds a new key of a role (answer, task, release) to the next set, before the present one. The present key stays good;
// older ones go. With atOnce the present key goes too, because it has leaked. The gateway then signs with a new answer key at once,
// and a node that gets such an answer fetches the new set. Keys that operators keep stay. For the role trust, the next set names the
// new key, which signs the set after it.
func (a *Authority) RotateKey(ctx context.Context, role string, atOnce bool, by store.Actor) (trust.TrustChange, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	next := a.next()
	list, err := keysOf(&next, role)
	if err != nil && role != roleTrust {
		return trust.TrustChange{}, err
	}
	if role == roleTrust {
		if signer, err := a.trustSigner(ctx); err != nil || signer == nil {
			return trust.TrustChange{}, errors.Join(err, badChange("the trust key is kept elsewhere and cannot be rotated from here",
				"bring it back first: muster key import --trust FILE"))
		}
	}
	key, err := a.newKey(ctx, role)
	if err != nil {
		return trust.TrustChange{}, err
	}
	if role == roleTrust {
		next.TrustKey = key
	} else {
		stay, err := a.kept(ctx, role, *list, atOnce)
		if err != nil {
			return trust.TrustChange{}, err
		}
		*list = append([]string{key}, stay...)
	}
	return a.propose(ctx, next, a.event("key.rotated", by, map[string]string{"role": role, "key": idOf(key)}))
}

// DropKey makes a next set without the key that has this id. It refuses to drop the only key of a role.
func (a *Authority) DropKey(ctx context.Context, id string, by store.Actor) (trust.TrustChange, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	next := a.next()
	for _, role := range workRoles() {
		list, err := keysOf(&next, role)
		if err != nil {
			return trust.TrustChange{}, err
		}
		at := slices.IndexFunc(*list, func(key string) bool { return idOf(key) == id })
		if at < 0 {
			continue
		}
		if len(*list) == 1 {
			return trust.TrustChange{}, badChange("this is the only "+role+" key", "rotate it: muster key rotate --"+role)
		}
		*list = slices.Delete(*list, at, at+1)
		return a.propose(ctx, next, a.event("key.dropped", by, map[string]string{"role": role, "key": id}))
	}
	return trust.TrustChange{}, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no key %.40q in the newest set", id),
		"muster key ls shows them")
}

// idOf is the id of a key in the encoding of trust sets; empty: it does not decode.
func idOf(encoded string) string {
	key, err := sign.DecodeKey(encoded)
	if err != nil {
		return ""
	}
	return sign.KeyID(key)
}

// keysOf is the list of a role in a set.
func keysOf(set *wire.TrustSet, role string) (*[]string, error) {
	switch role {
	case roleAnswer:
		return &set.AnswerKeys, nil
	case roleTask:
		return &set.TaskKeys, nil
	case roleRelease:
		return &set.ReleaseKeys, nil
	}
	return nil, badChange(fmt.Sprintf("%.40q is no role of a key", role), "answer, task, release or trust")
}

// next is a copy of the newest set with the number after it.
func (a *Authority) next() wire.TrustSet {
	next := *a.held.Load().set()
	next.Number++
	next.IssuedAt = a.config.Now().UTC()
	next.AnswerKeys = slices.Clone(next.AnswerKeys)
	next.TaskKeys = slices.Clone(next.TaskKeys)
	next.ReleaseKeys = slices.Clone(next.ReleaseKeys)
	return next
}

// AddRoot adds a new root to the next set, beside the present ones. The root signs nothing until an intermediate is made under it.
// With an empty bundle, AddRoot makes the root and keeps its key in the store. Otherwise the bundle is the certificate (PEM) of a
// root that NewRootDir made, whose key the gateway never sees.
func (a *Authority) AddRoot(ctx context.Context, bundle string, by store.Actor) (trust.TrustChange, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	value := []byte(bundle)
	if bundle == "" {
		newest := a.held.Load().roots
		online, err := a.rootLevel(ctx, newest[len(newest)-1])
		if err != nil {
			return trust.TrustChange{}, err
		}
		if online.key == nil {
			return trust.TrustChange{}, badChange("the present root's key is kept out of this gateway",
				"keep the next one out too: muster ca rotate-root --root-out DIR")
		}
		if value, err = newRoot(a.config.TrustDomain, a.config.Now(), a.config.Rand); err != nil {
			return trust.TrustChange{}, err
		}
	}
	root, err := parseLevel(value)
	if err != nil {
		return trust.TrustChange{}, badChange("the new root: "+err.Error(), "send the certificate alone, as muster ca rotate-root does")
	}
	if bundle != "" {
		if err := a.checkRoot(root); err != nil {
			return trust.TrustChange{}, err
		}
	}
	if err := a.config.Store.SetSecret(ctx, rootSecret(root.certificate), value); err != nil {
		return trust.TrustChange{}, err
	}
	next := a.next()
	next.Roots += encodeCertificate(root.certificate.Raw)
	return a.propose(ctx, next, a.event("ca.root_announced", by, map[string]string{"root": Pin(root.certificate)}))
}

// checkRoot refuses a root that nodes could not use.
func (a *Authority) checkRoot(root level) error {
	c := root.certificate
	now := a.config.Now()
	key, ecdsaKey := c.PublicKey.(*ecdsa.PublicKey)
	names := len(c.URIs) == 1 && c.URIs[0].String() == "spiffe://"+a.config.TrustDomain
	known := slices.ContainsFunc(a.held.Load().roots, func(r *x509.Certificate) bool { return Pin(r) == Pin(c) })
	const hint = "make one with muster ca rotate-root --root-out DIR"
	switch {
	case root.key != nil:
		return badChange("the new root came with its key", "its key stays where it was made: "+hint)
	case known:
		return badChange("this root is trusted already", "muster ca show lists the roots")
	case !ecdsaKey || key.Curve.Params().BitSize != 256 || !c.IsCA || !c.BasicConstraintsValid || c.MaxPathLenZero ||
		c.CheckSignatureFrom(c) != nil:
		return badChange("the new root is no self-signed P-256 CA certificate that allows an intermediate", hint)
	case !names:
		return badChange("the new root is not of the trust domain "+a.config.TrustDomain, hint)
	case now.Before(c.NotBefore) || !now.Before(c.NotAfter):
		return badChange("the new root is not good now by the gateway's clock", "set the clock of the machine that made it")
	}
	return nil
}

// DropRoot makes a next set without a root. When that set is published, the root's key is deleted from the store. The root is named
// by its pin, or by 8 or more hex digits of it. DropRoot refuses the only root under which the intermediate is signed.
func (a *Authority) DropRoot(ctx context.Context, pin string, by store.Actor) (trust.TrustChange, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	h := a.held.Load()
	root, err := h.rootByPin(pin)
	if err != nil {
		return trust.TrustChange{}, err
	}
	if !slices.ContainsFunc(h.issuing.roots, func(r *x509.Certificate) bool { return !r.Equal(root) }) {
		return trust.TrustChange{}, badChange("the gateway's certificates are signed under this root alone",
			"make an intermediate under another root first: muster ca rotate-root, then muster ca intermediate")
	}
	next := a.next()
	next.Roots = ""
	for _, r := range h.roots {
		if !r.Equal(root) {
			next.Roots += encodeCertificate(r.Raw)
		}
	}
	return a.propose(ctx, next, a.event("ca.root_dropped", by, map[string]string{"root": Pin(root)}))
}

// rootByPin finds the one root of the newest set whose pin begins with the given digits.
func (h *held) rootByPin(pin string) (*x509.Certificate, error) {
	digits := strings.ToLower(strings.TrimPrefix(pin, "sha256:"))
	var found []*x509.Certificate
	for _, root := range h.roots {
		if len(digits) >= 8 && strings.HasPrefix(strings.TrimPrefix(Pin(root), "sha256:"), digits) {
			found = append(found, root)
		}
	}
	if len(found) != 1 {
		return nil, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("%.80q names no root of the newest set", pin),
			"muster ca show lists them by pin; 8 digits of it are enough")

	}
	return found[0], nil
}
