package adminapi

import (
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/release"
)

// Route is one row of the table. The row decides who may call it. The handler only limits what it shows or changes to the caller's
// tenant.
type Route struct {
	Method string
	Path   string // below wire.PrefixAdmin, in the syntax of http.ServeMux
	Need   account.Need
	Body   Body

	serve func(*server, *call) (any, error)
}

// Body bounds what a route reads of a request's body.
type Body struct {
	Bytes int64         // 0: it reads none
	Time  time.Duration // for the body to arrive
	PSK   bool          // the body may hold the cluster's PSK; other routes refuse it
}

// Pattern is the route's pattern for http.ServeMux.
func (r Route) Pattern() string { return r.Method + " " + wire.PrefixAdmin + r.Path }

// Packed is true for lists that are long, and hold no secret: only those are sent compressed. A stream goes on for hours, and would hold
// memory for as long.
func (r Route) Packed() bool {
	switch r.Path {
	case "nodes", "nodes/{node}", "nodes/{node}/series", "fleet", "fleet/costs", "findings", "alerts":
		return r.Method == "GET"
	}
	return false
}

// Table is every route of this API. A new route is a new row here. The authorisation matrix in package main then calls it as every kind
// of caller.
//
// Listing PSKs needs psk:write, listing accounts needs accounts:write, listing secrets needs secrets:write, and listing credentials of
// registries needs releases:write: a caller who cannot change them needs no list.
func Table() []Route {
	none := Body{}
	usual := Body{Bytes: wire.MaxBody, Time: 10 * time.Second}
	piece := Body{Bytes: pipe.MaxBody, Time: time.Minute}
	psk := usual
	psk.PSK = true
	return []Route{
		{"GET", "nodes", tenants(api.ScopeNodesRead), none, (*server).listNodes},
		{"POST", "nodes", tenants(api.ScopeNodesWrite, api.ScopeTokensWrite), usual, takes((*server).createNode)},
		{"GET", "nodes/{node}", tenants(api.ScopeNodesRead), none, (*server).showNode},
		{"GET", "nodes/{node}/series", tenants(api.ScopeNodesRead), none, (*server).nodeSeries},
		{"GET", "nodes/{node}/logs", tenants(api.ScopeLogsRead), none, (*server).nodeLogs},
		{"PATCH", "nodes/{node}", tenants(api.ScopeNodesWrite), usual, takes((*server).patchNode)},
		{"POST", "nodes/{node}/drain", tenants(api.ScopeNodesWrite), usual, apply(fleet.Drain)},
		{"POST", "nodes/{node}/resume", tenants(api.ScopeNodesWrite), usual, apply(fleet.Resume)},
		{"POST", "nodes/{node}/retire", tenants(api.ScopeNodesWrite), usual, apply(fleet.Retire)},
		{"POST", "nodes/{node}/ban", tenants(api.ScopeNodesWrite), usual, apply(fleet.Ban)},
		{"POST", "nodes/{node}/allow-recovery", tenants(api.ScopeNodesWrite), usual, takes((*server).allowRecovery)},
		{"POST", "nodes/{node}/labels", tenants(api.ScopeNodesWrite), usual, takes((*server).setLabels)},
		{"POST", "nodes/{node}/bootstrap-script", tenants(api.ScopeNodesWrite, api.ScopeTokensWrite), usual,
			takes((*server).bootstrapScript)},
		{"GET", "fleet", tenants(api.ScopeNodesRead), none, (*server).showFleet},
		{"GET", "fleet/costs", tenants(api.ScopeNodesRead), none, (*server).listCosts},
		{"GET", "stream", tenants(api.ScopeNodesRead), none, (*server).liveStream},
		{"GET", "findings", tenants(api.ScopeNodesRead), none, (*server).listFindings},
		{"GET", "health-rules", fleetWide(api.ScopeNodesRead), none, (*server).listHealthRules},
		{"PUT", "health-rules/{rule}", fleetWide(api.ScopeNodesWrite), usual, takes((*server).setHealthRule)},
		{"DELETE", "health-rules/{rule}", fleetWide(api.ScopeNodesWrite), none, (*server).unsetHealthRule},
		{"GET", "alerts", tenants(api.ScopeAlertsRead), none, (*server).listAlerts},
		{"GET", "alert-silences", tenants(api.ScopeAlertsRead), none, (*server).listSilences},
		{"POST", "alert-silences", tenants(api.ScopeAlertsWrite), usual, takes((*server).addSilence)},
		{"DELETE", "alert-silences/{silence}", tenants(api.ScopeAlertsWrite), none, (*server).endSilence},
		{"GET", "alert-receivers", fleetWide(api.ScopeAlertsRead), none, (*server).listReceivers},
		{"PUT", "alert-receivers/{receiver}", fleetWide(api.ScopeAlertsWrite), usual, takes((*server).setReceiver)},
		{"DELETE", "alert-receivers/{receiver}", fleetWide(api.ScopeAlertsWrite), none, (*server).dropReceiver},
		{"POST", "alert-receivers/{receiver}/test", fleetWide(api.ScopeAlertsWrite), usual, takes((*server).testReceiver)},
		{"GET", "log-shippings", tenants(api.ScopeLogsRead), none, (*server).listShippings},
		{"PUT", "log-shippings/{shipping}", tenants(api.ScopeLogsWrite), usual, takes((*server).setShipping)},
		{"DELETE", "log-shippings/{shipping}", tenants(api.ScopeLogsWrite), none, (*server).dropShipping},
		{"POST", "log-shippings/{shipping}/test", tenants(api.ScopeLogsWrite), usual, takes((*server).testShipping)},
		{"GET", "tokens", tenants(api.ScopeTokensRead), none, (*server).listTokens},
		{"POST", "tokens", tenants(api.ScopeTokensWrite), usual, takes((*server).createToken)},
		{"DELETE", "tokens/{token}", tenants(api.ScopeTokensWrite), none, (*server).revokeToken},
		{"GET", "psk", fleetWide(api.ScopePSKWrite), none, (*server).listPSKs},
		{"POST", "psk", fleetWide(api.ScopePSKWrite), psk, takes((*server).setPSK)},
		{"POST", "psk/rotate", fleetWide(api.ScopePSKWrite), psk, takes((*server).rotatePSK)},
		{"DELETE", "psk", fleetWide(api.ScopePSKWrite), none, (*server).clearPSK},
		{"GET", "accounts", tenants(api.ScopeAccountsWrite), none, (*server).listAccounts},
		{"POST", "accounts", tenants(api.ScopeAccountsWrite), usual, takes((*server).createAccount)},
		{"DELETE", "accounts/{account}", tenants(api.ScopeAccountsWrite), none, (*server).revokeAccount},
		{"GET", "tasks", tenants(api.ScopeTasksRead), none, (*server).listTasks},
		{"POST", "tasks", parts(api.ScopeTasksWrite), usual, takes((*server).createTask)},
		{"GET", "tasks/{task}", tenants(api.ScopeTasksRead), none, (*server).showTask},
		{"POST", "tasks/{task}/cancel", parts(api.ScopeTasksWrite), usual, takes((*server).cancelTask)},
		{"POST", "tasks/{task}/retry", parts(api.ScopeTasksWrite), usual, takes((*server).retryTask)},
		{"GET", "tasks/{task}/output", tenants(api.ScopeTasksRead), none, (*server).taskOutput},
		{"GET", "tasks/{task}/archive", tenants(api.ScopeTasksRead), none, (*server).taskArchive},
		{"GET", "sessions", parts(api.ScopeSessions), none, (*server).listSessions},
		{"GET", "sessions/{session}", parts(api.ScopeSessions), none, (*server).showSession},
		{"GET", "sessions/{session}/recording", parts(api.ScopeSessions), none, (*server).playSession},
		{"GET", "nodes/{node}/sessions", parts(api.ScopeSessions), none, (*server).listSessions},
		{"POST", "nodes/{node}/sessions", parts(api.ScopeSessions), usual, takes((*server).openSession)},
		{"GET", "nodes/{node}/sessions/{session}", parts(api.ScopeSessions), none, (*server).showSession},
		{"DELETE", "nodes/{node}/sessions/{session}", parts(api.ScopeSessions), none, (*server).killSession},
		{"GET", "nodes/{node}/sessions/{session}/stream", parts(api.ScopeSessions), none, (*server).fetchPiece},
		{"POST", "nodes/{node}/sessions/{session}/stream", parts(api.ScopeSessions), piece, (*server).sendPiece},
		{"GET", "nodes/{node}/sessions/{session}/watch", parts(api.ScopeSessions), none, (*server).watchSession},
		{"GET", "node-agent-releases", tenants(api.ScopeReleasesRead), none, (*server).listReleases},
		{"POST", "node-agent-releases", fleetWide(api.ScopeReleasesWrite), usual, takes((*server).addRelease)},
		{"GET", "node-agent-releases/{release}", tenants(api.ScopeReleasesRead), none, (*server).showRelease},
		{"DELETE", "node-agent-releases/{release}", fleetWide(api.ScopeReleasesWrite), none, (*server).dropRelease},
		{"GET", "channels", fleetWide(api.ScopeReleasesRead), none, (*server).listChannels},
		{"GET", "channels/{channel}", fleetWide(api.ScopeReleasesRead), none, (*server).showChannel},
		{"PATCH", "channels/{channel}", fleetWide(api.ScopeReleasesWrite), usual, takes((*server).patchChannel)},
		{"POST", "channels/{channel}/pause", fleetWide(api.ScopeReleasesWrite), usual, steers((*release.Desk).Pause)},
		{"POST", "channels/{channel}/resume", fleetWide(api.ScopeReleasesWrite), usual, steers((*release.Desk).Resume)},
		{"POST", "channels/{channel}/abort", fleetWide(api.ScopeReleasesWrite), usual, takes((*server).abortChannel)},
		{"POST", "channels/{channel}/rollback", fleetWide(api.ScopeReleasesWrite), usual, takes((*server).rollbackChannel)},
		{"GET", "channels/{channel}/pointer", fleetWide(api.ScopeReleasesRead), none, (*server).channelPointer},
		{"GET", "channels/{channel}/nodes", fleetWide(api.ScopeReleasesRead), none, (*server).channelNodes},
		{"GET", "pins", fleetWide(api.ScopeReleasesRead), none, (*server).listPins},
		{"POST", "pins", fleetWide(api.ScopeReleasesWrite), usual, takes((*server).addPins)},
		{"POST", "pins/drop", fleetWide(api.ScopeReleasesWrite), usual, takes((*server).dropPins)},
		{"DELETE", "pins/{node}", fleetWide(api.ScopeReleasesWrite), none, (*server).dropPin},
		{"GET", "registry-credentials", fleetWide(api.ScopeReleasesWrite), none, (*server).listCredentials},
		{"PUT", "registry-credentials/{credential}", fleetWide(api.ScopeReleasesWrite), usual, takes((*server).setCredential)},
		{"DELETE", "registry-credentials/{credential}", fleetWide(api.ScopeReleasesWrite), none, (*server).dropCredential},
		{"GET", "secrets", tenants(api.ScopeSecretsWrite), none, (*server).listSecrets},
		{"PUT", "secrets/{secret}", tenants(api.ScopeSecretsWrite), usual, takes((*server).setSecret)},
		{"DELETE", "secrets/{secret}", tenants(api.ScopeSecretsWrite), none, (*server).dropSecret},
		{"GET", "events", tenants(api.ScopeEventsRead), none, (*server).listEvents},
		{"POST", "logins", tenants(), usual, takes((*server).createLogin)},
		{"GET", "whoami", tenants(), none, (*server).whoami},
		{"GET", "gateway", tenants(), none, (*server).showGateway},
		{"GET", "ca", fleetWide(api.ScopeNodesRead), none, (*server).showCA},
		{"POST", "ca/intermediate", fleetWide(api.ScopeKeysWrite), usual, takes((*server).intermediate)},
		{"POST", "ca/roots", fleetWide(api.ScopeKeysWrite), usual, takes((*server).addRoot)},
		{"DELETE", "ca/roots/{root}", fleetWide(api.ScopeKeysWrite), none, (*server).dropRoot},
		{"GET", "keys", fleetWide(api.ScopeNodesRead), none, (*server).showCA},
		{"POST", "keys", fleetWide(api.ScopeKeysWrite), usual, takes((*server).addKey)},
		{"POST", "keys/rotate", fleetWide(api.ScopeKeysWrite), usual, takes((*server).rotateKey)},
		{"DELETE", "keys/{key}", fleetWide(api.ScopeKeysWrite), none, (*server).dropKey},
		{"POST", "trust", fleetWide(api.ScopeKeysWrite), usual, takes((*server).publishTrust)},
		{"GET", "backup", fleetWide(api.ScopeBackupRead), none, (*server).backup},
	}
}

// takes makes a handler for a route whose body is a Request. It reads the body before the handler runs. An empty body is a Request
// without values.
func takes[Request any](handler func(*server, *call, Request) (any, error)) func(*server, *call) (any, error) {
	return func(s *server, c *call) (any, error) {
		var q Request
		if err := c.decode(&q); err != nil {
			return nil, err
		}
		return handler(s, c, q)
	}
}

// tenants is the need of a route that accounts of one tenant may call too.
func tenants(scopes ...string) account.Need {
	return account.Need{Scopes: scopes, Reach: account.OwnTenant}
}

// parts is the need of a route for which a part of each scope is enough. Its handler asks for the very part.
func parts(scopes ...string) account.Need {
	return account.Need{Scopes: scopes, Parts: true, Reach: account.OwnTenant}
}

// fleetWide is the need of a route that no account of one tenant may call.
func fleetWide(scopes ...string) account.Need {
	return account.Need{Scopes: scopes, Reach: account.WholeFleet}
}
