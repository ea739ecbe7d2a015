package adminapi

import (
	"errors"

	"muster/agent/wire"
	"muster/gateway/api/trust"
	"muster/gateway/internal/authority"
)

// showCA answers for the CA and for the keys: nodes get both in one signed set.
func (c *call) showCA() (any, error) {
	return c.Authority.Overview(c.Context())
}

func (c *call) rotateKey(q trust.RotateRequest) (any, error) {
	return c.Authority.RotateKey(c.Context(), q.Role, q.Now, c.Caller.Actor)
}

// addKey adds a key whose private half never comes to the gateway.
func (c *call) addKey(q trust.AddKeyRequest) (any, error) {
	return c.Authority.AddKey(c.Context(), q.Role, q.PublicKey, c.Caller.Actor)
}

func (c *call) dropKey() (any, error) {
	return c.Authority.DropKey(c.Context(), c.Named("key"), c.Caller.Actor)
}

func (c *call) addRoot(q trust.RootRequest) (any, error) {
	return c.Authority.AddRoot(c.Context(), q.Certificate, c.Caller.Actor)
}

func (c *call) dropRoot() (any, error) {
	return c.Authority.DropRoot(c.Context(), c.Named("root"), c.Caller.Actor)
}

func (c *call) publishTrust(q trust.SignedSet) (any, error) {
	number, err := c.Authority.Publish(c.Context(), q.Set, c.Caller.Actor)
	return trust.TrustChange{Number: number, Published: true}, err
}

// intermediate changes the certificate that signs the nodes' certificates. If the root's key is kept elsewhere, that takes two calls:
// the first prepares a request, and the second brings the certificates that were made from it.
func (c *call) intermediate(q trust.IntermediateRequest) (any, error) {
	answer := trust.IntermediateAnswer{TrustDomain: c.Authority.TrustDomain()}
	var err error
	switch {
	case q.Prepare && q.Certificates != "":
		err = wire.Refuse(wire.CodeBadRequest, "a request is either prepared or answered", `send {"prepare":true}, then {"certificates":"PEM"}`)
	case q.Prepare:
		answer.Request, err = c.Authority.RequestIntermediate(c.Context())
	case q.Certificates != "":
		err = c.Authority.InstallIntermediate(c.Context(), q.Certificates, c.Caller.Actor)
	default:
		err = c.Authority.NewIntermediate(c.Context(), c.Caller.Actor)
	}
	if errors.Is(err, authority.ErrOffline) {
		err = wire.Refuse(wire.CodeBadRequest, "no root's key is in the gateway's database",
			"sign the intermediate where the root is kept: muster ca intermediate --root DIR")
	}
	return answer, err
}
