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
	"path"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/client"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/reply"
	"muster/store"
)

// API is what the routes rest on. It may be copied, for one listener with Socket and one without.
type API struct {
	Fleet     *fleet.Fleet
	Bootstrap *bootstrap.Bootstrap
	Store     *store.Store
	Authority *authority.Authority // nil: its routes are not there
	Scratch   string               // directory where a copy of the database may lie for a moment
	Info      *reply.Info
	Gateway   client.Gateway
	Command   func(token string) string  // the joining command for an enrollment token; nil: none
	Address   func(*http.Request) string // the client's address; nil: the connection's peer
	Socket    bool                       // whoever can connect is the operator
	BodyTime  time.Duration              // how long a body may take; 0: 10 seconds
	Now       func() time.Time           // nil: time.Now
	Logger    *slog.Logger               // nil: slog.Default
}

// Handler serves the API under wire.PrefixAdmin.
type Handler struct {
	http.Handler
	mux *http.ServeMux
}

// Takes tells whether a route takes this request, and so looks for who calls and for tokens in the wrong place. Of what no route
// takes nobody does.
func (h *Handler) Takes(r *http.Request) bool {
	if path.Clean(r.URL.Path) != r.URL.Path { // ServeMux would redirect it
		return false
	}
	_, pattern := h.mux.Handler(r)
	return pattern != "" && pattern != "/" // the latter is Strict's, for what no route takes
}

// Routes makes a handler with a memory of refused callers of its own.
func (a *API) Routes() *Handler {
	s := &server{API: a, failures: a.limiter(refusalBurst), writes: a.limiter(writeBurst)}
	mux := http.NewServeMux()
	for _, r := range slices.Concat(s.routes(), s.bootstrapRoutes(), s.trustRoutes()) {
		mux.Handle(r.method+" "+wire.PrefixAdmin+r.path, s.guarded(r.scope, r.serve))
	}
	return &Handler{Handler: a.Info.Strict(mux), mux: mux}
}

// anyAccount marks routes that take no scope.
const anyAccount = ""

// route is one path of the API.
type route struct {
	method, path, scope string
	serve               func(*call) (any, error)
}

func (s *server) routes() []route {
	return []route{
		{"GET", "nodes", client.ScopeNodesRead, s.listNodes},
		{"GET", "nodes/{node}", client.ScopeNodesRead, s.showNode},
		{"PATCH", "nodes/{node}", client.ScopeNodesWrite, s.patchNode},
		{"POST", "nodes/{node}/drain", client.ScopeNodesWrite, s.apply(fleet.Drain)},
		{"POST", "nodes/{node}/resume", client.ScopeNodesWrite, s.apply(fleet.Resume)},
		{"POST", "nodes/{node}/retire", client.ScopeNodesWrite, s.apply(fleet.Retire)},
		{"POST", "nodes/{node}/ban", client.ScopeNodesWrite, s.apply(fleet.Ban)},
		{"POST", "nodes/{node}/allow-recovery", client.ScopeNodesWrite, s.allowRecovery},
		{"POST", "nodes/{node}/labels", client.ScopeNodesWrite, s.setLabels},
		{"GET", "tokens", client.ScopeTokensRead, s.listTokens},
		{"POST", "tokens", client.ScopeTokensWrite, s.createToken},
		{"DELETE", "tokens/{token}", client.ScopeTokensWrite, s.revokeToken},
		{"GET", "psk", client.ScopePSKWrite, s.fleet(s.listPSKs)},
		{"POST", "psk", client.ScopePSKWrite, s.fleet(s.setPSK)},
		{"POST", "psk/rotate", client.ScopePSKWrite, s.fleet(s.rotatePSK)},
		{"DELETE", "psk", client.ScopePSKWrite, s.fleet(s.clearPSK)},
		{"GET", "accounts", client.ScopeAccountsWrite, s.listAccounts},
		{"POST", "accounts", client.ScopeAccountsWrite, s.createAccount},
		{"DELETE", "accounts/{account}", client.ScopeAccountsWrite, s.revokeAccount},
		{"GET", "events", client.ScopeEventsRead, s.listEvents},
		{"GET", "whoami", anyAccount, s.whoami},
		{"GET", "gateway", anyAccount, s.showGateway},
	}
}

// trustRoutes are those of the CA, the keys and the database as a whole: no account of one tenant may use them.
func (s *server) trustRoutes() []route {
	if s.Authority == nil {
		return nil
	}
	return []route{
		{"GET", "ca", client.ScopeNodesRead, s.fleet(s.showCA)},
		{"POST", "ca/intermediate", client.ScopeKeysWrite, s.fleet(s.intermediate)},
		{"POST", "ca/roots", client.ScopeKeysWrite, s.fleet(s.addRoot)},
		{"DELETE", "ca/roots/{root}", client.ScopeKeysWrite, s.fleet(s.dropRoot)},
		{"GET", "keys", client.ScopeNodesRead, s.fleet(s.showCA)},
		{"POST", "keys/rotate", client.ScopeKeysWrite, s.fleet(s.rotateKey)},
		{"DELETE", "keys/{key}", client.ScopeKeysWrite, s.fleet(s.dropKey)},
		{"POST", "trust", client.ScopeKeysWrite, s.fleet(s.publishTrust)},
		{"GET", "backup", client.ScopeBackupRead, s.fleet(s.backup)},
	}
}
