package adminapi

import (
	"net/http"

	"muster/gateway/internal/client"
)

// fleet guards what is the whole fleet's: no account of one tenant may see or touch it.
func (s *server) fleet(serve func(*call) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		if c.caller.tenant != "" {
			return nil, forbidden("this is the whole fleet's, and this account is for the tenant "+c.caller.tenant+" only",
				"use an account of all tenants; for a PSK, mint an enrollment token instead")
		}
		return serve(c)
	}
}

func (s *server) listPSKs(c *call) (any, error) {
	if _, err := c.query(); err != nil {
		return nil, err
	}
	psks, err := s.Bootstrap.PSKs(c.r.Context())
	answer := client.PSKList{PSKs: make([]client.PSK, 0, len(psks))}
	for _, k := range psks {
		answer.PSKs = append(answer.PSKs, client.PSK{ID: k.ID, CreatedAt: k.CreatedAt.UTC()})
	}
	return answer, err
}

func (s *server) setPSK(c *call) (any, error) {
	q, err := c.pskRequest()
	if err != nil {
		return nil, err
	}
	c.status = http.StatusCreated
	var answer client.NewPSK
	if q.Generate {
		answer.Secret, answer.ID, err = s.Bootstrap.GeneratePSK(c.r.Context(), c.caller.actor)
	} else {
		answer.ID, err = s.Bootstrap.SetPSK(c.r.Context(), q.Secret, c.caller.actor)
	}
	return answer, err
}

func (s *server) rotatePSK(c *call) (any, error) {
	q, err := c.pskRequest()
	if err != nil {
		return nil, err
	}
	secret, id, err := s.Bootstrap.RotatePSK(c.r.Context(), q.Secret, c.caller.actor)
	if !q.Generate {
		secret = ""
	}
	c.status = http.StatusCreated
	return client.NewPSK{ID: id, Secret: secret}, err
}

func (c *call) pskRequest() (client.PSKRequest, error) {
	var q client.PSKRequest
	if err := c.decode(&q); err != nil {
		return q, err
	}
	if q.Generate == (q.Secret != "") {
		return q, badRequest("a PSK is either generated or given", `send {"generate":true} or {"secret":"..."}`)
	}
	return q, nil
}

func (s *server) clearPSK(c *call) (any, error) {
	p, err := c.query("keep")
	if err != nil {
		return nil, err
	}
	if err := s.Bootstrap.ClearPSK(c.r.Context(), p.text("keep"), c.caller.actor); err != nil {
		return nil, err
	}
	return client.Done{ID: p.text("keep"), Status: "cleared"}, nil
}
