package adminapi

import (
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/account"
	"muster/gateway/internal/client"
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
		{"GET", "nodes", tenants(client.ScopeNodesRead), none, (*server).listNodes},
		{"POST", "nodes", tenants(client.ScopeNodesWrite, client.ScopeTokensWrite), usual, takes((*server).createNode)},
		{"GET", "nodes/{node}", tenants(client.ScopeNodesRead), none, (*server).showNode},
		{"GET", "nodes/{node}/series", tenants(client.ScopeNodesRead), none, (*server).nodeSeries},
		{"GET", "nodes/{node}/logs", tenants(client.ScopeLogsRead), none, (*server).nodeLogs},
		{"PATCH", "nodes/{node}", tenants(client.ScopeNodesWrite), usual, takes((*server).patchNode)},
		{"POST", "nodes/{node}/drain", tenants(client.ScopeNodesWrite), usual, apply(fleet.Drain)},
		{"POST", "nodes/{node}/resume", tenants(client.ScopeNodesWrite), usual, apply(fleet.Resume)},
		{"POST", "nodes/{node}/retire", tenants(client.ScopeNodesWrite), usual, apply(fleet.Retire)},
		{"POST", "nodes/{node}/ban", tenants(client.ScopeNodesWrite), usual, apply(fleet.Ban)},
		{"POST", "nodes/{node}/allow-recovery", tenants(client.ScopeNodesWrite), usual, takes((*server).allowRecovery)},
		{"POST", "nodes/{node}/labels", tenants(client.ScopeNodesWrite), usual, takes((*server).setLabels)},
		{"POST", "nodes/{node}/bootstrap-script", tenants(client.ScopeNodesWrite, client.ScopeTokensWrite), usual,
			takes((*server).bootstrapScript)},
		{"GET", "fleet", tenants(client.ScopeNodesRead), none, (*server).showFleet},
		{"GET", "fleet/costs", tenants(client.ScopeNodesRead), none, (*server).listCosts},
		{"GET", "stream", tenants(client.ScopeNodesRead), none, (*server).liveStream},
		{"GET", "findings", tenants(client.ScopeNodesRead), none, (*server).listFindings},
		{"GET", "health-rules", fleetWide(client.ScopeNodesRead), none, (*server).listHealthRules},
		{"PUT", "health-rules/{rule}", fleetWide(client.ScopeNodesWrite), usual, takes((*server).setHealthRule)},
		{"DELETE", "health-rules/{rule}", fleetWide(client.ScopeNodesWrite), none, (*server).unsetHealthRule},
		{"GET", "alerts", tenants(client.ScopeAlertsRead), none, (*server).listAlerts},
		{"GET", "alert-silences", tenants(client.ScopeAlertsRead), none, (*server).listSilences},
		{"POST", "alert-silences", tenants(client.ScopeAlertsWrite), usual, takes((*server).addSilence)},
		{"DELETE", "alert-silences/{silence}", tenants(client.ScopeAlertsWrite), none, (*server).endSilence},
		{"GET", "alert-receivers", fleetWide(client.ScopeAlertsRead), none, (*server).listReceivers},
		{"PUT", "alert-receivers/{receiver}", fleetWide(client.ScopeAlertsWrite), usual, takes((*server).setReceiver)},
		{"DELETE", "alert-receivers/{receiver}", fleetWide(client.ScopeAlertsWrite), none, (*server).dropReceiver},
		{"POST", "alert-receivers/{receiver}/test", fleetWide(client.ScopeAlertsWrite), usual, takes((*server).testReceiver)},
		{"GET", "log-shippings", tenants(client.ScopeLogsRead), none, (*server).listShippings},
		{"PUT", "log-shippings/{shipping}", tenants(client.ScopeLogsWrite), usual, takes((*server).setShipping)},
		{"DELETE", "log-shippings/{shipping}", tenants(client.ScopeLogsWrite), none, (*server).dropShipping},
		{"POST", "log-shippings/{shipping}/test", tenants(client.ScopeLogsWrite), usual, takes((*server).testShipping)},
		{"GET", "tokens", tenants(client.ScopeTokensRead), none, (*server).listTokens},
		{"POST", "tokens", tenants(client.ScopeTokensWrite), usual, takes((*server).createToken)},
		{"DELETE", "tokens/{token}", tenants(client.ScopeTokensWrite), none, (*server).revokeToken},
		{"GET", "psk", fleetWide(client.ScopePSKWrite), none, (*server).listPSKs},
		{"POST", "psk", fleetWide(client.ScopePSKWrite), psk, takes((*server).setPSK)},
		{"POST", "psk/rotate", fleetWide(client.ScopePSKWrite), psk, takes((*server).rotatePSK)},
		{"DELETE", "psk", fleetWide(client.ScopePSKWrite), none, (*server).clearPSK},
		{"GET", "accounts", tenants(client.ScopeAccountsWrite), none, (*server).listAccounts},
		{"POST", "accounts", tenants(client.ScopeAccountsWrite), usual, takes((*server).createAccount)},
		{"DELETE", "accounts/{account}", tenants(client.ScopeAccountsWrite), none, (*server).revokeAccount},
		{"GET", "tasks", tenants(client.ScopeTasksRead), none, (*server).listTasks},
		{"POST", "tasks", parts(client.ScopeTasksWrite), usual, takes((*server).createTask)},
		{"GET", "tasks/{task}", tenants(client.ScopeTasksRead), none, (*server).showTask},
		{"POST", "tasks/{task}/cancel", parts(client.ScopeTasksWrite), usual, takes((*server).cancelTask)},
		{"POST", "tasks/{task}/retry", parts(client.ScopeTasksWrite), usual, takes((*server).retryTask)},
		{"GET", "tasks/{task}/output", tenants(client.ScopeTasksRead), none, (*server).taskOutput},
		{"GET", "tasks/{task}/archive", tenants(client.ScopeTasksRead), none, (*server).taskArchive},
		{"GET", "sessions", parts(client.ScopeSessions), none, (*server).listSessions},
		{"GET", "sessions/{session}", parts(client.ScopeSessions), none, (*server).showSession},
		{"GET", "sessions/{session}/recording", parts(client.ScopeSessions), none, (*server).playSession},
		{"GET", "nodes/{node}/sessions", parts(client.ScopeSessions), none, (*server).listSessions},
		{"POST", "nodes/{node}/sessions", parts(client.ScopeSessions), usual, takes((*server).openSession)},
		{"GET", "nodes/{node}/sessions/{session}", parts(client.ScopeSessions), none, (*server).showSession},
		{"DELETE", "nodes/{node}/sessions/{session}", parts(client.ScopeSessions), none, (*server).killSession},
		{"GET", "nodes/{node}/sessions/{session}/stream", parts(client.ScopeSessions), none, (*server).fetchPiece},
		{"POST", "nodes/{node}/sessions/{session}/stream", parts(client.ScopeSessions), piece, (*server).sendPiece},
		{"GET", "nodes/{node}/sessions/{session}/watch", parts(client.ScopeSessions), none, (*server).watchSession},
		{"GET", "node-agent-releases", tenants(client.ScopeReleasesRead), none, (*server).listReleases},
		{"POST", "node-agent-releases", fleetWide(client.ScopeReleasesWrite), usual, takes((*server).addRelease)},
		{"GET", "node-agent-releases/{release}", tenants(client.ScopeReleasesRead), none, (*server).showRelease},
		{"DELETE", "node-agent-releases/{release}", fleetWide(client.ScopeReleasesWrite), none, (*server).dropRelease},
		{"GET", "channels", fleetWide(client.ScopeReleasesRead), none, (*server).listChannels},
		{"GET", "channels/{channel}", fleetWide(client.ScopeReleasesRead), none, (*server).showChannel},
		{"PATCH", "channels/{channel}", fleetWide(client.ScopeReleasesWrite), usual, takes((*server).patchChannel)},
		{"POST", "channels/{channel}/pause", fleetWide(client.ScopeReleasesWrite), usual, steers((*release.Desk).Pause)},
		{"POST", "channels/{channel}/resume", fleetWide(client.ScopeReleasesWrite), usual, steers((*release.Desk).Resume)},
		{"POST", "channels/{channel}/abort", fleetWide(client.ScopeReleasesWrite), usual, takes((*server).abortChannel)},
		{"POST", "channels/{channel}/rollback", fleetWide(client.ScopeReleasesWrite), usual, takes((*server).rollbackChannel)},
		{"GET", "channels/{channel}/pointer", fleetWide(client.ScopeReleasesRead), none, (*server).channelPointer},
		{"GET", "channels/{channel}/nodes", fleetWide(client.ScopeReleasesRead), none, (*server).channelNodes},
		{"GET", "pins", fleetWide(client.ScopeReleasesRead), none, (*server).listPins},
		{"POST", "pins", fleetWide(client.ScopeReleasesWrite), usual, takes((*server).addPins)},
		{"POST", "pins/drop", fleetWide(client.ScopeReleasesWrite), usual, takes((*server).dropPins)},
		{"DELETE", "pins/{node}", fleetWide(client.ScopeReleasesWrite), none, (*server).dropPin},
		{"GET", "registry-credentials", fleetWide(client.ScopeReleasesWrite), none, (*server).listCredentials},
		{"PUT", "registry-credentials/{credential}", fleetWide(client.ScopeReleasesWrite), usual, takes((*server).setCredential)},
		{"DELETE", "registry-credentials/{credential}", fleetWide(client.ScopeReleasesWrite), none, (*server).dropCredential},
		{"GET", "secrets", tenants(client.ScopeSecretsWrite), none, (*server).listSecrets},
		{"PUT", "secrets/{secret}", tenants(client.ScopeSecretsWrite), usual, takes((*server).setSecret)},
		{"DELETE", "secrets/{secret}", tenants(client.ScopeSecretsWrite), none, (*server).dropSecret},
		{"GET", "events", tenants(client.ScopeEventsRead), none, (*server).listEvents},
		{"POST", "logins", tenants(), usual, takes((*server).createLogin)},
		{"GET", "whoami", tenants(), none, (*server).whoami},
		{"GET", "gateway", tenants(), none, (*server).showGateway},
		{"GET", "ca", fleetWide(client.ScopeNodesRead), none, (*server).showCA},
		{"POST", "ca/intermediate", fleetWide(client.ScopeKeysWrite), usual, takes((*server).intermediate)},
		{"POST", "ca/roots", fleetWide(client.ScopeKeysWrite), usual, takes((*server).addRoot)},
		{"DELETE", "ca/roots/{root}", fleetWide(client.ScopeKeysWrite), none, (*server).dropRoot},
		{"GET", "keys", fleetWide(client.ScopeNodesRead), none, (*server).showCA},
		{"POST", "keys", fleetWide(client.ScopeKeysWrite), usual, takes((*server).addKey)},
		{"POST", "keys/rotate", fleetWide(client.ScopeKeysWrite), usual, takes((*server).rotateKey)},
		{"DELETE", "keys/{key}", fleetWide(client.ScopeKeysWrite), none, (*server).dropKey},
		{"POST", "trust", fleetWide(client.ScopeKeysWrite), usual, takes((*server).publishTrust)},
		{"GET", "backup", fleetWide(client.ScopeBackupRead), none, (*server).backup},
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
