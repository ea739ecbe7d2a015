package adminapi

import (
	"muster/gateway/api"
)

func (c *call) listShippings(f ofTenant) (any, error) {
	return api.LogShippingList{Shippings: c.Shipping.Rules(f.Tenant)}, nil
}

func (c *call) setShipping(q api.LogShippingRequest) (any, error) {
	tenant, err := c.Caller.Within(q.Tenant)
	if err != nil {
		return nil, err
	}
	if err := noToken("", map[string]string{"selector": q.Selector, "to": q.To, "tenant_id": q.TenantID}); err != nil {
		return nil, err
	}
	name := c.Named("shipping")
	q.Tenant = tenant
	err = c.Shipping.Put(c.Context(), name, q, c.Caller.Tenant, c.Caller.Actor)
	if err != nil {
		return nil, err
	}
	out := api.LogShipping{Name: name}
	for _, r := range c.Shipping.Rules(tenant) {
		if r.Name == name {
			out = r
		}
	}
	return out, nil
}

func (c *call) dropShipping() (any, error) {
	name := c.Named("shipping")
	return api.Done{ID: name, Status: "deleted"}, c.Shipping.Drop(c.Context(), name, c.Caller.Tenant, c.Caller.Actor)
}

func (c *call) testShipping(_ struct{}) (any, error) {
	return c.Shipping.Test(c.Context(), c.Named("shipping"), c.Caller.Tenant, c.Caller.Actor)
}
