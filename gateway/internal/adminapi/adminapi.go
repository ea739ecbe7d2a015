// Package adminapi is the operator's API and its Go client.
//
// Callers are accounts with an API token, or whoever may open the gateway's unix socket. Every route names the scope that
// it needs; an account with a tenant sees and touches only what is that tenant's, and what is another's answers as if it
// did not exist. Tokens stand in the Authorization header and nowhere else. Every change is an event that the part which
// makes it writes in the same batch; refused calls are security events of this package.
package adminapi

import (
	"log/slog"
	"net/http"
	"time"

	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/registry"
	"muster/gateway/internal/reply"
	"muster/store"
)

// API is what the routes rest on. It may be copied, for one listener with Socket and one without.
type API struct {
	Registry  *registry.Registry
	Bootstrap *bootstrap.Bootstrap
	Store     *store.Store
	Info      *reply.Info
	Gateway   Gateway
	Command   func(token string) string  // the joining command for an enrollment token; nil: none
	Address   func(*http.Request) string // the client's address; nil: the connection's peer
	Socket    bool                       // whoever can connect is the operator
	BodyTime  time.Duration              // how long a body may take; 0: 10 seconds
	Now       func() time.Time           // nil: time.Now
	Logger    *slog.Logger               // nil: slog.Default
}

// Prefix is where the API lives.
const Prefix = "/api/v1/admin/"

// Scopes of accounts.
const (
	ScopeAll           = "*"
	ScopeNodesRead     = "nodes:read"
	ScopeNodesWrite    = "nodes:write"
	ScopeTokensRead    = "tokens:read"
	ScopeTokensWrite   = "tokens:write"
	ScopePSKWrite      = "psk:write"
	ScopeEventsRead    = "events:read"
	ScopeAccountsWrite = "accounts:write"
	ScopeReleasesWrite = "releases:write"
)

// anyAccount marks routes that take no scope.
const anyAccount = ""

// Routes serves the API under Prefix. Each call makes a handler with a memory of refused callers of its own.
func (a *API) Routes() http.Handler {
	s := &server{API: a, failures: &limiter{now: a.Now}}
	mux := http.NewServeMux()
	for _, r := range []struct {
		method, path, scope string
		serve               func(*call) (any, error)
	}{
		{"GET", "nodes", ScopeNodesRead, s.listNodes},
		{"GET", "nodes/{node}", ScopeNodesRead, s.showNode},
		{"POST", "nodes/{node}/drain", ScopeNodesWrite, s.apply(registry.Drain)},
		{"POST", "nodes/{node}/resume", ScopeNodesWrite, s.apply(registry.Resume)},
		{"POST", "nodes/{node}/retire", ScopeNodesWrite, s.apply(registry.Retire)},
		{"POST", "nodes/{node}/ban", ScopeNodesWrite, s.apply(registry.Ban)},
		{"POST", "nodes/{node}/labels", ScopeNodesWrite, s.setLabels},
		{"GET", "tokens", ScopeTokensRead, s.listTokens},
		{"POST", "tokens", ScopeTokensWrite, s.createToken},
		{"DELETE", "tokens/{token}", ScopeTokensWrite, s.revokeToken},
		{"GET", "psk", ScopePSKWrite, s.fleet(s.listPSKs)},
		{"POST", "psk", ScopePSKWrite, s.fleet(s.setPSK)},
		{"POST", "psk/rotate", ScopePSKWrite, s.fleet(s.rotatePSK)},
		{"DELETE", "psk", ScopePSKWrite, s.fleet(s.clearPSK)},
		{"GET", "accounts", ScopeAccountsWrite, s.listAccounts},
		{"POST", "accounts", ScopeAccountsWrite, s.createAccount},
		{"DELETE", "accounts/{account}", ScopeAccountsWrite, s.revokeAccount},
		{"GET", "events", ScopeEventsRead, s.listEvents},
		{"GET", "whoami", anyAccount, s.whoami},
		{"GET", "gateway", anyAccount, s.showGateway},
	} {
		mux.Handle(r.method+" "+Prefix+r.path, s.guarded(r.scope, r.serve))
	}
	return a.Info.Strict(mux)
}
