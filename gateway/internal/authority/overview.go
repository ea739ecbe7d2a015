package authority

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"muster/agent/sign"
	"muster/gateway/api/trust"
)

// Overview returns an overview of the CA and the keys.
func (a *Authority) Overview(ctx context.Context) (trust.CA, error) {
	h := a.held.Load()
	out := trust.CA{TrustDomain: a.config.TrustDomain, TrustNumber: h.set().Number, IssuedAt: h.set().IssuedAt.UTC(), Roots: []trust.Root{}}
	for _, root := range h.roots {
		found, err := a.rootLevel(ctx, root)
		if err != nil {
			return out, err
		}
		info := trust.Root{Pin: Pin(root), NotBefore: root.NotBefore, NotAfter: root.NotAfter, Online: found.key != nil}
		for _, signing := range h.issuing.roots {
			info.Signing = info.Signing || signing.Equal(root)
		}
		out.Intermediate.Online = out.Intermediate.Online || info.Online
		out.Roots = append(out.Roots, info)
	}
	newest := h.issuing.certificates[len(h.issuing.certificates)-1]
	sum := sha256.Sum256(newest.Raw)
	out.Intermediate.Fingerprint = hex.EncodeToString(sum[:])
	out.Intermediate.NotBefore = newest.NotBefore
	out.Intermediate.NotAfter = h.issuing.shortest().NotAfter
	var err error
	out.Keys, err = a.keyInfos(ctx, h)
	return out, err
}

func (a *Authority) keyInfos(ctx context.Context, h *held) ([]trust.Key, error) {
	found, err := a.keyOf(ctx, roleTrust, h.set().TrustKey)
	if err != nil {
		return nil, err
	}
	out := []trust.Key{{Role: roleTrust, ID: sign.KeyID(found.public), Online: found.private != nil, InUse: true}}
	for _, role := range workRoles() {
		signs := h.signs(role, a.config.Now())
		for _, public := range h.public[role] {
			since := h.sets[h.began(role, sign.EncodeKey(public))].IssuedAt
			online := slices.ContainsFunc(h.own[role], func(own ownKey) bool { return public.Equal(own.key.Public()) })
			out = append(out, trust.Key{Role: role, ID: sign.KeyID(public), Online: online, Since: &since,
				InUse: signs != nil && public.Equal(signs.Public())})
		}
	}
	return out, nil
}
