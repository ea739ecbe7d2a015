package authority

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"

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
	set := h.set()
	answering := sign.EncodeKey(h.answerKey(a.config.Now()).Public().(ed25519.PublicKey))
	out := []trust.Key{}
	for _, list := range []struct {
		role string
		keys []string
	}{
		{roleTrust, []string{set.TrustKey}}, {roleAnswer, set.AnswerKeys}, {roleTask, set.TaskKeys}, {roleRelease, set.ReleaseKeys},
	} {
		for at, encoded := range list.keys {
			found, err := a.keyOf(ctx, list.role, encoded)
			if err != nil {
				return nil, err
			}
			info := trust.Key{Role: list.role, ID: sign.KeyID(found.public), Online: found.private != nil, InUse: at == 0}
			if list.role != roleTrust {
				since := h.sets[h.began(list.role, encoded)].IssuedAt
				info.Since = &since
			}
			switch list.role {
			case roleAnswer:
				info.InUse = encoded == answering
			case roleTask:
				info.InUse = h.taskKey != nil && found.public.Equal(h.taskKey.Public())
			case roleRelease:
				info.InUse = h.releaseKey != nil && found.public.Equal(h.releaseKey.Public())
			}
			out = append(out, info)
		}
	}
	return out, nil
}
