package authority

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"muster/agent/sign"
)

// Overview is what an operator wants to know of the CA and the keys. There is no secret in it.
type Overview struct {
	TrustDomain  string
	Number       int64 // of the newest trust set
	IssuedAt     time.Time
	Roots        []RootInfo // oldest first
	Intermediate IntermediateInfo
	Keys         []KeyInfo
}

// RootInfo is one root that nodes trust.
type RootInfo struct {
	Pin       string
	NotBefore time.Time
	NotAfter  time.Time
	Online    bool // its key is in the database
	Signing   bool // the intermediate is signed by it
}

// IntermediateInfo is what signs the nodes' certificates and the gateway's own.
type IntermediateInfo struct {
	Fingerprint string // hex SHA-256 of the newest certificate
	NotBefore   time.Time
	NotAfter    time.Time // of the certificate that ends first
	Online      bool      // a root that can sign the next one is in the database
}

// KeyInfo is one Ed25519 key that nodes believe.
type KeyInfo struct {
	Role   string
	ID     string
	Since  *time.Time // when the first set with it was issued; nil for a trust key
	Online bool       // its private half is in the database
	InUse  bool       // it signs now
}

// Overview returns an overview of the CA and the keys.
func (a *Authority) Overview(ctx context.Context) (Overview, error) {
	h := a.held.Load()
	out := Overview{TrustDomain: a.config.TrustDomain, Number: h.set().Number, IssuedAt: h.set().IssuedAt}
	for _, root := range h.roots {
		found, err := a.rootLevel(ctx, root)
		if err != nil {
			return out, err
		}
		info := RootInfo{Pin: Pin(root), NotBefore: root.NotBefore, NotAfter: root.NotAfter, Online: found.key != nil}
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

func (a *Authority) keyInfos(ctx context.Context, h *held) ([]KeyInfo, error) {
	set := h.set()
	answering := sign.EncodeKey(h.answerKey(a.config.Now()).Public().(ed25519.PublicKey))
	var out []KeyInfo
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
			info := KeyInfo{Role: list.role, ID: sign.KeyID(found.public), Online: found.private != nil, InUse: at == 0}
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
