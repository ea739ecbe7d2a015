package client

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Node is a node as the API shows it. Hardware is what the node reported, held to its shape, null when it never did.
type Node struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Tenant       string            `json:"tenant"`
	Labels       map[string]string `json:"labels"`
	Provider     string            `json:"provider"`
	InstanceID   string            `json:"instance_id"`
	State        string            `json:"state"`
	StateReasons []string          `json:"state_reasons"`
	StateDetails map[string]string `json:"state_details"` // what stands behind a reason, by reason, where more is known
	StateSince   time.Time         `json:"state_since"`
	Status       string            `json:"status"`
	LastSeen     *time.Time        `json:"last_seen"`
	CreatedAt    time.Time         `json:"created_at"`
	Banned       bool              `json:"banned"`
	Recoveries   int               `json:"recoveries"` // renewals with an expired certificate
	Address      string            `json:"address"`
	SkewMillis   *int64            `json:"skew_ms"` // gateway's clock minus the node's
	Notices      []string          `json:"notices"` // what the agent misses
	Cost         json.RawMessage   `json:"cost"`    // a wire.Cost
	Agent        *Agent            `json:"agent"`
	Certificate  *Certificate      `json:"certificate"`

	GPUsExpected    *int     `json:"gpus_expected"`    // the gateway's record of how many GPUs it has; null: none
	IntervalSeconds *float64 `json:"interval_seconds"` // between its heartbeats, as it says

	RecoveryUntil *time.Time `json:"recovery_until"` // until when an operator lets it back in

	Hardware json.RawMessage `json:"hardware"` // a wire.Hardware
}

// Agent is the program that a node runs.
type Agent struct {
	Version string `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Digest  string `json:"digest"`
}

// Certificate is a node's current identity.
type Certificate struct {
	Fingerprint string    `json:"fingerprint"`
	NotAfter    time.Time `json:"not_after"`
	Generation  int       `json:"generation"`

	RenewalOverdue bool `json:"renewal_overdue"` // it should have been renewed by now
}

// NodePage is one page of a list of nodes.
type NodePage struct {
	Nodes []Node `json:"nodes"`
	Next  string `json:"next"` // cursor of the next page, empty on the last
	Total int    `json:"total"`
}

// LabelsRequest changes a node's labels as the operator.
type LabelsRequest struct {
	Set    map[string]string `json:"set,omitempty"`
	Remove []string          `json:"remove,omitempty"`
}

// TokenRequest asks for an enrollment token. Zero fields mean the defaults: tenant default, one use, one hour.
type TokenRequest struct {
	Tenant       string            `json:"tenant,omitempty"`
	Uses         int               `json:"uses,omitempty"`
	TTL          Duration          `json:"ttl,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	GPUs         int               `json:"gpus,omitempty"`
	BindInstance bool              `json:"bind_instance,omitempty"`
}

// NewToken answers a TokenRequest: the only time that the token is shown.
type NewToken struct {
	ID           string            `json:"id"`
	Token        string            `json:"token"`
	ExpiresAt    time.Time         `json:"expires_at"`
	Tenant       string            `json:"tenant"`
	Uses         int               `json:"uses"`
	Labels       map[string]string `json:"labels"`
	GPUs         *int              `json:"gpus"`
	BindInstance bool              `json:"bind_instance"`
	Command      string            `json:"command"` // joins a machine; safe to paste into a shell
}

// Token is what the gateway shows of a token after it was made.
type Token struct {
	ID           string            `json:"id"`
	Tenant       string            `json:"tenant"`
	Status       string            `json:"status"` // live, used, expired or revoked
	Uses         int               `json:"uses"`
	Used         int               `json:"used"`
	Labels       map[string]string `json:"labels"`
	GPUs         *int              `json:"gpus"` // null: it names no number
	BindInstance bool              `json:"bind_instance"`
	NodeID       string            `json:"node_id"` // a bootstrap token's node
	Node         string            `json:"node"`    // its name
	CreatedAt    time.Time         `json:"created_at"`
	ExpiresAt    time.Time         `json:"expires_at"`
	RevokedAt    *time.Time        `json:"revoked_at"`
	CreatedBy    string            `json:"created_by"`
}

// TokenList answers GET tokens.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

// PSKRequest sets or rotates the cluster's pre-shared key: one of the two fields.
type PSKRequest struct {
	Generate bool   `json:"generate,omitempty"`
	Secret   string `json:"secret,omitempty"`
}

// NewPSK answers a PSKRequest. Secret is there only when the gateway made it, and only this once.
type NewPSK struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
}

// PSK is a live pre-shared key, named by its key's hash.
type PSK struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
}

// PSKList answers GET psk.
type PSKList struct {
	PSKs []PSK `json:"psks"`
}

// Event is one row of the log.
type Event struct {
	ID       int64             `json:"id"`
	At       time.Time         `json:"at"`
	Kind     string            `json:"kind"`
	Actor    string            `json:"actor"`
	NodeID   string            `json:"node_id"`
	Node     string            `json:"node"` // its name
	Tenant   string            `json:"tenant"`
	Address  string            `json:"address"`
	Outcome  string            `json:"outcome"`
	Detail   map[string]string `json:"detail"`
	Security bool              `json:"security"`
}

// EventList answers GET events: newest first, but oldest first where the request has after.
type EventList struct {
	Events []Event `json:"events"`
}

// Identity answers GET whoami.
type Identity struct {
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

// Done answers a change that has nothing else to show.
type Done struct {
	ID     string `json:"id,omitempty"`
	Status string `json:"status"`
}

// Duration is a time.Duration that JSON spells "90m" or "7d"; a number of seconds is understood too.
type Duration time.Duration

// MarshalJSON writes Go's form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads a string or a number of seconds.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if string(raw) == "null" { // by encoding/json's convention no value at all
		return nil
	}
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw) + "s"
	}
	parsed, err := ParseDuration(text)
	*d = Duration(parsed)
	return err
}

// ParseDuration reads Go's durations, and whole days such as 7d.
func ParseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n < 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	return 0, fmt.Errorf("%.40q is no duration: write 30m, 12h or 7d", text)
}
