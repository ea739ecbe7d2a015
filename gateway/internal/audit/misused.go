package audit

import (
	"context"
	"errors"
	"maps"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/origin"
	"muster/store"
)

// Misused records that a token was refused: it was presented where it is not good, or is good no more. It gives the refusal to answer.
// ids are the public parts of the tokens that the request shows, proven or not; the event names the owner of the first one on record.
// An address that presents too many is answered with too_many_requests, and its events are counted. A token on record that was shown
// to others has a count of its own and always its own answer.
func (t *Trail) Misused(ctx context.Context, refused error, ids []string, e store.Event) error {
	var detail *wire.ErrorDetail
	if !errors.As(refused, &detail) {
		return refused
	}
	ctx = context.WithoutCancel(ctx) // the event is recorded although the caller hangs up
	e.At = t.now()
	e.Kind = "bootstrap.refused"
	e.Outcome = detail.Code
	e.Security = true
	known := t.NameOwner(ctx, ids, &e)
	from := origin.SiteOf(e.Address)
	tooMany := t.misused.Over(from)
	leaked := known != "" && Leaks(detail.Code)
	if leaked {
		tooMany = t.misused.Over(from + " " + known)
	}
	t.Refused(ctx, e, tooMany)
	if leaked || !tooMany {
		return refused
	}
	return wire.Refuse(wire.CodeTooManyRequests, "too many refused tokens from this address",
		"wait a minute, then try again with the right one")
}

// Leaks tells the codes of refusals after which others may know the token that was sent.
func Leaks(code string) bool {
	return code == wire.CodePlaintextSecret || code == wire.CodeTokenWrongRoute || code == wire.CodeTLSRequired
}

// NameOwner says in an event whose token it is about, by the ids that a request shows. It takes the first id that is on record, gives
// it, and adds the owner's tenant, node or account. Where none is on record, detail.token is the first of all. Nothing is proven by it.
func (t *Trail) NameOwner(ctx context.Context, ids []string, e *store.Event) (known string) {
	ctx = context.WithoutCancel(ctx)
	if len(ids) == 0 {
		return ""
	}
	e.Detail = detailOf(*e)
	for _, id := range ids {
		if t.owner(ctx, id, e) {
			e.Detail["token"] = id
			return id
		}
	}
	e.Detail["token"] = ids[0]
	return ""
}

// detailOf is a copy of an event's detail: others may hold the map.
func detailOf(e store.Event) map[string]string {
	if e.Detail == nil {
		return map[string]string{}
	}
	return maps.Clone(e.Detail)
}

// owner adds to an event who owns a token, and tells whether that is on record.
func (t *Trail) owner(ctx context.Context, id string, e *store.Event) bool {
	switch {
	case strings.HasPrefix(id, string(sign.AccountToken)+"_"):
		account, err := t.store.Account(ctx, id)
		if err != nil {
			return false
		}
		e.Tenant = account.Tenant
		e.Detail["account"] = account.Name
		return true
	case sign.IsPSKID(id):
		_, err := t.store.PSK(ctx, id)
		if err != nil {
			return false
		}
		e.Tenant = store.DefaultTenant
		return true
	}
	token, err := t.store.Token(ctx, id)
	if err != nil {
		return false
	}
	e.Tenant = token.Tenant
	e.NodeID = token.NodeID
	t.NameNode(ctx, e)
	return true
}

// NameNode adds the name of the node that an event is about.
func (t *Trail) NameNode(ctx context.Context, e *store.Event) {
	if e.NodeID == "" {
		return
	}
	if node, err := t.store.Node(ctx, "", e.NodeID); err == nil {
		e.NodeName = node.Name
	}
}
