package adminapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/origin"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/secret"
	"muster/store"
)

// refuse answers an error. Refusals of the caller, and of every write, are security events. Both are rate limited, so that nobody
// fills the log; what is not recorded by itself is counted, and its number is recorded.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, who caller, scope string, err error) {
	status, body := s.Info.Error(err)
	var detail *wire.ErrorDetail
	switch known := errors.As(err, &detail); {
	case !known:
	case status == http.StatusUnauthorized || status == http.StatusForbidden || detail.Code == wire.CodePlaintextSecret:
		wait := s.failures.Take(limitKey(who))
		s.record(r, who, scope, detail, wait > 0)
		if wait > 0 && status == http.StatusUnauthorized {
			w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			status, body = s.Info.Error(wire.Refuse(wire.CodeTooManyRequests,
				"too many refused calls from this address", "wait as Retry-After says, and check the API token"))
		}
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		s.record(r, who, scope, detail, s.writes.Over(limitKey(who)))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="muster"`)
	}
	reply.Write(w, status, body)
}

// record makes an event of a refusal, or counts it where there are too many. A token on record that was shown to others has a
// count of its own, so that no noise hides it.
func (s *server) record(r *http.Request, who caller, scope string, detail *wire.ErrorDetail, tooMany bool) {
	r = r.WithContext(context.WithoutCancel(r.Context())) // whoever hangs up is recorded too
	e := store.Event{At: s.now(), Kind: "admin.refused", Actor: who.actor.Name, Tenant: who.tenant, Address: who.actor.Address,
		Outcome: detail.Code, Security: true, Detail: map[string]string{"method": reply.Method(r), "path": s.logPath(r)}}
	if scope != anyAccount {
		e.Detail["scope"] = scope
	}
	if !secret.HasToken(detail.Message) { // it may repeat what was asked for
		e.Detail["reason"] = detail.Message
	}
	s.concern(r, who, &e)
	claimed := s.Bootstrap.Claim(r.Context(), s.claimed(r, who, detail.Code), &e)
	leaked := claimed != "" && (detail.Code == wire.CodePlaintextSecret || detail.Code == wire.CodeTokenWrongRoute)
	if leaked {
		tooMany = s.failures.Over(claimed + " " + limitKey(who))
	}
	s.Bootstrap.Refused(r.Context(), e, tooMany)
}

// concern names the node that a call of somebody who was let in is about.
func (s *server) concern(r *http.Request, who caller, e *store.Event) {
	name := r.PathValue("node")
	if name == "" || len(who.scopes) == 0 {
		return
	}
	if node, err := s.Store.Node(r.Context(), who.tenant, name); err == nil {
		e.NodeID, e.NodeName, e.Tenant = node.ID, node.Name, node.Tenant
	}
}

// logPath is secret.LogPath without a PSK that has no form of its own.
func (s *server) logPath(r *http.Request) string {
	if psk, without := s.Bootstrap.PSKInPath(r.Context(), secret.Segments(r)); psk != "" {
		return secret.PathForLog(without)
	}
	return secret.LogPath(r)
}

// claimed are the ids of the PSKs and the public parts of the tokens that a refused call shows. What a caller who was let in names is no
// claim, unless more than a name stood there.
func (s *server) claimed(r *http.Request, who caller, code string) []string {
	if len(who.scopes) > 0 && code != wire.CodePlaintextSecret {
		return nil
	}
	shown := []string{secret.Unescape(r.URL.RawQuery), secret.Unescape(r.URL.Path)}
	if who.account.ID == "" {
		shown = append(shown, r.Header["Authorization"]...)
	}
	ids := secret.TokenIDs(shown...)
	inPath, _ := s.Bootstrap.PSKInPath(r.Context(), secret.Segments(r))
	if psk := cmp.Or(inPath, s.Bootstrap.PSKIn(r.Context(), append(shown, secret.QueryValues(r)...)...)); psk != "" {
		ids = append([]string{psk}, ids...)
	}
	return ids
}

// limitKey groups callers: accounts by their id, all others by address.
func limitKey(who caller) string {
	if who.account.ID != "" {
		return who.account.ID
	}
	return origin.SiteOf(who.actor.Address)
}
