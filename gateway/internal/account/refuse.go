package account

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/account/secret"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/httpserver/origin"
	"muster/gateway/internal/reply"
	"muster/store"
)

// Refuse answers with an error from Admit or from the route's handler, as Refused says.
func (g *Gate) Refuse(w http.ResponseWriter, r *http.Request, who Caller, need Need, err error) {
	wait, err := g.Refused(r, who, need, err)
	status, body := g.Info.Error(err)
	if wait > 0 {
		w.Header().Set("Retry-After", RetryAfter(wait))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="muster"`)
	}
	reply.Write(w, status, body)
}

// RetryAfter returns the header of that name for a caller who must wait.
func RetryAfter(wait time.Duration) string { return strconv.Itoa(int(wait/time.Second) + 1) }

// Refused records a refusal and returns what to answer. A refusal of the caller is a security event, and so is every refusal of a write.
// Both are limited, so that nobody can fill the log: refusals beyond the limit are counted, and their number is recorded. If a caller is
// refused too often, wait says how long that caller must wait; else it is 0. It is no event if a caller only has to log in.
func (g *Gate) Refused(r *http.Request, who Caller, need Need, err error) (wait time.Duration, answer error) {
	var detail *wire.ErrorDetail
	if !errors.As(err, &detail) || errors.Is(err, ErrLogin) {
		return 0, err
	}
	status := reply.Status(detail.Code)
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || detail.Code == wire.CodePlaintextSecret:
		wait := g.refusals.Take(limitKey(who))
		g.record(r, who, need, detail, wait > 0)
		if wait > 0 && status == http.StatusUnauthorized {
			return wait, wire.Refuse(wire.CodeTooManyRequests, "too many refused calls from this address",
				"wait as Retry-After says, and check the API token")
		}
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		g.record(r, who, need, detail, g.writes.Over(limitKey(who)))
	}
	return 0, err
}

// record records a refusal as an event, or counts it if there are too many. A token on record that others may have read has a limit
// of its own, so that many other refusals cannot hide it.
func (g *Gate) record(r *http.Request, who Caller, need Need, detail *wire.ErrorDetail, tooMany bool) {
	ctx := context.WithoutCancel(r.Context()) // a caller who hangs up is recorded too
	e := store.Event{At: g.Now().UTC(), Kind: g.kind(), Actor: who.Actor.Name, Tenant: who.Tenant, Address: who.Actor.Address,
		Outcome: detail.Code, Security: true, Detail: map[string]string{"method": reply.Method(r), "path": g.logPath(ctx, r)}}
	if len(need.Scopes) > 0 {
		e.Detail["scope"] = strings.Join(need.Scopes, ",")
	}
	if !secret.HasToken(detail.Message) { // it may repeat what was asked for
		e.Detail["reason"] = detail.Message
	}
	g.nameNode(ctx, r, who, &e)
	known := g.Audit.NameOwner(ctx, g.shownIDs(ctx, r, who, detail.Code), &e)
	if known != "" && audit.Leaks(detail.Code) {
		tooMany = g.refusals.Over(known + " " + limitKey(who))
	}
	g.Audit.Refused(ctx, e, tooMany)
}

// kind is the kind of the events.
func (g *Gate) kind() string {
	if g.Passes != nil {
		return "registry.refused"
	}
	return "admin.refused"
}

// nameNode adds to an event the node that the call is about. A caller who was not let in cannot choose the node of an event.
func (g *Gate) nameNode(ctx context.Context, r *http.Request, who Caller, e *store.Event) {
	name := r.PathValue("node")
	if name == "" || len(who.Scopes) == 0 {
		return
	}
	node, err := g.Store.Node(ctx, who.Tenant, name)
	if err != nil {
		return
	}
	e.NodeID = node.ID
	e.NodeName = node.Name
	e.Tenant = node.Tenant
}

// logPath is secret.LogPath, which also leaves out a PSK that a person chose: only the database can recognise that.
func (g *Gate) logPath(ctx context.Context, r *http.Request) string {
	if psk, without := g.PSKs.PSKInPath(ctx, secret.Segments(r)); psk != "" {
		return secret.PathForLog(without)
	}
	return secret.LogPath(r)
}

// shownIDs are the public parts of the tokens, and the ids of the PSKs, that a refused call shows. A caller who was let in uses public
// parts in the path to name tokens. That shows no secret, unless the refusal says so.
func (g *Gate) shownIDs(ctx context.Context, r *http.Request, who Caller, code string) []string {
	if len(who.Scopes) > 0 && code != wire.CodePlaintextSecret {
		return nil
	}
	shown := []string{secret.Unescape(r.URL.RawQuery), secret.Unescape(r.URL.Path)}
	if who.Account.ID == "" {
		shown = append(shown, r.Header["Authorization"]...)
	}
	ids := secret.TokenIDs(shown...)
	inPath, _ := g.PSKs.PSKInPath(ctx, secret.Segments(r))
	if psk := cmp.Or(inPath, g.PSKs.PSKIn(ctx, append(shown, secret.QueryValues(r)...)...)); psk != "" {
		ids = append([]string{psk}, ids...)
	}
	return ids
}

// limitKey groups callers: accounts by their id, all others by address.
func limitKey(who Caller) string {
	if who.Account.ID != "" {
		return who.Account.ID
	}
	return origin.SiteOf(who.Actor.Address)
}
