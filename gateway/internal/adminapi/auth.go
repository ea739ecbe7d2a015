package adminapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/reply"
	"muster/store"
)

const (
	touchEvery   = time.Minute // how exact an account's last use is
	usualBodyTTL = 10 * time.Second
)

// server is an API with the memory of one listener.
type server struct {
	*API
	failures *limiter
}

// caller is who makes a request, once that is proven.
type caller struct {
	actor   store.Actor
	account store.Account // zero on the socket
	tenant  string        // "" all
	scopes  []string
}

func (c caller) may(scope string) bool {
	return scope == anyAccount || slices.Contains(c.scopes, ScopeAll) || slices.Contains(c.scopes, scope)
}

// guarded runs a handler for callers that are who they say and have the scope, and answers what it gives.
func (s *server) guarded(scope string, serve func(*call) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.admit(r, scope)
		if err != nil {
			s.refuse(w, r, who, scope, err)
			return
		}
		c := &call{w: w, r: r, caller: who, within: s.BodyTime, status: http.StatusOK}
		if c.within <= 0 {
			c.within = usualBodyTTL
		}
		answer, err := serve(c)
		if err != nil {
			s.refuse(w, r, who, scope, err)
			return
		}
		if _, sent := answer.(streamed); !sent {
			reply.Write(w, c.status, reply.JSON(answer))
		}
	})
}

func (s *server) admit(r *http.Request, scope string) (caller, error) {
	for name, values := range r.URL.Query() {
		if reply.HasToken(name) || slices.ContainsFunc(values, reply.HasToken) {
			return caller{actor: store.Actor{Name: "unknown", Address: s.address(r)}}, &wire.ErrorDetail{
				Code: wire.CodePlaintextSecret, Message: "a token stands in the query string",
				Hint: "take it as known to others now: revoke it; API tokens go into the header Authorization: Bearer ..."}
		}
	}
	who, err := s.authenticate(r)
	if err == nil && !who.may(scope) {
		err = forbidden("this account lacks the scope "+scope, "use an account that has it; its own scopes: "+strings.Join(who.scopes, ", "))
	}
	return who, err
}

func forbidden(message, hint string) error {
	return &wire.ErrorDetail{Code: wire.CodeForbidden, Message: message, Hint: hint}
}

func unauthorized(message, hint string) error {
	return &wire.ErrorDetail{Code: wire.CodeUnauthorized, Message: message, Hint: hint}
}

// authenticate finds out who calls. The caller is filled in as far as it is known also with an error.
func (s *server) authenticate(r *http.Request) (caller, error) {
	if s.Socket {
		return caller{actor: store.Actor{Name: "operator:socket", Address: "socket"}, scopes: []string{ScopeAll}}, nil
	}
	who := caller{actor: store.Actor{Name: "unknown", Address: s.address(r)}}
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(r.Header.Values("Authorization")) != 1 {
		return who, unauthorized("an API token is needed", "send Authorization: Bearer msa_..., or set MUSTER_API_TOKEN for the muster command")
	}
	token, err := sign.ParseToken(text)
	switch {
	case errors.Is(err, sign.ErrMistyped):
		return who, unauthorized(err.Error(), "copy the whole API token, from msa_ to its end")
	case err == nil && token.Kind == sign.BootstrapToken:
		return who, &wire.ErrorDetail{Code: wire.CodeTokenWrongRoute, Message: "this is the bootstrap token " + token.Public() + ", which is no API token",
			Hint: "it fetches its own script and registers its own node, nothing more; API tokens begin with msa_"}
	case err != nil || token.Kind != sign.AccountToken:
		return who, unauthorized("this is not an API token", "API tokens begin with msa_; enrollment tokens are for agents")
	}
	return s.account(r.Context(), who, token)
}

func (s *server) account(ctx context.Context, who caller, token sign.Token) (caller, error) {
	account, err := s.Store.Account(ctx, token.Public())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return who, fmt.Errorf("look up an account: %w", err)
	}
	hash, kept := token.SecretHash(), make([]byte, sha256.Size)
	if len(account.SecretHash) == sha256.Size {
		kept = account.SecretHash
	}
	if subtle.ConstantTimeCompare(hash[:], kept) != 1 || err != nil {
		return who, unauthorized("this gateway does not know that API token", "check MUSTER_URL and MUSTER_API_TOKEN: the token is of another gateway, or wrong")
	}
	who.actor.Name, who.account, who.tenant, who.scopes = "account:"+account.Name, account, account.Tenant, account.Scopes
	now := s.now()
	switch {
	case account.RevokedAt != nil:
		return who, unauthorized("this account was revoked", "ask who runs the gateway for a new one")
	case account.ExpiresAt != nil && !now.Before(*account.ExpiresAt):
		return who, unauthorized("this account expired", "ask who runs the gateway for a new one")
	}
	if account.LastUsedAt == nil || now.Sub(*account.LastUsedAt) >= touchEvery {
		if err := s.Store.TouchAccount(ctx, account.ID, now); err != nil {
			s.logger().Warn("cannot note that an account was used", "account", account.Name, "error", err)
		}
	}
	return who, nil
}

// refuse answers an error. Refusals of the caller are security events, and rate limited, so that nobody fills the log.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, who caller, scope string, err error) {
	status, body := s.Info.Error(err)
	var detail *wire.ErrorDetail
	leaked := errors.As(err, &detail) && detail.Code == wire.CodePlaintextSecret // a request that may be right in all else, and that somebody has to hear of
	if status == http.StatusUnauthorized || status == http.StatusForbidden || leaked {
		if wait := s.failures.note(limitKey(who)); wait > 0 && status == http.StatusUnauthorized {
			w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			status, body = s.Info.Error(&wire.ErrorDetail{Code: wire.CodeTooManyRequests,
				Message: "too many refused calls from this address", Hint: "wait as Retry-After says, and check the API token"})
		} else if wait <= 0 {
			s.record(r, who, scope, err)
		}
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="muster"`)
	}
	reply.Write(w, status, body)
}

func (s *server) record(r *http.Request, who caller, scope string, err error) {
	var detail *wire.ErrorDetail
	if !errors.As(err, &detail) {
		return
	}
	event := store.Event{At: s.now(), Kind: "admin.refused", Actor: who.actor.Name, Tenant: who.tenant, Address: who.actor.Address,
		Outcome: detail.Code, Security: true,
		Detail: map[string]string{"method": reply.Method(r), "path": reply.LogPath(r), "reason": detail.Message}}
	if scope != anyAccount {
		event.Detail["scope"] = scope
	}
	if err := s.Store.AddEvents(r.Context(), event); err != nil {
		s.logger().Error("cannot record a refused call", "error", err)
	}
}

// limitKey groups callers: accounts by their id, all others by address, IPv6 by the /64 that one customer usually has.
func limitKey(who caller) string {
	if who.account.ID != "" {
		return who.account.ID
	}
	ip := net.ParseIP(who.actor.Address)
	if ip == nil || ip.To4() != nil {
		return who.actor.Address
	}
	return ip.Mask(net.CIDRMask(64, 128)).String()
}

func (s *server) address(r *http.Request) string {
	if s.Address != nil {
		return s.Address(r)
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (s *server) now() time.Time {
	if s.Now != nil {
		return s.Now().UTC()
	}
	return time.Now().UTC()
}

func (s *server) logger() *slog.Logger {
	if s.Logger != nil {
		return s.Logger
	}
	return slog.Default()
}
