// Package account finds out who calls: an account, by its API token, or the operator on the gateway's own machine, by the socket.
//
// A Gate answers one question for every listener that serves operators: may this request do what it asks for? It looks at the
// Authorization header alone. A token in any other place of a request is refused, because others may have read it there.
//
// The registry's clients log in once with the name and the API token of an account, and get a Pass for what they are about to do.
//
// An account has scopes, and may belong to one tenant. Such an account sees and changes only what belongs to that tenant. Everything
// else is answered as if it did not exist. Refused callers are recorded, and must wait after several refusals.
package account

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"muster/gateway/internal/audit"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/httpserver/limit"
	"muster/gateway/internal/reply"
	"muster/store"
)

// How many refusals of one caller are recorded one by one. Then there is one more in each refill.
const (
	refusalBurst = 10
	writeBurst   = 60 // refused writes of a caller who may write
	refill       = 6 * time.Second
)

// Need is what a route asks of its callers. The zero value lets in every account that is for all tenants.
type Need struct {
	Scopes []string // the caller has all of them
	Parts  bool     // a part of each scope lets in too, as tasks:write:TYPE is one of tasks:write; the handler asks Caller.Part which one
	Reach  Reach
}

// Reach is the tenant rule of a route.
type Reach int

const (
	// WholeFleet is for a route that concerns more than one tenant. An account of one tenant is refused.
	WholeFleet Reach = iota
	// OwnTenant is for a route that an account of one tenant may call. The handler must show it only what belongs to that tenant.
	OwnTenant
)

// Config says what a Gate works with.
type Config struct {
	Store   *store.Store
	Info    *reply.Info
	Audit   *audit.Trail // where refusals go
	PSKs    PSKs
	Address func(*http.Request) string // the client's address
	Socket  bool                       // everybody who can connect is the operator
	Within  bool                       // calls come from within this process alone: Enter says who makes them, and no header does
	Passes  *Passes                    // of the registry, which takes passes and Basic beside API tokens; nil: API tokens alone
	Logins  func(*http.Request) bool   // accounts may call in this way; nil: always. Passes that are nobody's are good in any case
	Now     func() time.Time           // nil: time.Now
	Logger  *slog.Logger               // nil: slog.Default
}

// PSKs finds the cluster's PSKs in texts, and returns their ids. Package bootstrap implements it; this package may not import that one.
type PSKs interface {
	PSKIn(ctx context.Context, texts ...string) (id string)
	PSKInPath(ctx context.Context, segments []string) (id, without string)
}

// Gate judges the callers of one listener. It is safe for concurrent use.
type Gate struct {
	Config
	refusals *limit.Limiter // of callers who are not let in
	writes   *limit.Limiter // of callers who are let in, and whose writes are refused
}

// NewGate makes a gate. Each gate counts refusals by itself.
func NewGate(c Config) *Gate {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return &Gate{
		Config:   c,
		refusals: limit.New(limit.Config{Burst: refusalBurst, Every: refill, Now: c.Now}),
		writes:   limit.New(limit.Config{Burst: writeBurst, Every: refill, Now: c.Now}),
	}
}

// Admit returns who calls, or why the request is refused. With an error, the caller is filled in as far as it is known.
//
// The URL is checked also if the caller is not known: a token in it has leaked, whoever sends it.
func (g *Gate) Admit(r *http.Request, need Need) (Caller, error) {
	who, err := g.authenticate(r)
	if err == nil && !g.Socket {
		httpserver.Prove(r.Context(), who.owner())
	}
	if leak := g.inURL(r); leak != nil {
		return who, leak
	}
	if err != nil {
		return who, err
	}
	return who, who.meets(need)
}
