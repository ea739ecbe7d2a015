package api

import (
	"slices"
	"strings"

	"muster/agent/wire"
)

// Scopes of accounts. A route of the admin API names those that it needs.
const (
	ScopeAll           = "*"
	ScopeNodesRead     = "nodes:read"
	ScopeNodesWrite    = "nodes:write"
	ScopeTokensRead    = "tokens:read"
	ScopeTokensWrite   = "tokens:write"
	ScopePSKWrite      = "psk:write"
	ScopeTasksRead     = "tasks:read"
	ScopeTasksWrite    = "tasks:write" // has a part for each type of task
	ScopeSecretsWrite  = "secrets:write"
	ScopeEventsRead    = "events:read"
	ScopeAlertsRead    = "alerts:read"
	ScopeAlertsWrite   = "alerts:write"
	ScopeAccountsWrite = "accounts:write"
	ScopeKeysWrite     = "keys:write"
	ScopeBackupRead    = "backup:read"
	ScopeReleasesRead  = "releases:read"
	ScopeReleasesWrite = "releases:write"
	ScopeMetricsRead   = "metrics:read"
	ScopeSessions      = "sessions"   // has the parts wire.SessionOpeners
	ScopeLogsRead      = "logs:read"  // of nodes
	ScopeLogsWrite     = "logs:write" // where logs are shipped to

	ScopePlacementRead    = "placement:read"
	ScopePlacementWrite   = "placement:write"
	ScopeAllocationsWrite = "allocations:write"

	ScopeProvidersRead  = "providers:read"
	ScopeProvidersWrite = "providers:write" // accounts, limits, leases, stopping and destroying
	ScopeProvidersSpend = "providers:spend" // renting, starting, extending

	ScopeMAASWrite = "maas:write"
)

// Role is a name for a set of scopes. It is another way to write them: an account has scopes, and no role.
type Role struct {
	Name   string
	Is     string // in a few words
	Scopes []string
}

// Roles are all roles. Each role can do what the role before it can.
func Roles() []Role {
	viewer := []string{ScopeNodesRead, ScopeTokensRead, ScopeTasksRead, ScopeEventsRead, ScopeAlertsRead, ScopeReleasesRead, ScopeMetricsRead,
		ScopeLogsRead, ScopePlacementRead, ScopeProvidersRead}
	runner := append(slices.Clone(viewer), ScopeTasksWrite, ScopeSessions, ScopeSecretsWrite, ScopeAllocationsWrite)
	operator := append(slices.Clone(runner), ScopeNodesWrite, ScopeTokensWrite, ScopeAlertsWrite, ScopeLogsWrite, ScopePlacementWrite,
		ScopeProvidersWrite, ScopeProvidersSpend, ScopeMAASWrite)
	return []Role{
		{"viewer", "looks at everything that is no secret, and changes nothing", viewer},
		{"runner", "also gives nodes work and goes onto them: root on them", runner},
		{"operator", "also lets nodes in, and changes and retires them", operator},
		{"admin", "everything", []string{ScopeAll}},
	}
}

// RoleOf returns the name of the role that has exactly these scopes; "": there is none.
func RoleOf(scopes []string) string {
	has := slices.Sorted(slices.Values(scopes))
	for _, role := range Roles() {
		if slices.Equal(has, slices.Sorted(slices.Values(role.Scopes))) {
			return role.Name
		}
	}
	return ""
}

// ScopesOf are the scopes of a role; false: there is no such role.
func ScopesOf(role string) (scopes []string, ok bool) {
	for _, r := range Roles() {
		if r.Name == role {
			return r.Scopes, true
		}
	}
	return nil, false
}

// ScopePart is the scope that opens a part of what a scope opens.
func ScopePart(scope, part string) string { return scope + ":" + part }

// Scope is one row of the table of scopes.
type Scope struct {
	Name  string
	Opens string // what an account with it may do
}

// ScopesWith returns the scopes that include this one: each of them is enough where this one is needed.
func ScopesWith(scope string) []string {
	with := []string{ScopeAll, scope}
	if scope == ScopeReleasesRead {
		with = append(with, ScopeReleasesWrite)
	}
	if at := strings.LastIndexByte(scope, ':'); at > 0 {
		with = append(with, scope[:at])
	}
	return with
}

