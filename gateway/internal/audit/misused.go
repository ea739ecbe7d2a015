package audit

import (
	"context"
	"errors"
	"maps"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/httpserver/origin"
	"muster/store"
)

// Misused records that a token was refused: it has ended, or it was used in a wrong place. It returns the refusal to answer with. ids
// are the public parts of the tokens that the request shows, proven or not. The event names the owner of the first one on record. An
// address with too many refusals gets too_many_requests, and its events are counted. A token on record that others may have read is
// counted by itself, and always gets its own answer.
func (t *Trail) Misused(ctx context.Context, refused error, ids []string, e store.Event) error {
	var detail *wire.ErrorDetail
	if !errors.As(refused, &detail) {
		return refused
	}
	ctx = context.WithoutCancel(ctx) // a caller who hangs up is recorded too
	e.At = t.Now()
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

// Leaks reports whether a refusal with this code means that others may have read the token that was sent.
func Leaks(code string) bool {
	return code == wire.CodePlaintextSecret || code == wire.CodeTokenWrongRoute || code == wire.CodeTLSRequired
}

// NameOwner adds to an event whose token a request shows. It returns the first id that is on record, and adds the tenant, node or
// account of its owner. If none is on record, detail.token is the first id. The request has proven nothing: anybody can send an id.
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

// detailOf is a copy of an event's detail, because others may use the map.
func detailOf(e store.Event) map[string]string {
	if e.Detail == nil {
		return map[string]string{}
	}
	return maps.Clone(e.Detail)
}

// owner adds to an event who owns a token. It is false if no such token is on record.
func (t *Trail) owner(ctx context.Context, id string, e *store.Event) bool {
	switch {
	case strings.HasPrefix(id, string(sign.AccountToken)+"_"):
		account, err := t.Store.Account(ctx, id)
		if err != nil {
			return false
		}
		e.Tenant = account.Tenant
		e.Detail["account"] = account.Name
		return true
	case sign.IsPSKID(id):
		_, err := t.Store.PSK(ctx, id)
		if err != nil {
			return false
		}
		e.Tenant = store.DefaultTenant
		return true
	}
	token, err := t.Store.Token(ctx, id)
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
	if node, err := t.Store.Node(ctx, "", e.NodeID); err == nil {
		e.NodeName = node.Name
	}
}
