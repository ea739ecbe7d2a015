package adminapi

import (
	"muster/gateway/api"
	"muster/store"
)

// listTenants shows a caller of one tenant that tenant alone.
func (c *call) listTenants() (any, error) {
	tenants, err := c.Store.Tenants(c.Context(), c.Caller.Tenant, c.now())
	return api.TenantList{Tenants: api.Each(tenants, func(t store.Tenant) api.Tenant {
		return api.Tenant{Tenant: t.Name, Nodes: t.Nodes, Retired: t.Retired, Accounts: t.Accounts, Tokens: t.Tokens}
	})}, err
}
