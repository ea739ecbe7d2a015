package adminapi

import (
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// listPSKs shows only ids. Nobody gets the keys that the gateway keeps.
func (c *call) listPSKs() (any, error) {
	psks, err := c.Bootstrap.PSKs(c.Context())
	return api.PSKList{PSKs: api.Each(psks, func(k store.PSK) api.PSK { return api.PSK{ID: k.ID, CreatedAt: k.CreatedAt.UTC()} })}, err
}

// setPSK makes a PSK the only live one. If the gateway generated it, the answer holds it. It is never shown again.
func (c *call) setPSK(q api.PSKRequest) (any, error) {
	if err := eitherPSK(q); err != nil {
		return nil, err
	}
	c.Created()
	var answer api.NewPSK
	var err error
	if q.Generate {
		answer.Secret, answer.ID, err = c.Bootstrap.GeneratePSK(c.Context(), c.Caller.Actor)
	} else {
		answer.ID, err = c.Bootstrap.SetPSK(c.Context(), q.Secret, c.Caller.Actor)
	}
	return answer, err
}

// rotatePSK adds a second live PSK, so that nodes may come with either until the older one is cleared.
func (c *call) rotatePSK(q api.PSKRequest) (any, error) {
	if err := eitherPSK(q); err != nil {
		return nil, err
	}
	c.Created()
	secret, id, err := c.Bootstrap.RotatePSK(c.Context(), q.Secret, c.Caller.Actor)
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
func (c *call) clearPSK(f api.PSKFilter) (any, error) {
	if err := c.Bootstrap.ClearPSK(c.Context(), f.Keep, c.Caller.Actor); err != nil {
		return nil, err
	}
	return api.Done{ID: f.Keep, Status: "cleared"}, nil
}
