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
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/gateway/internal/door"
	"muster/gateway/internal/limit"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/secret"
	"muster/store"
)

const (
	touchEvery   = time.Minute // how exact an account's last use is
	usualBodyTTL = 10 * time.Second
)

// server is an API with the memory of one listener.
type server struct {
	*API
	failures *limit.Limiter // of callers who are not let in
	writes   *limit.Limiter // of those who are, and ask for what cannot be
}

// caller is who makes a request, once that is proven.
type caller struct {
	actor   store.Actor
	account store.Account // zero on the socket
	tenant  string        // "" all
	scopes  []string
}

func (c caller) may(scope string) bool {
	return scope == anyAccount || slices.Contains(c.scopes, client.ScopeAll) || slices.Contains(c.scopes, scope)
}

// guarded runs a handler for callers that are who they say and have the scope, and answers what it gives.
func (s *server) guarded(scope string, serve func(*call) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.admit(r, scope)
		if err != nil {
			s.refuse(w, r, who, scope, err)
			return
		}
		c := &call{w: w, r: r, pskIn: s.Bootstrap.PSKInBody, caller: who, within: s.BodyTime, status: http.StatusOK}
		if c.within <= 0 {
			c.within = usualBodyTTL
		}
		answer, err := serve(c)
		if err != nil {
			s.refuse(w, r, who, scope, err)
			return
		}
		switch answer := answer.(type) {
		case streamed:
		case withScript:
			reply.Write(w, c.status, reply.Inert(answer.shape))
		default:
			reply.Write(w, c.status, reply.JSON(answer))
		}
	})
}

func (s *server) admit(r *http.Request, scope string) (caller, error) {
	who, err := s.authenticate(r)
	if err == nil && !s.Socket {
		door.Prove(r.Context(), who.account.ID)
	}
	if leak := s.inURL(r); leak != nil {
		return who, leak
	}
	if err == nil && !who.may(scope) {
		err = forbidden("this account lacks the scope "+scope, "use an account that has it; this one has "+strings.Join(who.scopes, ", "))
	}
	return who, err
}

// inURL refuses a token in the query string, and more of one in the path than its public part, and a PSK anywhere.
func (s *server) inURL(r *http.Request) error {
	segments, values := secret.Segments(r), secret.QueryValues(r)
	psk, _ := s.Bootstrap.PSKInPath(r.Context(), segments)
	if psk != "" || slices.ContainsFunc(slices.Concat(segments, values), secret.HasPSK) || s.Bootstrap.PSKIn(r.Context(), values...) != "" {
		return plainPSK("stands in the URL")
	}
	if r.URL.RawQuery != "" && secret.HasToken(secret.Unescape(r.URL.RawQuery)) {
		return wire.Refuse(wire.CodePlaintextSecret, "a token stands in the query string",
			"others may have read it: revoke it; API tokens go into the header Authorization: Bearer ...")

	}
	for segment := range strings.SplitSeq(secret.Unescape(r.URL.Path), "/") {
		if secret.TokenLike(segment) && secret.TokenID(segment) != segment {
			return wire.Refuse(wire.CodePlaintextSecret, "a whole token stands in the URL",
				"others may have read it: revoke it; a token or an account is named by the public part, such as mse_ab12")

		}
	}
	return nil
}

func plainPSK(where string) error {
	return wire.Refuse(wire.CodePlaintextSecret, "the cluster's PSK "+where+": others may have read it, so replace it",
		"make another: muster psk rotate, then muster psk clear --keep ID; a PSK is named by its id, such as psk-0123abcd")

}

func forbidden(message, hint string) error {
	return wire.Refuse(wire.CodeForbidden, message, hint)
}

func unauthorized(message, hint string) error {
	return wire.Refuse(wire.CodeUnauthorized, message, hint)
}

// authenticate finds out who calls. The caller is filled in as far as it is known also with an error.
func (s *server) authenticate(r *http.Request) (caller, error) {
	if s.Socket {
		return caller{actor: store.Actor{Name: "operator:socket", Address: "socket"}, scopes: []string{client.ScopeAll}}, nil
	}
	who := caller{actor: store.Actor{Name: "unknown", Address: s.address(r)}}
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(r.Header.Values("Authorization")) != 1 {
		return who, unauthorized("an API token is needed", "send Authorization: Bearer msa_..., or set MUSTER_API_TOKEN for the muster command")
	}
	token, err := sign.ParseToken(text)
	switch {
	case err != nil && (secret.HasPSK(text) || s.Bootstrap.PSKIn(r.Context(), text) != ""):
		return who, plainPSK("was sent as an API token")
	case errors.Is(err, sign.ErrMistyped):
		return who, unauthorized(err.Error(), "copy the whole API token, from msa_ to its end")
	case err == nil && token.Kind == sign.BootstrapToken:
		return who, wire.Refuse(wire.CodeTokenWrongRoute, "this is the bootstrap token "+token.Public()+", which is no API token",
			"it fetches its own script and registers its own node, nothing more; API tokens begin with msa_")

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
