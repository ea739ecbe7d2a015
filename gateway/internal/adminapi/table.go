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
	case api.PathNodes, api.PathNode, api.PathSeries, api.PathGPUUses, api.PathFleet, api.PathCosts, api.PathFindings, api.PathAlerts,
		api.PathSlots, api.PathSKU, api.PathAllocations:
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
	return append([]Route{
		{"GET", api.PathNodes, tenants(api.ScopeNodesRead), none, asks((*server).listNodes)},
		{"POST", api.PathNodes, tenants(api.ScopeNodesWrite, api.ScopeTokensWrite), usual, takes((*server).createNode)},
		{"GET", api.PathNode, tenants(api.ScopeNodesRead), none, plain((*server).showNode)},
		{"GET", api.PathSeries, tenants(api.ScopeNodesRead), none, asks((*server).nodeSeries)},
		{"GET", api.PathGPUUses, tenants(api.ScopeNodesRead), none, asks((*server).nodeUses)},
		{"GET", api.PathNodeLogs, tenants(api.ScopeLogsRead), none, asks((*server).nodeLogs)},
		{"PATCH", api.PathNode, tenants(api.ScopeNodesWrite), usual, takes((*server).patchNode)},
		{"POST", api.PathDrain, tenants(api.ScopeNodesWrite), usual, apply(fleet.Drain)},
		{"POST", api.PathResume, tenants(api.ScopeNodesWrite), usual, apply(fleet.Resume)},
		{"POST", api.PathRetire, tenants(api.ScopeNodesWrite), usual, apply(fleet.Retire)},
		{"POST", api.PathBan, tenants(api.ScopeNodesWrite), usual, apply(fleet.Ban)},
		{"POST", api.PathRecovery, tenants(api.ScopeNodesWrite), usual, takes((*server).allowRecovery)},
		{"POST", api.PathLabels, tenants(api.ScopeNodesWrite), usual, takes((*server).setLabels)},
		{"POST", api.PathRename, tenants(api.ScopeNodesWrite), usual, takes((*server).renameNode)},
		{"POST", api.PathBootstrap, tenants(api.ScopeNodesWrite, api.ScopeTokensWrite), usual,
			takes((*server).bootstrapScript)},
		{"GET", api.PathFleet, tenants(api.ScopeNodesRead), none, asks((*server).showFleet)},
		{"GET", api.PathCosts, tenants(api.ScopeNodesRead), none, asks((*server).listCosts)},
		{"GET", api.PathStream, tenants(api.ScopeNodesRead), none, asks((*server).liveStream)},
		{"GET", api.PathFindings, tenants(api.ScopeNodesRead), none, asks((*server).listFindings)},
		{"GET", api.PathHealthRules, fleetWide(api.ScopeNodesRead), none, plain((*server).listHealthRules)},
		{"PUT", api.PathHealthRule, fleetWide(api.ScopeNodesWrite), usual, takes((*server).setHealthRule)},
		{"DELETE", api.PathHealthRule, fleetWide(api.ScopeNodesWrite), none, asks((*server).unsetHealthRule)},
		{"GET", api.PathAlerts, tenants(api.ScopeAlertsRead), none, asks((*server).listAlerts)},
		{"GET", api.PathSilences, tenants(api.ScopeAlertsRead), none, asks((*server).listSilences)},
		{"POST", api.PathSilences, tenants(api.ScopeAlertsWrite), usual, takes((*server).addSilence)},
		{"DELETE", api.PathSilence, tenants(api.ScopeAlertsWrite), none, plain((*server).endSilence)},
		{"GET", api.PathReceivers, fleetWide(api.ScopeAlertsRead), none, plain((*server).listReceivers)},
		{"PUT", api.PathReceiver, fleetWide(api.ScopeAlertsWrite), usual, takes((*server).setReceiver)},
		{"DELETE", api.PathReceiver, fleetWide(api.ScopeAlertsWrite), none, plain((*server).dropReceiver)},
		{"POST", api.PathReceiverTest, fleetWide(api.ScopeAlertsWrite), usual, takes((*server).testReceiver)},
		{"GET", api.PathShippings, tenants(api.ScopeLogsRead), none, asks((*server).listShippings)},
		{"PUT", api.PathShipping, tenants(api.ScopeLogsWrite), usual, takes((*server).setShipping)},
		{"DELETE", api.PathShipping, tenants(api.ScopeLogsWrite), none, plain((*server).dropShipping)},
		{"POST", api.PathShippingTest, tenants(api.ScopeLogsWrite), usual, takes((*server).testShipping)},
		{"GET", api.PathTokens, tenants(api.ScopeTokensRead), none, asks((*server).listTokens)},
		{"POST", api.PathTokens, tenants(api.ScopeTokensWrite), usual, takes((*server).createToken)},
		{"DELETE", api.PathToken, tenants(api.ScopeTokensWrite), none, (*server).revokeToken},
		{"GET", api.PathPSK, fleetWide(api.ScopePSKWrite), none, plain((*server).listPSKs)},
		{"POST", api.PathPSK, fleetWide(api.ScopePSKWrite), psk, takes((*server).setPSK)},
		{"POST", api.PathPSKRotate, fleetWide(api.ScopePSKWrite), psk, takes((*server).rotatePSK)},
		{"DELETE", api.PathPSK, fleetWide(api.ScopePSKWrite), none, asks((*server).clearPSK)},
		{"GET", api.PathAccounts, tenants(api.ScopeAccountsWrite), none, asks((*server).listAccounts)},
		{"POST", api.PathAccounts, tenants(api.ScopeAccountsWrite), usual, takes((*server).createAccount)},
		{"PATCH", api.PathAccount, tenants(api.ScopeAccountsWrite), usual, takes((*server).updateAccount)},
		{"DELETE", api.PathAccount, tenants(api.ScopeAccountsWrite), none, (*server).revokeAccount},
		{"GET", api.PathTenants, tenants(api.ScopeNodesRead), none, plain((*server).listTenants)},
		{"GET", api.PathTasks, tenants(api.ScopeTasksRead), none, asks((*server).listTasks)},
		{"POST", api.PathTasks, parts(api.ScopeTasksWrite), usual, takes((*server).createTask)},
		{"GET", api.PathTask, tenants(api.ScopeTasksRead), none, plain((*server).showTask)},
		{"POST", api.PathTaskCancel, parts(api.ScopeTasksWrite), usual, takes((*server).cancelTask)},
		{"POST", api.PathTaskRetry, parts(api.ScopeTasksWrite), usual, takes((*server).retryTask)},
		{"GET", api.PathTaskOutput, tenants(api.ScopeTasksRead), none, asks((*server).taskOutput)},
		{"GET", api.PathTaskArchive, tenants(api.ScopeTasksRead), none, plain((*server).taskArchive)},
		{"GET", api.PathSessions, parts(api.ScopeSessions), none, asks((*server).listSessions)},
		{"GET", api.PathSession, parts(api.ScopeSessions), none, plain((*server).showSession)},
		{"GET", api.PathRecording, parts(api.ScopeSessions), none, plain((*server).playSession)},
		{"GET", api.PathNodeSessions, parts(api.ScopeSessions), none, asks((*server).listSessions)},
		{"POST", api.PathNodeSessions, parts(api.ScopeSessions), usual, takes((*server).openSession)},
		{"GET", api.PathNodeSession, parts(api.ScopeSessions), none, plain((*server).showSession)},
		{"DELETE", api.PathNodeSession, parts(api.ScopeSessions), none, plain((*server).killSession)},
		{"GET", api.PathPieces, parts(api.ScopeSessions), none, (*server).fetchPiece},
		{"POST", api.PathPieces, parts(api.ScopeSessions), piece, (*server).sendPiece},
		{"GET", api.PathWatch, parts(api.ScopeSessions), none, plain((*server).watchSession)},
		{"GET", api.PathReleases, tenants(api.ScopeReleasesRead), none, plain((*server).listReleases)},
		{"POST", api.PathReleases, fleetWide(api.ScopeReleasesWrite), usual, takes((*server).addRelease)},
		{"GET", api.PathRelease, tenants(api.ScopeReleasesRead), none, plain((*server).showRelease)},
		{"DELETE", api.PathRelease, fleetWide(api.ScopeReleasesWrite), none, (*server).dropRelease},
		{"GET", api.PathChannels, fleetWide(api.ScopeReleasesRead), none, plain((*server).listChannels)},
		{"GET", api.PathChannel, fleetWide(api.ScopeReleasesRead), none, plain((*server).showChannel)},
		{"PATCH", api.PathChannel, fleetWide(api.ScopeReleasesWrite), usual, takes((*server).patchChannel)},
		{"POST", api.PathChannelPause, fleetWide(api.ScopeReleasesWrite), usual, steers((*release.Service).Pause)},
		{"POST", api.PathChannelResume, fleetWide(api.ScopeReleasesWrite), usual, steers((*release.Service).Resume)},
		{"POST", api.PathChannelAbort, fleetWide(api.ScopeReleasesWrite), usual, takes((*server).abortChannel)},
		{"POST", api.PathChannelRollback, fleetWide(api.ScopeReleasesWrite), usual, takes((*server).rollbackChannel)},
		{"GET", api.PathChannelPointer, fleetWide(api.ScopeReleasesRead), none, asks((*server).channelPointer)},
		{"GET", api.PathChannelNodes, fleetWide(api.ScopeReleasesRead), none, asks((*server).channelNodes)},
		{"GET", api.PathPins, fleetWide(api.ScopeReleasesRead), none, plain((*server).listPins)},
		{"POST", api.PathPins, fleetWide(api.ScopeReleasesWrite), usual, takes((*server).addPins)},
		{"POST", api.PathPinsDrop, fleetWide(api.ScopeReleasesWrite), usual, takes((*server).dropPins)},
		{"DELETE", api.PathPin, fleetWide(api.ScopeReleasesWrite), none, (*server).dropPin},
		{"GET", api.PathRegistryCredentials, fleetWide(api.ScopeReleasesWrite), none, plain((*server).listCredentials)},
		{"PUT", api.PathRegistryCredential, fleetWide(api.ScopeReleasesWrite), usual, takes((*server).setCredential)},
		{"DELETE", api.PathRegistryCredential, fleetWide(api.ScopeReleasesWrite), none, (*server).dropCredential},
		{"GET", api.PathSecrets, tenants(api.ScopeSecretsWrite), none, asks((*server).listSecrets)},
		{"PUT", api.PathSecret, tenants(api.ScopeSecretsWrite), usual, takes((*server).setSecret)},
		{"DELETE", api.PathSecret, tenants(api.ScopeSecretsWrite), none, (*server).dropSecret},
		{"GET", api.PathEvents, tenants(api.ScopeEventsRead), none, asks((*server).listEvents)},
		{"POST", api.PathLogins, tenants(), usual, takes((*server).createLogin)},
		{"GET", api.PathWhoAmI, tenants(), none, (*server).whoami},
		{"GET", api.PathGateway, tenants(), none, (*server).showGateway},
		{"GET", api.PathGatewayHost, fleetWide(api.ScopeNodesRead), none, plain((*server).showHost)},
		{"GET", api.PathGateways, fleetWide(api.ScopeNodesRead), none, plain((*server).listGateways)},
		{"POST", api.PathHandOver, fleetWide(api.ScopeKeysWrite), usual, takes((*server).handOver)},
		{"GET", api.PathCA, fleetWide(api.ScopeNodesRead), none, plain((*server).showCA)},
		{"POST", api.PathIntermediate, fleetWide(api.ScopeKeysWrite), usual, takes((*server).intermediate)},
		{"POST", api.PathRoots, fleetWide(api.ScopeKeysWrite), usual, takes((*server).addRoot)},
		{"DELETE", api.PathRoot, fleetWide(api.ScopeKeysWrite), none, (*server).dropRoot},
		{"GET", api.PathKeys, fleetWide(api.ScopeNodesRead), none, plain((*server).showCA)},
		{"POST", api.PathKeys, fleetWide(api.ScopeKeysWrite), usual, takes((*server).addKey)},
		{"POST", api.PathKeysRotate, fleetWide(api.ScopeKeysWrite), usual, takes((*server).rotateKey)},
		{"DELETE", api.PathKey, fleetWide(api.ScopeKeysWrite), none, (*server).dropKey},
		{"POST", api.PathTrust, fleetWide(api.ScopeKeysWrite), usual, takes((*server).publishTrust)},
		{"GET", api.PathBackup, fleetWide(api.ScopeBackupRead), none, asks((*server).backup)},
	}, moreRoutes(usual)...)
}

// plain makes a handler for a route that takes no parameters: it refuses those that are there.
func plain(handler func(*server, *call) (any, error)) func(*server, *call) (any, error) {
	return func(s *server, c *call) (any, error) {
		if _, err := c.query(); err != nil {
			return nil, err
		}
		return handler(s, c)
	}
}

// asks makes a handler for a route whose parameters are a Filter. It reads them before the handler runs.
func asks[Filter any](handler func(*server, *call, Filter) (any, error)) func(*server, *call) (any, error) {
	return func(s *server, c *call) (any, error) {
		var f Filter
		if err := c.ask(&f); err != nil {
			return nil, err
		}
		return handler(s, c, f)
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
