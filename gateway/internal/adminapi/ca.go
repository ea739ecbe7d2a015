package adminapi

import (
	"errors"

	"muster/agent/wire"
	"muster/gateway/api/trust"
	"muster/gateway/internal/authority"
)

// showCA answers for the CA and for the keys: nodes get both in one signed set.
func (s *server) showCA(c *call) (any, error) {
	return s.Authority.Overview(c.r.Context())
}

func (s *server) rotateKey(c *call, q trust.RotateRequest) (any, error) {
	return s.Authority.RotateKey(c.r.Context(), q.Role, q.Now, c.caller.Actor)
}

// addKey adds a key whose private half never comes to the gateway.
func (s *server) addKey(c *call, q trust.AddKeyRequest) (any, error) {
	return s.Authority.AddKey(c.r.Context(), q.Role, q.PublicKey, c.caller.Actor)
}

func (s *server) dropKey(c *call) (any, error) {
	return s.Authority.DropKey(c.r.Context(), c.r.PathValue("key"), c.caller.Actor)
}

func (s *server) addRoot(c *call, q trust.RootRequest) (any, error) {
	return s.Authority.AddRoot(c.r.Context(), q.Certificate, c.caller.Actor)
}

func (s *server) dropRoot(c *call) (any, error) {
	return s.Authority.DropRoot(c.r.Context(), c.r.PathValue("root"), c.caller.Actor)
}

func (s *server) publishTrust(c *call, q trust.SignedSet) (any, error) {
	number, err := s.Authority.Publish(c.r.Context(), q.Set, c.caller.Actor)
	return trust.TrustChange{Number: number, Published: true}, err
}

// intermediate changes the certificate that signs the nodes' certificates. If the root's key is kept elsewhere, that takes two calls:
// the first prepares a request, and the second brings the certificates that were made from it.
func (s *server) intermediate(c *call, q trust.IntermediateRequest) (any, error) {
	answer := trust.IntermediateAnswer{TrustDomain: s.Authority.TrustDomain()}
	var err error
	switch {
	case q.Prepare && q.Certificates != "":
		err = wire.Refuse(wire.CodeBadRequest, "a request is either prepared or answered", `send {"prepare":true}, then {"certificates":"PEM"}`)
	case q.Prepare:
		answer.Request, err = s.Authority.RequestIntermediate(c.r.Context())
	case q.Certificates != "":
		err = s.Authority.InstallIntermediate(c.r.Context(), q.Certificates, c.caller.Actor)
	default:
		err = s.Authority.NewIntermediate(c.r.Context(), c.caller.Actor)
	}
	if errors.Is(err, authority.ErrOffline) {
		err = wire.Refuse(wire.CodeBadRequest, "no root's key is in the gateway's database",
			"sign the intermediate where the root is kept: muster ca intermediate --root DIR")
	}
	return answer, err
}
