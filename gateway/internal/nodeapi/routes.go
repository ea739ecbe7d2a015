// Package nodeapi answers nodes, and machines that are to become nodes: enrolment, heartbeats, renewal, leaving, and what a
// machine needs before it has an identity (the agent's binary, the roots). Nodes also get work here and report on it. ownRoutes,
// taskRoutes, sessionRoutes and releaseRoutes list every route with the proof that it wants.
//
// Two rules hold everywhere. A request's proof is checked before its content is looked at. And every answer to a proven request is
// proven too, refusals included, so that a node believes the gateway and nobody in between.
package nodeapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/httpserver/limit"
	"muster/gateway/internal/release"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/session"
	"muster/gateway/internal/task"
	"muster/store"
)

// usualBodyTime is how long a request's body may take to arrive.
const usualBodyTime = 15 * time.Second

// Config says what the node API works with.
type Config struct {
	Fleet       *fleet.Fleet
	Bootstrap   *bootstrap.Bootstrap
	Tasks       *task.Service    // nil: there are no routes for tasks
	Sessions    *session.Service // nil: there are no routes for sessions
	Releases    *release.Service // nil: there are no routes for releases, and heartbeats hear of none
	Audit       *audit.Trail     // nil: one of its own
	Authority   *authority.Authority
	Issuer      authority.Issuer
	Store       *store.Store
	Info        *reply.Info
	Address     func(*http.Request) string // of the client, as far as it can be trusted
	Now         func() time.Time           // nil: time.Now
	Interval    time.Duration              // between heartbeats, as the gateway wishes it
	RenewEvery  time.Duration              // a node may renew once in it, and some times in a row; 0: no bound
	Role        string                     // among the gateways on one store; empty: it is by itself
	RequireMTLS bool                       // signatures are good for renewal alone
	Agents      *Agents                    // that this gateway carries; nil: none
	Version     string                     // of this gateway
	BodyTime    time.Duration              // how long a request's body may take to arrive; 0: 15 s
	// Newcomer returns what the machine of a node should install for an architecture; nil, or a nil Release: the release that its script
	// was made with.
	Newcomer  func(ctx context.Context, n store.Node, arch string) (*wire.Release, error)
	Installer func(wire.Manifest, *http.Request) ([]byte, error) // the joining script for whoever asks; nil: there is none
	// Logs returns what a node is to ship; nil, or a nil result: nothing. unshipped are the sources that the node does not ship, with the
	// reasons. It must not wait.
	Logs     func(nodeID string, unshipped map[string]string) *wire.LogShipping
	Gateways func() []string // URLs of all gateways; nil, or none from it: there is one
	More     []Route         // routes beside this package's own, with the proof Identity
	Logger   *slog.Logger
}

// API is safe for concurrent use.
type API struct {
	Config
	ready  readiness
	routes []Route
	mux    *http.ServeMux // of the routes, each an *endpoint
	pace   *limit.Limiter // of renewals, by node
}

// New makes the node API.
func New(c Config) *API {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Gateways == nil {
		c.Gateways = func() []string { return nil }
	}
	c.BodyTime = cmp.Or(c.BodyTime, usualBodyTime)
	if c.Audit == nil {
		c.Audit = audit.New(audit.Config{Store: c.Store, Now: c.Now, Logger: c.Logger})
	}
	if c.Agents == nil {
		c.Agents = NewAgents(nil, c.Version)
	}
	a := &API{Config: c, pace: c.pace()}
	a.routes = slices.Concat(a.ownRoutes(), a.taskRoutes(), a.sessionRoutes(), a.releaseRoutes(), c.More)
	a.mux = http.NewServeMux()
	a.Routes(a.mux)
	return a
}

// ownRoutes is every route of this package.
func (a *API) ownRoutes() []Route {
	id := "{id}"
	token := "{token}"
	return []Route{
		{Method: "GET", Path: wire.PathHealth, serve: anyone(a.healthz)},
		{Method: "GET", Path: wire.PathReady, serve: anyone(a.readyz)},
		{Method: "GET", Path: wire.PathVersion, serve: anyone(a.version)},
		{Method: "GET", Path: wire.PathRoots, serve: anyone(a.roots)},
		{Method: "GET", Path: wire.PathTrust, serve: anyone(a.trust)},
		{Method: "GET", Path: wire.PathInstaller, serve: anyone(a.installer)},
		{Method: "GET", Path: wire.PathAgent, serve: anyone(a.manifest)},
		{Method: "GET", Path: wire.AgentPath("{os}", "{arch}"), serve: anyone(a.binary)},

		{Method: "GET", Path: wire.BootstrapScriptPath(token), Proof: FetchPart, serve: a.script},
		{Method: "POST", Path: wire.BootstrapScriptPath(token), Proof: FetchPart, serve: a.script},
		{Method: "GET", Path: wire.BootstrapReleasePath(token), Proof: FetchPart, serve: a.newcomer},
		{Method: "GET", Path: wire.RegistryCredentialPath(token), Proof: WholeToken, serve: a.registryCredential},

		{Method: "POST", Path: wire.PathRegister, Proof: Credential, MaxBody: wire.MaxRegisterBody, serve: a.register},
		{Method: "POST", Path: wire.AdoptPath(id), Proof: Certificate, MaxBody: wire.MaxAdoptBody, serve: a.adopt},

		{Method: "POST", Path: wire.HeartbeatPath(id), Proof: Identity, Purpose: fleet.ForHeartbeat, MaxBody: wire.MaxBody, Node: a.heartbeat},
		{Method: "POST", Path: wire.LeavePath(id), Proof: Identity, Purpose: fleet.ForAnything, MaxBody: wire.MaxBody, Node: a.leave},
		{Method: "POST", Path: wire.RenewPath(id), Proof: Identity, Purpose: fleet.ForRenewal, MaxBody: wire.MaxBody, Node: a.renew},
	}
}
