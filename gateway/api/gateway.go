package api

import "time"

// Caller answers GET whoami: the account or operator that asks. An identity is a node's.
type Caller struct {
	Actor     string     `json:"actor"`
	AccountID string     `json:"account_id"` // empty on the socket
	Tenant    string     `json:"tenant"`     // empty: all
	Scopes    []string   `json:"scopes"`
	ExpiresAt *time.Time `json:"expires_at"`
}

// Gateway answers GET gateway: what an operator needs to point machines at it.
type Gateway struct {
	URL             string   `json:"url"`
	PublicURLs      []string `json:"public_urls"`
	RootPin         string   `json:"root_pin"`          // sha256:<hex> of the root's public key
	PinnedPublicKey string   `json:"pinned_public_key"` // sha256//<base64> of the serving key, as curl takes it
	Version         string   `json:"version"`
	TrustDomain     string   `json:"trust_domain"`
}
