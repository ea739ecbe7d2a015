package adminapi

import (
	"errors"

	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/client"
)

func (s *server) showCA(c *call) (any, error) {
	if _, err := c.query(); err != nil {
		return nil, err
	}
	o, err := s.Authority.Overview(c.r.Context())
	if err != nil {
		return nil, err
	}
	out := client.CA{TrustDomain: o.TrustDomain, TrustNumber: o.Number, IssuedAt: o.IssuedAt.UTC(), Intermediate: client.Intermediate(o.Intermediate)}
	for _, root := range o.Roots {
		out.Roots = append(out.Roots, client.Root(root))
	}
	for _, key := range o.Keys {
		out.Keys = append(out.Keys, client.Key(key))
	}
	return out, nil
}

func (s *server) rotateKey(c *call) (any, error) {
	var q client.RotateRequest
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	return trustChange(s.Authority.RotateKey(c.r.Context(), q.Role, q.Now, c.caller.actor))
}

func (s *server) dropKey(c *call) (any, error) {
	return trustChange(s.Authority.DropKey(c.r.Context(), c.r.PathValue("key"), c.caller.actor))
}

func (s *server) addRoot(c *call) (any, error) {
	var q client.RootRequest
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	return trustChange(s.Authority.AddRoot(c.r.Context(), q.Certificate, c.caller.actor))
}

func (s *server) dropRoot(c *call) (any, error) {
	return trustChange(s.Authority.DropRoot(c.r.Context(), c.r.PathValue("root"), c.caller.actor))
}

func trustChange(change authority.Change, err error) (any, error) {
	out := client.TrustChange{Number: change.Number, Published: change.Published}
	if !change.Published {
		out.Draft = change.Payload
	}
	return out, err
}

func (s *server) publishTrust(c *call) (any, error) {
	var q client.SignedSet
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	number, err := s.Authority.Publish(c.r.Context(), q.Set, c.caller.actor)
	return client.TrustChange{Number: number, Published: true}, err
}

func (s *server) intermediate(c *call) (any, error) {
	var q client.IntermediateRequest
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	answer := client.IntermediateAnswer{TrustDomain: s.Authority.TrustDomain()}
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
