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
	OwnCertificate  bool     `json:"own_certificate"`   // the URL shows one of the gateway's own CA, which the root pin proves
	Version         string   `json:"version"`
	TrustDomain     string   `json:"trust_domain"`

	At        time.Time `json:"at,omitzero"`         // of the gateway's clock
	StartedAt time.Time `json:"started_at,omitzero"` // zero: not known
	Ready     *bool     `json:"ready"`               // its database takes writes; null: not known
}

// GatewayHost answers GET gateway/host: how the gateway's machine does. What is not known is null.
type GatewayHost struct {
	DiskFreeBytes   *int64     `json:"disk_free_bytes"` // of the data directory's file system
	DiskBytes       *int64     `json:"disk_bytes"`
	BackupAt        *time.Time `json:"backup_at"`         // when the newest backup began; null: the database knows of none
	ServingNotAfter *time.Time `json:"serving_not_after"` // of the certificate that the gateway serves with
	KeyWithData     *bool      `json:"key_with_data"`     // the master key is in the data directory, beside the database
}
