package account

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account/secret"
	"muster/store"
)

// touchEvery is how exact the time of an account's last use is. Otherwise every call would be a write to the database.
const touchEvery = time.Minute

// authenticate finds out who calls. With an error, the caller is filled in as far as it is known.
func (g *Gate) authenticate(r *http.Request) (Caller, error) {
	if g.Socket {
		return Caller{Actor: store.Actor{Name: "operator:socket", Address: socketOf(r)}, Scopes: []string{api.ScopeAll}}, nil
	}
	if g.Within {
		return g.within(r.Context())
	}
	who := Caller{Actor: store.Actor{Name: "unknown", Address: g.Address(r)}}
	if g.Passes != nil {
		return g.registry(r, who)
	}
	text, err := bearer(r)
	if err != nil {
		return who, err
	}
	return g.token(r.Context(), who, text)
}

// passed is the network of a connection to another gateway's socket, which that gateway passed on.
const passed = "gateway"

// socketOf is where an operator called: on this gateway's socket, or on that of a gateway that passed the call on. It is the connection's
// own end, which the gateway sets: the other end has the name that a caller gave it.
func socketOf(r *http.Request) string {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && at.Network() == passed {
		return at.String()
	}
	return "socket"
}

// token finds out whose API token a text is.
func (g *Gate) token(ctx context.Context, who Caller, text string) (Caller, error) {
	token, err := sign.ParseToken(text)
	if err != nil || token.Kind != sign.AccountToken {
		return who, g.notAPI(ctx, text, token, err)
	}
	return g.account(ctx, who, token)
}

// bearer is the text that a request shows as its API token.
func bearer(r *http.Request) (string, error) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(r.Header["Authorization"]) != 1 {
		return "", wire.Refuse(wire.CodeUnauthorized, "an API token is needed",
			"send Authorization: Bearer msa_..., or set MUSTER_API_TOKEN for the muster command")
	}
	return text, nil
}

// notAPI is the refusal of a text that is no API token. It says what the text is, if that can be seen.
func (g *Gate) notAPI(ctx context.Context, text string, token sign.Token, err error) error {
	switch {
	case err != nil && (secret.HasPSK(text) || g.PSKs.PSKIn(ctx, text) != ""):
		return PlainPSK("was sent as an API token")
	case errors.Is(err, sign.ErrMistyped):
		return wire.Refuse(wire.CodeUnauthorized, err.Error(), "copy the whole API token, from msa_ to its end")
	case err == nil && token.Kind == sign.BootstrapToken:
		return wire.Refuse(wire.CodeTokenWrongRoute, "this is the bootstrap token "+token.Public()+", which is no API token",
			"it fetches its own script and registers its own node, nothing more; API tokens begin with msa_")
	}
	return wire.Refuse(wire.CodeUnauthorized, "this is not an API token", "API tokens begin with msa_; enrollment tokens are for agents")
}

// account finds a token's account. A wrong secret and an unknown account get the same answer after the same comparison, so nobody
// learns which accounts exist.
func (g *Gate) account(ctx context.Context, who Caller, token sign.Token) (Caller, error) {
	account, err := g.Store.Account(ctx, token.Public())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return who, fmt.Errorf("look up an account: %w", err)
	}
	hash := token.SecretHash()
	kept := make([]byte, sha256.Size)
	if len(account.SecretHash) == sha256.Size {
		kept = account.SecretHash
	}
	if subtle.ConstantTimeCompare(hash[:], kept) != 1 || err != nil {
		return who, wire.Refuse(wire.CodeUnauthorized, "this gateway does not know that API token",
			"check MUSTER_URL and MUSTER_API_TOKEN: the token is of another gateway, or wrong")
	}
	return g.live(ctx, who, account)
}

// known makes the account of a pass or a session the caller.
func (g *Gate) known(ctx context.Context, who Caller, id, of string) (Caller, error) {
	account, err := g.Store.Account(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return who, wire.Refuse(wire.CodeUnauthorized, "the account of this "+of+" is not there any more", "log in with another")
	}
	if err != nil {
		return who, fmt.Errorf("look up an account: %w", err)
	}
	return g.live(ctx, who, account)
}

// live makes an account the caller, unless it has ended.
func (g *Gate) live(ctx context.Context, who Caller, account store.Account) (Caller, error) {
	who.Actor.Name = ActorName(account)
	who.Account = account
	who.Tenant = account.Tenant
	who.Scopes = account.Scopes
	now := g.Now().UTC()
	switch Status(account, now) {
	case api.StatusRevoked:
		return who, wire.Refuse(wire.CodeUnauthorized, "this account was revoked", "ask who runs the gateway for a new one")
	case api.StatusExpired:
		return who, wire.Refuse(wire.CodeUnauthorized, "this account expired", "ask who runs the gateway for a new one")
	}
	g.touch(ctx, account, now)
	return who, nil
}

// touch notes that an account was used.
func (g *Gate) touch(ctx context.Context, account store.Account, now time.Time) {
	if account.LastUsedAt != nil && now.Sub(*account.LastUsedAt) < touchEvery {
		return
	}
	if err := g.Store.TouchAccount(ctx, account.ID, now); err != nil {
		g.Logger.Warn("cannot note that an account was used", "account", account.Name, "error", err)
	}
}

// Status returns the status of an account. Only api.StatusLive can be used.
func Status(a store.Account, now time.Time) string {
	switch {
	case a.RevokedAt != nil:
		return api.StatusRevoked
	case a.ExpiresAt != nil && !now.Before(*a.ExpiresAt):
		return api.StatusExpired
	}
	return api.StatusLive
}
