package api

import (
	"time"
)

// CreateNodeRequest makes a node that waits for its bootstrap. Mode and TTL are its first bootstrap token's.
type CreateNodeRequest struct {
	Name   string            `json:"name"`
	Tenant string            `json:"tenant,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	GPUs   int               `json:"gpus,omitempty"`
	Mode   string            `json:"mode,omitempty"` // manual (the default) or cloud_init
	TTL    Duration          `json:"ttl,omitempty"`
}

// CreatedNode answers a CreateNodeRequest: the only time that the token is shown.
type CreatedNode struct {
	Hint           string    `json:"hint"` // the first member, for a person who feeds this to a shell
	Node           Node      `json:"node"`
	BootstrapToken string    `json:"bootstrap_token"`
	BootstrapURL   string    `json:"bootstrap_url"` // of the script, with the token's fetch part alone
	ExpiresAt      time.Time `json:"expires_at"`    // the outer limit
	FetchWindow    Duration  `json:"fetch_window"`  // from the first fetch of the script on
	Command        string    `json:"command"`       // safe to paste into a root shell of the machine
	UserData       string    `json:"user_data,omitempty"`
	Script         string    `json:"script"` // complete by itself: it holds the token
	ScriptSHA256   string    `json:"script_sha256"`

	Packages []BootstrapPackage `json:"packages"`
	Metadata BootstrapMetadata  `json:"metadata"`
}

// BootstrapScript answers POST nodes/{node}/bootstrap-script: the only time that the token is shown.
type BootstrapScript struct {
	Hint           string            `json:"hint"` // the first member, for a person who feeds this to a shell
	NodeID         string            `json:"node_id"`
	Node           string            `json:"node"` // its name
	BootstrapToken string            `json:"bootstrap_token"`
	BootstrapURL   string            `json:"bootstrap_url"`
	ExpiresAt      time.Time         `json:"expires_at"`   // the outer limit
	FetchWindow    Duration          `json:"fetch_window"` // from the first fetch of the script on
	Script         string            `json:"script"`       // complete by itself: it holds the token
	ScriptSHA256   string            `json:"script_sha256"`
	FetchSHA256    string            `json:"fetch_script_sha256"` // of what bootstrap_url gives: there is no secret in it
	Mode           string            `json:"mode"`
	Metadata       BootstrapMetadata `json:"metadata"`
	Command        string            `json:"command"`
	UserData       string            `json:"user_data,omitempty"` // in the mode cloud_init
}

// BootstrapMetadata says what a script brings.
type BootstrapMetadata struct {
	TrustBundleVersion string `json:"trust_bundle_version"` // v<number>
	// PackageRef is HOST[:PORT]/repository@sha256:<hex>. Without a release it is the URL of the usual platform's agent.
	PackageRef    string             `json:"package_ref"`
	PackageDigest string             `json:"package_digest"` // sha256:<hex>, of the release's index or of that agent
	Packages      []BootstrapPackage `json:"packages"`
}

// BootstrapPackage is the agent for one platform.
type BootstrapPackage struct {
	Platform string `json:"platform"` // linux/amd64
	Ref      string `json:"ref"`
	Digest   string `json:"digest"`
}

const ScriptType = "text/x-shellscript"

// BootstrapOptions say what a bootstrap token is to be like. Zero fields mean the defaults: manual, its usual outer limit, a node
// that has not enrolled.
type BootstrapOptions struct {
	Mode  string   `json:"mode,omitempty"`
	TTL   Duration `json:"ttl,omitempty"`
	Again bool     `json:"again,omitempty"`
}
