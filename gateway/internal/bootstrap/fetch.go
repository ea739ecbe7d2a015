package bootstrap

import (
	"context"
	"crypto/subtle"
	"errors"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/httpserver/origin"
	"muster/store"
)

// Visit is a bootstrap token in the path of a request, after its fetch part, or all of it, was checked.
type Visit struct {
	store.Bootstrap
	Whole  bool // the request has the whole token, not the fetch part alone
	fetch  string
	secret string
}

// ParsePath reads a bootstrap token in a path: all of it, or its fetch part msb_<id>_<fetch>. The refusals are token_wrong_route for a
// token of another kind, and bad_request for text that is no token or a mistyped one. Neither repeats the text.
func ParsePath(text string) (t sign.Token, whole bool, err error) {
	kind, rest, _ := strings.Cut(text, "_")
	switch sign.TokenKind(kind) {
	case sign.EnrollmentToken, sign.AccountToken:
		return t, false, wire.Refuse(wire.CodeTokenWrongRoute, "this is not a bootstrap token",
			"bootstrap tokens begin with msb_; others may have read the token in this URL, so revoke it: muster token revoke, muster account revoke")

	case sign.BootstrapToken:
	default:
		if strings.HasPrefix(text, sign.PSKPrefix) {
			return t, false, wire.Refuse(wire.CodeTokenWrongRoute, "this is a PSK, not a bootstrap token",
				"others may have read it, so make another: muster psk rotate, then muster psk clear --keep ID")

		}
		return t, false, badToken("there is no bootstrap token in the path")
	}
	if strings.Contains(rest, ".") {
		t, err = sign.ParseToken(text)
		if err != nil || t.Reveal() != text {
			return t, false, badToken("the bootstrap token is mistyped or cut off")
		}
		return t, true, nil
	}
	if t, err = sign.ParseFetchPart(text); err != nil {
		return t, false, badToken("the bootstrap token is mistyped or cut off")
	}
	return t, false, nil
}

// badToken is a refusal that does not repeat the text from the path, because it may hold a secret.
func badToken(message string) error {
	return wire.Refuse(wire.CodeBadRequest, message, "use the URL that muster bootstrap printed, unchanged")
}

// Visited checks a token that ParsePath returned. A wrong fetch part or secret is refused like a token that does not exist. A token that
// has ended is refused with token_used, token_revoked or token_expired; the Visit then holds it all the same.
func (b *Bootstrap) Visited(ctx context.Context, t sign.Token, whole bool) (Visit, error) {
	kept, err := b.config.Store.Bootstrap(ctx, t.Public())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Visit{}, err
	}
	ok := err == nil && subtle.ConstantTimeCompare([]byte(hexSum(t.Fetch)), []byte(kept.FetchHash)) == 1
	if ok && whole {
		key, err := sign.EnrollKey(t.Secret)
		ok = err == nil && subtle.ConstantTimeCompare(key, kept.Token.Key) == 1
	}
	if !ok {
		return Visit{}, wire.Refuse(wire.CodeUnknownCredential, "this gateway has no such bootstrap token",
			"use the URL that muster bootstrap printed, unchanged, at the gateway that printed it")

	}
	v := Visit{Bootstrap: kept, Whole: whole, fetch: t.Fetch}
	if whole {
		v.secret = t.Secret
	}
	return v, b.ended(kept)
}

// ended returns a refusal that says why a token has ended, or nil.
func (b *Bootstrap) ended(kept store.Bootstrap) error {
	const again = "mint a new one: muster bootstrap NODE (with --again for a node that is enrolled)"
	switch t := kept.Token; {
	case t.Used >= t.Uses:
		return wire.Refuse(wire.CodeTokenUsed, "this bootstrap token enrolled its node already", again)
	case t.RevokedAt != nil:
		return wire.Refuse(wire.CodeTokenRevoked, "this bootstrap token was ended, by the operator or because its node enrolled", again)
	case !b.config.Now().Before(t.ExpiresAt):
		return wire.Refuse(wire.CodeTokenExpired, "this bootstrap token expired at "+t.ExpiresAt.UTC().Format(time.RFC3339), again)
	}
	return nil
}

// Script returns the stored script, with as much of the token as the request had.
func (v Visit) Script() (string, error) { return thaw(v.Bootstrap.Script, v.fetch, v.secret) }

// Fetched records that a visit got the script. The first visit shortens the token's life to its window. For each address, one visit in a
// minute is an event. The others are counted, so that somebody with the fetch part alone cannot fill the log.
func (b *Bootstrap) Fetched(ctx context.Context, v Visit, node store.Node, address string) error {
	part := "fetch"
	if v.Whole {
		part = "whole"
	}
	e := b.visitEvent("bootstrap.fetched", v, node, address)
	e.Detail["part"] = part
	if b.fetches.Over(v.Token.ID+" "+part+" "+origin.SiteOf(address)) && v.FirstFetchAt != nil {
		b.config.Audit.Count(ctx, e)
		return nil
	}
	err := b.config.Store.FetchBootstrap(ctx, v.Token.ID, b.config.Now(), e)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	kept, err := b.config.Store.Bootstrap(store.Fresh(ctx), v.Token.ID) // it ended after Visited looked: find out why
	if err != nil {
		return err
	}
	if err := b.ended(kept); err != nil {
		return err
	}
	return store.ErrConflict
}

// Lend returns the credential for the registry to which a token's script logs in. The caller has made sure that v.Whole is true. ok is
// false if there is no credential for that registry, and the event says why. For each address, one call in a minute is an event. The
// others are counted.
func (b *Bootstrap) Lend(ctx context.Context, v Visit, node store.Node, address string) (c RegistryCredential, ok bool, err error) {
	c, why, err := b.lendable(ctx, v.Registry)
	if err != nil {
		return RegistryCredential{}, false, err
	}
	e := b.visitEvent("bootstrap.credential", v, node, address)
	e.Detail["registry"] = v.Registry
	if why != "" {
		e.Outcome = store.OutcomeNone
		e.Detail["reason"] = why
	}
	if b.config.Audit.Repeated(ctx, e) {
		return c, why == "", nil
	}
	return c, why == "", b.config.Store.AddEvents(ctx, e)
}

func (b *Bootstrap) visitEvent(kind string, v Visit, node store.Node, address string) store.Event {
	e := b.event(kind, v.Token.Tenant, store.Actor{Name: "token:" + v.Token.ID, Address: address})
	e.NodeID = node.ID
	e.NodeName = node.Name
	e.Detail = map[string]string{"mode": v.Mode, "token": v.Token.ID}
	return e
}
