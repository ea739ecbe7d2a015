// Package trust has the shapes of the admin API that are about the CA, and about keys that nodes trust.
package trust

import (
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
	Now  bool   `json:"now,omitempty"` // nodes stop believing the previous key at once
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

// TrustChange answers what changes the trust set. If the trust key is kept elsewhere, Draft is the set to sign and to send to
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

// IntermediateRequest has an intermediate made. If the root is kept elsewhere it takes two steps: with Prepare the answer is a request
// to sign, and Certificates sends what was signed.
type IntermediateRequest struct {
	Prepare      bool   `json:"prepare,omitempty"`
	Certificates string `json:"certificates,omitempty"` // PEM
}

// IntermediateAnswer holds the request (PEM) if that was asked for.
type IntermediateAnswer struct {
	Request     string `json:"request,omitempty"`
	TrustDomain string `json:"trust_domain"`
}
