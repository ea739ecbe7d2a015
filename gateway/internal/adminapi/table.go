package adminapi

import (
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/adminapi/row"
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

	serve func(*call) (any, error)
}

// Body bounds what a route reads of a request's body.
type Body struct {
	Bytes int64         // 0: it reads none
	Time  time.Duration // for the body to arrive
	PSK   bool          // the body may hold the cluster's PSK; other routes refuse it
}

// Pattern returns the route's pattern for http.ServeMux.
func (r Route) Pattern() string { return r.Method + " " + wire.PrefixAdmin + r.Path }

// Packed reports whether answers are sent compressed. Only lists that are long and hold no secret are. A stream is not: it goes on for
// hours, and the compression would hold memory all that time.
func (r Route) Packed() bool {
	switch r.Path {
	case api.PathNodes, api.PathNode, api.PathSeries, api.PathGPUUses, api.PathFleet, api.PathCosts, api.PathFindings, api.PathAlerts,
		api.PathSlots, api.PathSKU, api.PathAllocations:
		return r.Method == "GET"
	}
	return false
}

// Table returns every route of this API. A new route is a new row here. The authorisation matrix in package main then calls it as every
// kind of caller.
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
		{"GET", api.PathNodes, tenants(api.ScopeNodesRead), none, row.Asks((*call).listNodes)},
		{"POST", api.PathNodes, tenants(api.ScopeNodesWrite, api.ScopeTokensWrite), usual, row.Reads((*call).createNode)},
		{"GET", api.PathNode, tenants(api.ScopeNodesRead), none, row.Plain((*call).showNode)},
		{"GET", api.PathSeries, tenants(api.ScopeNodesRead), none, row.Asks((*call).nodeSeries)},
		{"GET", api.PathGPUUses, tenants(api.ScopeNodesRead), none, row.Asks((*call).nodeUses)},
		{"GET", api.PathNodeLogs, tenants(api.ScopeLogsRead), none, row.Asks((*call).nodeLogs)},
		{"PATCH", api.PathNode, tenants(api.ScopeNodesWrite), usual, row.Reads((*call).patchNode)},
		{"POST", api.PathDrain, tenants(api.ScopeNodesWrite), usual, apply(fleet.Drain)},
		{"POST", api.PathResume, tenants(api.ScopeNodesWrite), usual, apply(fleet.Resume)},
		{"POST", api.PathRetire, tenants(api.ScopeNodesWrite), usual, apply(fleet.Retire)},
		{"POST", api.PathBan, tenants(api.ScopeNodesWrite), usual, apply(fleet.Ban)},
		{"POST", api.PathRecovery, tenants(api.ScopeNodesWrite), usual, row.Reads((*call).allowRecovery)},
		{"POST", api.PathLabels, tenants(api.ScopeNodesWrite), usual, row.Reads((*call).setLabels)},
		{"POST", api.PathRename, tenants(api.ScopeNodesWrite), usual, row.Reads((*call).renameNode)},
		{"POST", api.PathBootstrap, tenants(api.ScopeNodesWrite, api.ScopeTokensWrite), usual,
			row.Reads((*call).bootstrapScript)},
		{"GET", api.PathFleet, tenants(api.ScopeNodesRead), none, row.Asks((*call).showFleet)},
		{"GET", api.PathCosts, tenants(api.ScopeNodesRead), none, row.Asks((*call).listCosts)},
		{"GET", api.PathStream, tenants(api.ScopeNodesRead), none, row.Asks((*call).liveStream)},
		{"GET", api.PathFindings, tenants(api.ScopeNodesRead), none, row.Asks((*call).listFindings)},
		{"GET", api.PathHealthRules, fleetWide(api.ScopeNodesRead), none, row.Plain((*call).listHealthRules)},
		{"PUT", api.PathHealthRule, fleetWide(api.ScopeNodesWrite), usual, row.Reads((*call).setHealthRule)},
		{"DELETE", api.PathHealthRule, fleetWide(api.ScopeNodesWrite), none, row.Asks((*call).unsetHealthRule)},
		{"GET", api.PathAlerts, tenants(api.ScopeAlertsRead), none, row.Asks((*call).listAlerts)},
		{"GET", api.PathSilences, tenants(api.ScopeAlertsRead), none, row.Asks((*call).listSilences)},
		{"POST", api.PathSilences, tenants(api.ScopeAlertsWrite), usual, row.Reads((*call).addSilence)},
		{"DELETE", api.PathSilence, tenants(api.ScopeAlertsWrite), none, row.Plain((*call).endSilence)},
		{"GET", api.PathReceivers, fleetWide(api.ScopeAlertsRead), none, row.Plain((*call).listReceivers)},
		{"PUT", api.PathReceiver, fleetWide(api.ScopeAlertsWrite), usual, row.Reads((*call).setReceiver)},
		{"DELETE", api.PathReceiver, fleetWide(api.ScopeAlertsWrite), none, row.Plain((*call).dropReceiver)},
		{"POST", api.PathReceiverTest, fleetWide(api.ScopeAlertsWrite), usual, row.Reads((*call).testReceiver)},
		{"GET", api.PathShippings, tenants(api.ScopeLogsRead), none, row.Asks((*call).listShippings)},
		{"PUT", api.PathShipping, tenants(api.ScopeLogsWrite), usual, row.Reads((*call).setShipping)},
		{"DELETE", api.PathShipping, tenants(api.ScopeLogsWrite), none, row.Plain((*call).dropShipping)},
		{"POST", api.PathShippingTest, tenants(api.ScopeLogsWrite), usual, row.Reads((*call).testShipping)},
		{"GET", api.PathTokens, tenants(api.ScopeTokensRead), none, row.Asks((*call).listTokens)},
		{"POST", api.PathTokens, tenants(api.ScopeTokensWrite), usual, row.Reads((*call).createToken)},
		{"DELETE", api.PathToken, tenants(api.ScopeTokensWrite), none, (*call).revokeToken},
		{"GET", api.PathPSK, fleetWide(api.ScopePSKWrite), none, row.Plain((*call).listPSKs)},
		{"POST", api.PathPSK, fleetWide(api.ScopePSKWrite), psk, row.Reads((*call).setPSK)},
		{"POST", api.PathPSKRotate, fleetWide(api.ScopePSKWrite), psk, row.Reads((*call).rotatePSK)},
		{"DELETE", api.PathPSK, fleetWide(api.ScopePSKWrite), none, row.Asks((*call).clearPSK)},
		{"GET", api.PathAccounts, tenants(api.ScopeAccountsWrite), none, row.Asks((*call).listAccounts)},
		{"POST", api.PathAccounts, tenants(api.ScopeAccountsWrite), usual, row.Reads((*call).createAccount)},
		{"PATCH", api.PathAccount, tenants(api.ScopeAccountsWrite), usual, row.Reads((*call).updateAccount)},
		{"DELETE", api.PathAccount, tenants(api.ScopeAccountsWrite), none, (*call).revokeAccount},
		{"GET", api.PathTenants, tenants(api.ScopeNodesRead), none, row.Plain((*call).listTenants)},
		{"GET", api.PathTasks, tenants(api.ScopeTasksRead), none, row.Asks((*call).listTasks)},
		{"POST", api.PathTasks, parts(api.ScopeTasksWrite), usual, row.Reads((*call).createTask)},
		{"GET", api.PathTask, tenants(api.ScopeTasksRead), none, row.Plain((*call).showTask)},
		{"POST", api.PathTaskCancel, parts(api.ScopeTasksWrite), usual, row.Reads((*call).cancelTask)},
		{"POST", api.PathTaskRetry, parts(api.ScopeTasksWrite), usual, row.Reads((*call).retryTask)},
		{"GET", api.PathTaskOutput, tenants(api.ScopeTasksRead), none, row.Asks((*call).taskOutput)},
		{"GET", api.PathTaskArchive, tenants(api.ScopeTasksRead), none, row.Plain((*call).taskArchive)},
		{"GET", api.PathSessions, parts(api.ScopeSessions), none, row.Asks((*call).listSessions)},
		{"GET", api.PathSession, parts(api.ScopeSessions), none, row.Plain((*call).showSession)},
		{"GET", api.PathRecording, parts(api.ScopeSessions), none, row.Plain((*call).playSession)},
		{"GET", api.PathNodeSessions, parts(api.ScopeSessions), none, row.Asks((*call).listSessions)},
		{"POST", api.PathNodeSessions, parts(api.ScopeSessions), usual, row.Reads((*call).openSession)},
		{"GET", api.PathNodeSession, parts(api.ScopeSessions), none, row.Plain((*call).showSession)},
		{"DELETE", api.PathNodeSession, parts(api.ScopeSessions), none, row.Plain((*call).killSession)},
		{"GET", api.PathPieces, parts(api.ScopeSessions), none, (*call).fetchPiece},
		{"POST", api.PathPieces, parts(api.ScopeSessions), piece, (*call).sendPiece},
		{"GET", api.PathWatch, parts(api.ScopeSessions), none, row.Plain((*call).watchSession)},
		{"GET", api.PathReleases, tenants(api.ScopeReleasesRead), none, row.Plain((*call).listReleases)},
		{"POST", api.PathReleases, fleetWide(api.ScopeReleasesWrite), usual, row.Reads((*call).addRelease)},
		{"GET", api.PathRelease, tenants(api.ScopeReleasesRead), none, row.Plain((*call).showRelease)},
		{"DELETE", api.PathRelease, fleetWide(api.ScopeReleasesWrite), none, (*call).dropRelease},
		{"GET", api.PathChannels, fleetWide(api.ScopeReleasesRead), none, row.Plain((*call).listChannels)},
		{"GET", api.PathChannel, fleetWide(api.ScopeReleasesRead), none, row.Plain((*call).showChannel)},
		{"PATCH", api.PathChannel, fleetWide(api.ScopeReleasesWrite), usual, row.Reads((*call).patchChannel)},
		{"POST", api.PathChannelPause, fleetWide(api.ScopeReleasesWrite), usual, steers((*release.Service).Pause)},
		{"POST", api.PathChannelResume, fleetWide(api.ScopeReleasesWrite), usual, steers((*release.Service).Resume)},
		{"POST", api.PathChannelAbort, fleetWide(api.ScopeReleasesWrite), usual, row.Reads((*call).abortChannel)},
		{"POST", api.PathChannelRollback, fleetWide(api.ScopeReleasesWrite), usual, row.Reads((*call).rollbackChannel)},
		{"GET", api.PathChannelPointer, fleetWide(api.ScopeReleasesRead), none, row.Asks((*call).channelPointer)},
		{"GET", api.PathChannelNodes, fleetWide(api.ScopeReleasesRead), none, row.Asks((*call).channelNodes)},
		{"GET", api.PathPins, fleetWide(api.ScopeReleasesRead), none, row.Plain((*call).listPins)},
		{"POST", api.PathPins, fleetWide(api.ScopeReleasesWrite), usual, row.Reads((*call).addPins)},
		{"POST", api.PathPinsDrop, fleetWide(api.ScopeReleasesWrite), usual, row.Reads((*call).dropPins)},
		{"DELETE", api.PathPin, fleetWide(api.ScopeReleasesWrite), none, (*call).dropPin},
		{"GET", api.PathRegistryCredentials, fleetWide(api.ScopeReleasesWrite), none, row.Plain((*call).listCredentials)},
		{"PUT", api.PathRegistryCredential, fleetWide(api.ScopeReleasesWrite), usual, row.Reads((*call).setCredential)},
		{"DELETE", api.PathRegistryCredential, fleetWide(api.ScopeReleasesWrite), none, (*call).dropCredential},
		{"GET", api.PathSecrets, tenants(api.ScopeSecretsWrite), none, row.Asks((*call).listSecrets)},
		{"PUT", api.PathSecret, tenants(api.ScopeSecretsWrite), usual, row.Reads((*call).setSecret)},
		{"DELETE", api.PathSecret, tenants(api.ScopeSecretsWrite), none, (*call).dropSecret},
		{"GET", api.PathEvents, tenants(api.ScopeEventsRead), none, row.Asks((*call).listEvents)},
		{"POST", api.PathLogins, tenants(), usual, row.Reads((*call).createLogin)},
		{"GET", api.PathWhoAmI, tenants(), none, (*call).whoami},
		{"GET", api.PathGateway, tenants(), none, (*call).showGateway},
		{"GET", api.PathGatewayHost, fleetWide(api.ScopeNodesRead), none, row.Plain((*call).showHost)},
		{"GET", api.PathGateways, fleetWide(api.ScopeNodesRead), none, row.Plain((*call).listGateways)},
		{"POST", api.PathHandOver, fleetWide(api.ScopeKeysWrite), usual, row.Reads((*call).handOver)},
		{"GET", api.PathCA, fleetWide(api.ScopeNodesRead), none, row.Plain((*call).showCA)},
		{"POST", api.PathIntermediate, fleetWide(api.ScopeKeysWrite), usual, row.Reads((*call).intermediate)},
		{"POST", api.PathRoots, fleetWide(api.ScopeKeysWrite), usual, row.Reads((*call).addRoot)},
		{"DELETE", api.PathRoot, fleetWide(api.ScopeKeysWrite), none, (*call).dropRoot},
		{"GET", api.PathKeys, fleetWide(api.ScopeNodesRead), none, row.Plain((*call).showCA)},
		{"POST", api.PathKeys, fleetWide(api.ScopeKeysWrite), usual, row.Reads((*call).addKey)},
		{"POST", api.PathKeysRotate, fleetWide(api.ScopeKeysWrite), usual, row.Reads((*call).rotateKey)},
		{"DELETE", api.PathKey, fleetWide(api.ScopeKeysWrite), none, (*call).dropKey},
		{"POST", api.PathTrust, fleetWide(api.ScopeKeysWrite), usual, row.Reads((*call).publishTrust)},
		{"GET", api.PathBackup, fleetWide(api.ScopeBackupRead), none, row.Asks((*call).backup)},
	}, moreRoutes(usual)...)
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
