package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"muster/agent/sign"
)

// CA answers GET ca and GET keys: what nodes believe, and where its keys are. There is no secret in it.
type CA struct {
	TrustDomain  string       `json:"trust_domain"`
	TrustNumber  int64        `json:"trust_number"` // of the newest trust set
	IssuedAt     time.Time    `json:"issued_at"`
	Roots        []Root       `json:"roots"` // oldest first
	Intermediate Intermediate `json:"intermediate"`
	Keys         []Key        `json:"keys"`
}

// Root is one root that nodes trust.
type Root struct {
	Pin       string    `json:"pin"` // as --root-pin takes it
	NotBefore time.Time `json:"not_before"`
	NotAfter  time.Time `json:"not_after"`
	Online    bool      `json:"online"`  // its key is in the gateway's database
	Signing   bool      `json:"signing"` // the intermediate is signed by it
}

// Intermediate is what signs the nodes' certificates and the gateway's own.
type Intermediate struct {
	Fingerprint string    `json:"fingerprint"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
	Online      bool      `json:"online"` // the gateway can make the next one by itself
}

// Key is one key that nodes believe.
type Key struct {
	Role   string     `json:"role"` // trust, answer, task or release
	ID     string     `json:"id"`
	Since  *time.Time `json:"since"`  // null: not known
	Online bool       `json:"online"` // its private half is in the gateway's database
	InUse  bool       `json:"in_use"`
}

// RotateRequest asks for a new key.
type RotateRequest struct {
	Role string `json:"role"`
	Now  bool   `json:"now,omitempty"` // nodes stop believing the key before at once
}

// AddKeyRequest adds a key whose private half an operator keeps.
type AddKeyRequest struct {
	Role      string `json:"role"`       // task
	PublicKey string `json:"public_key"` // Ed25519, as sign.EncodeKey writes it
}

// RootRequest announces a new root.
type RootRequest struct {
	Certificate string `json:"certificate,omitempty"` // PEM; empty: the gateway makes one and keeps its key
}

// TrustChange answers what changes the trust set. Where the trust key is kept elsewhere, Draft is the set to sign and to send to
// POST trust; nothing has changed before that.
type TrustChange struct {
	Number    int64  `json:"number"`
	Published bool   `json:"published"`
	Draft     []byte `json:"draft,omitempty"`
}

// SignedSet is a set that was signed elsewhere.
type SignedSet struct {
	Set sign.Envelope `json:"set"`
}

// IntermediateRequest has an intermediate made. Where the root is kept elsewhere it takes two steps: with Prepare the answer is a request
// to sign, and Certificates sends what was signed.
type IntermediateRequest struct {
	Prepare      bool   `json:"prepare,omitempty"`
	Certificates string `json:"certificates,omitempty"` // PEM
}

// IntermediateAnswer holds the request (PEM) where that was asked for.
type IntermediateAnswer struct {
	Request     string `json:"request,omitempty"`
	TrustDomain string `json:"trust_domain"`
}

// CA tells about the roots, the intermediate and the keys.
func (c *Client) CA(ctx context.Context) (CA, error) {
	var out CA
	err := c.do(ctx, http.MethodGet, "ca", nil, nil, &out)
	return out, err
}

// RotateKey adds a new key of a role to the trust set.
func (c *Client) RotateKey(ctx context.Context, q RotateRequest) (TrustChange, error) {
	return c.trust(ctx, http.MethodPost, "keys/rotate", q)
}

// AddKey adds an operator's key to the trust set. Tasks that are signed with it are good once the set is published.
func (c *Client) AddKey(ctx context.Context, q AddKeyRequest) (TrustChange, error) {
	return c.trust(ctx, http.MethodPost, "keys", q)
}

// DropKey takes a key out of the trust set.
func (c *Client) DropKey(ctx context.Context, id string) (TrustChange, error) {
	return c.trust(ctx, http.MethodDelete, "keys/"+url.PathEscape(id), nil)
}

// AddRoot announces a new root.
func (c *Client) AddRoot(ctx context.Context, q RootRequest) (TrustChange, error) {
	return c.trust(ctx, http.MethodPost, "ca/roots", q)
}

// DropRoot takes a root, named by its pin, out of the trust set.
func (c *Client) DropRoot(ctx context.Context, pin string) (TrustChange, error) {
	return c.trust(ctx, http.MethodDelete, "ca/roots/"+url.PathEscape(pin), nil)
}

// PublishTrust sends a set that was signed here.
func (c *Client) PublishTrust(ctx context.Context, set sign.Envelope) (TrustChange, error) {
	return c.trust(ctx, http.MethodPost, "trust", SignedSet{set})
}

func (c *Client) trust(ctx context.Context, method, path string, in any) (TrustChange, error) {
	var out TrustChange
	err := c.do(ctx, method, path, nil, in, &out)
	return out, err
}

// Intermediate has an intermediate made.
func (c *Client) Intermediate(ctx context.Context, q IntermediateRequest) (IntermediateAnswer, error) {
	var out IntermediateAnswer
	err := c.do(ctx, http.MethodPost, "ca/intermediate", nil, q, &out)
	return out, err
}