// Scopes is the table of all scopes that an account can be given.
func Scopes() []Scope {
	all := []Scope{
		{ScopeAll, "all of them, also those of later versions"},
		{ScopeNodesRead, "to look at nodes, and for an account of all tenants at the CA, the keys and the gateway's machine"},
		{ScopeNodesWrite, "to drain, resume, retire, ban, label, set the number of GPUs, allow recovery; with `tokens:write` also " +
			"`muster node create` and `muster bootstrap`"},
		{ScopeTokensRead, "to look at tokens"},
		{ScopeTokensWrite, "to make and revoke tokens"},
		{ScopePSKWrite, "to look at the pre-shared keys by their ids, to set, rotate and clear them. Only for an account of all tenants"},
		{ScopeTasksRead, "to look at tasks, at what they wrote, and at the files that they made"},
		{ScopeTasksWrite, "to give nodes tasks of every type, and to cancel them: with it an account is root on its nodes"},
		{ScopeSecretsWrite, "to look at the names of the secrets that tasks use, to set and delete them. No value is ever shown"},
		{ScopeEventsRead, "to look at events and the audit"},
		{ScopeAlertsRead, "to look at alerts and silences, and for an account of all tenants at who receives alerts"},
		{ScopeAlertsWrite, "to silence alerts; an account of all tenants also says who receives them, which is a way out for what they say"},
		{ScopeAccountsWrite, "to look at accounts, to make, change and revoke those that may do no more than itself"},
		{ScopeKeysWrite, "to change what nodes believe: roots and verifier keys. Only for an account of all tenants"},
		{ScopeBackupRead, "to copy the whole database, its secrets sealed. Only for an account of all tenants"},
		{ScopeReleasesRead, "to look at agent releases and channels, and to pull from the registry"},
		{ScopeReleasesWrite, "the same, and to push to the registry, delete there, make releases and move channels: with it an account " +
			"is root on every node that follows a channel. Changes need an account of all tenants"},
		{ScopeMetricsRead, "to read the metrics and the list of targets, for Prometheus. An account of one tenant reads those of its nodes"},
		{ScopeLogsRead, "to read the logs of nodes"},
		{ScopeLogsWrite, "to say which logs nodes ship, and to where: a way out for what they say"},
		{ScopeSessions, "to open a shell, programs and connections on nodes, to look at sessions, to watch and to end them: with it an " +
			"account is root on its nodes"},
		{ScopePlacementRead, "to look at profiles, evidence, slots, SKUs and allocations"},
		{ScopePlacementWrite, "to assign profiles, ask for checks, approve and disable slots, set rules and quotas, and to change the " +
			"allocations of others; to change profiles, rules and quotas an account needs to be of all tenants"},
		{ScopeAllocationsWrite, "to allocate GPUs for its tenant, and to extend and release its own allocations"},
		{ScopeProvidersRead, "to look at accounts with companies that rent machines, at what they charge, at leases, offers and rentals"},
		{ScopeProvidersWrite, "to stop, destroy and rejoin rented machines, and to set and end leases; an account of all tenants also adds and " +
			"removes accounts with such companies, and sets spending limits"},
		{ScopeProvidersSpend, "to rent machines, to start them, and to extend their leases, which changes nothing but the end: with it an " +
			"account spends money, up to the limits"},
		{ScopeMAASWrite, "to have MAAS install, release, erase and commission machines, and to take them out of muster. Only for an account of " +
			"all tenants"},
	}
	for _, t := range wire.TaskTypes() {
		all = append(all, Scope{ScopePart(ScopeTasksWrite, t.Name), "the same as `tasks:write`, for tasks of this one type"})
	}
	for _, part := range wire.SessionOpeners() {
		all = append(all, Scope{ScopePart(ScopeSessions, part), "the same as `sessions`, for this one kind: " + sessionsOf(part)})
	}
	return all
}

// sessionsOf says which types of sessions a part of the scope opens.
func sessionsOf(part string) string {
	var about []string
	for _, t := range wire.SessionTypes() {
		if t.Opener == part {
			about = append(about, t.About)
		}
	}
	return strings.Join(about, "; ")
}

// KnownScopes are the names of all scopes.
func KnownScopes() []string {
	var names []string
	for _, scope := range Scopes() {
		names = append(names, scope.Name)
	}
	return names
}
