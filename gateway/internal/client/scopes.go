package client

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
	ScopeKeysWrite     = "keys:write"  // what nodes believe: roots and verifier keys
	ScopeBackupRead    = "backup:read" // the whole database, its secrets sealed
)
