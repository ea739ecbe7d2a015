package adminapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/authority"
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
	Now  bool   `json:"now,omitempty"` // the one before is believed no longer
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

// IntermediateRequest has an intermediate made: by itself, or in two steps where the root is kept elsewhere. With Prepare the
// answer is a request to sign; Certificates is what was signed.
type IntermediateRequest struct {
	Prepare      bool   `json:"prepare,omitempty"`
	Certificates string `json:"certificates,omitempty"` // PEM
}

// IntermediateAnswer holds the request (PEM) where that was asked for.
type IntermediateAnswer struct {
	Request     string `json:"request,omitempty"`
	TrustDomain string `json:"trust_domain"`
}

func (s *server) showCA(c *call) (any, error) {
	if _, err := c.query(); err != nil {
		return nil, err
	}
	o, err := s.Authority.Overview(c.r.Context())
	if err != nil {
		return nil, err
	}
	out := CA{TrustDomain: o.TrustDomain, TrustNumber: o.Number, IssuedAt: o.IssuedAt.UTC(), Intermediate: Intermediate(o.Intermediate)}
	for _, root := range o.Roots {
		out.Roots = append(out.Roots, Root(root))
	}
	for _, key := range o.Keys {
		out.Keys = append(out.Keys, Key(key))
	}
	return out, nil
}

func (s *server) rotateKey(c *call) (any, error) {
	var q RotateRequest
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	return trustChange(s.Authority.RotateKey(c.r.Context(), q.Role, q.Now, c.caller.actor))
}

func (s *server) dropKey(c *call) (any, error) {
	return trustChange(s.Authority.DropKey(c.r.Context(), c.r.PathValue("key"), c.caller.actor))
}

func (s *server) addRoot(c *call) (any, error) {
	var q RootRequest
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	return trustChange(s.Authority.AddRoot(c.r.Context(), q.Certificate, c.caller.actor))
}

func (s *server) dropRoot(c *call) (any, error) {
	return trustChange(s.Authority.DropRoot(c.r.Context(), c.r.PathValue("root"), c.caller.actor))
}

func trustChange(change authority.Change, err error) (any, error) {
	out := TrustChange{Number: change.Number, Published: change.Published}
	if !change.Published {
		out.Draft = change.Payload
	}
	return out, err
}

func (s *server) publishTrust(c *call) (any, error) {
	var q SignedSet
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	number, err := s.Authority.Publish(c.r.Context(), q.Set, c.caller.actor)
	return TrustChange{Number: number, Published: true}, err
}

func (s *server) intermediate(c *call) (any, error) {
	var q IntermediateRequest
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	answer := IntermediateAnswer{TrustDomain: s.Authority.TrustDomain()}
	var err error
	switch {
	case q.Prepare && q.Certificates != "":
		err = badRequest("a request is either prepared or answered", `send {"prepare":true}, then {"certificates":"PEM"}`)
	case q.Prepare:
		answer.Request, err = s.Authority.RequestIntermediate(c.r.Context())
	case q.Certificates != "":
		err = s.Authority.InstallIntermediate(c.r.Context(), q.Certificates, c.caller.actor)
	default:
		err = s.Authority.NewIntermediate(c.r.Context(), c.caller.actor)
	}
	if errors.Is(err, authority.ErrOffline) {
		err = wire.Refuse(wire.CodeBadRequest, "no root's key is in the gateway's database",
			"sign the intermediate where the root is kept: muster ca intermediate --root DIR")

	}
	return answer, err
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
