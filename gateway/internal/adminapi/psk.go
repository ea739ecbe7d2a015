package adminapi

import (
	"net/http"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// listPSKs shows only ids. Nobody gets the keys that the gateway keeps.
func (s *server) listPSKs(c *call) (any, error) {
	psks, err := s.Bootstrap.PSKs(c.r.Context())
	return api.PSKList{PSKs: api.Each(psks, func(k store.PSK) api.PSK { return api.PSK{ID: k.ID, CreatedAt: k.CreatedAt.UTC()} })}, err
}

// setPSK makes a PSK the only live one. If the gateway generated it, the answer holds it. It is never shown again.
func (s *server) setPSK(c *call, q api.PSKRequest) (any, error) {
	if err := eitherPSK(q); err != nil {
		return nil, err
	}
	c.status = http.StatusCreated
	var answer api.NewPSK
	var err error
	if q.Generate {
		answer.Secret, answer.ID, err = s.Bootstrap.GeneratePSK(c.r.Context(), c.caller.Actor)
	} else {
		answer.ID, err = s.Bootstrap.SetPSK(c.r.Context(), q.Secret, c.caller.Actor)
	}
	return answer, err
}

// rotatePSK adds a second live PSK, so that nodes may come with either until the older one is cleared.
func (s *server) rotatePSK(c *call, q api.PSKRequest) (any, error) {
	if err := eitherPSK(q); err != nil {
		return nil, err
	}
	c.status = http.StatusCreated
	secret, id, err := s.Bootstrap.RotatePSK(c.r.Context(), q.Secret, c.caller.Actor)
	if !q.Generate {
		secret = "" // the caller has it
	}
	return api.NewPSK{ID: id, Secret: secret}, err
}

// eitherPSK refuses a request that both gives a PSK and asks for one, or does neither.
func eitherPSK(q api.PSKRequest) error {
	if q.Generate == (q.Secret != "") {
		return wire.Refuse(wire.CodeBadRequest, "a PSK is either generated or given", `send {"generate":true} or {"secret":"..."}`)
	}
	return nil
}

// clearPSK ends all PSKs, or all but the one to keep.
func (s *server) clearPSK(c *call, f api.PSKFilter) (any, error) {
	if err := s.Bootstrap.ClearPSK(c.r.Context(), f.Keep, c.caller.Actor); err != nil {
		return nil, err
	}
	return api.Done{ID: f.Keep, Status: "cleared"}, nil
}
