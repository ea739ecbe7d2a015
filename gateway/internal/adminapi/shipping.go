package adminapi

import (
	"muster/gateway/api"
)

func (s *server) listShippings(_ *call, f ofTenant) (any, error) {
	return api.LogShippingList{Shippings: s.Shipping.Rules(f.Tenant)}, nil
}

func (s *server) setShipping(c *call, q api.LogShippingRequest) (any, error) {
	tenant, err := c.caller.Within(q.Tenant)
	if err != nil {
		return nil, err
	}
	if err := noToken("", map[string]string{"selector": q.Selector, "to": q.To, "tenant_id": q.TenantID}); err != nil {
		return nil, err
	}
	name := c.r.PathValue("shipping")
	q.Tenant = tenant
	err = s.Shipping.Put(c.r.Context(), name, q, c.caller.Tenant, c.caller.Actor)
	if err != nil {
		return nil, err
	}
	out := api.LogShipping{Name: name}
	for _, r := range s.Shipping.Rules(tenant) {
		if r.Name == name {
			out = r
		}
	}
	return out, nil
}

func (s *server) dropShipping(c *call) (any, error) {
	name := c.r.PathValue("shipping")
	return api.Done{ID: name, Status: "deleted"}, s.Shipping.Drop(c.r.Context(), name, c.caller.Tenant, c.caller.Actor)
}

func (s *server) testShipping(c *call, _ struct{}) (any, error) {
	return s.Shipping.Test(c.r.Context(), c.r.PathValue("shipping"), c.caller.Tenant, c.caller.Actor)
}
