package api

import "time"

// AccountRequest asks for an account. It gets the scopes of the role and those that are named; without both, a few scopes that only read.
// Without a tenant it gets the caller's own, or all if the caller has none. Without a TTL it lives as long as the caller's own account.
type AccountRequest struct {
	Name   string   `json:"name"`
	Role   string   `json:"role,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
	Tenant string   `json:"tenant,omitempty"`
	TTL    Duration `json:"ttl,omitempty"`
}

// AccountPatch changes what an account may do. A role or scopes take the place of all scopes that it has. What is left out stays.
type AccountPatch struct {
	Role   string   `json:"role,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
	Tenant *string  `json:"tenant,omitempty"` // empty: all tenants
}

// NewAccount answers an AccountRequest: the only time that the API token is shown.
type NewAccount struct {
	ID        string     `json:"id"`
	Token     string     `json:"token"`
	Name      string     `json:"name"`
	Role      string     `json:"role"` // that is exactly its scopes; empty: none is
	Scopes    []string   `json:"scopes"`
	Tenant    string     `json:"tenant"`     // empty: all
	ExpiresAt *time.Time `json:"expires_at"` // null: it does not
}

// Account is what the gateway shows of an account after it was made.
type Account struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Role       string     `json:"role"` // that is exactly its scopes; empty: none is
	Scopes     []string   `json:"scopes"`
	Tenant     string     `json:"tenant"` // empty: all
	Status     string     `json:"status"` // live, expired or revoked
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	LastUsedAt *time.Time `json:"last_used_at"` // to the minute; null: never
	CreatedBy  string     `json:"created_by"`   // as events name who did something
}

// RevokedAccount answers DELETE accounts/{account}.
type RevokedAccount struct {
	Done
	Made   []string `json:"made"`   // live accounts that it had made, which stay
	Tokens []string `json:"tokens"` // live tokens that it had made, by their public parts, which stay
}

// ChangedAccount answers PATCH accounts/{account}.
type ChangedAccount struct {
	Account
	Made []string `json:"made"` // live accounts that it had made, which keep what they may do; empty where it lost nothing
}

// AccountList answers GET accounts.
type AccountList struct {
	Accounts []Account `json:"accounts"`
}
