// Package provider has those routes of the admin API that are about companies which rent machines: accounts there, instances, leases,
// offers, rentals, limits and costs. They are rows of the API's table: package adminapi serves them like its own.
//
// The key of an account comes in a body only, and no answer has it. Where one path may both save and spend money, the row asks for the
// scope to look, and the handler asks for the scope of what the body says.
package provider

import (
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/adminapi/row"
)

// Call is one request that the gate let in.
type Call struct {
	Service
	*row.Call
}

// Table returns every route about providers. What makes the gateway call an address, and what bounds the money of others, is for accounts
// of all tenants.
func Table() []row.Row[Call] {
	read := account.Need{Scopes: []string{api.ScopeProvidersRead}, Reach: account.OwnTenant}
	spend := account.Need{Scopes: []string{api.ScopeProvidersSpend}, Reach: account.OwnTenant}
	readAll := account.Need{Scopes: read.Scopes, Reach: account.WholeFleet}
	writeAll := account.Need{Scopes: []string{api.ScopeProvidersWrite}, Reach: account.WholeFleet}
	return []row.Row[Call]{
		row.Of("GET", api.PathProviders, read, false, row.Asks(listProviders)),
		row.Of("POST", api.PathProviders, writeAll, true, row.Takes(addProvider)),
		row.Of("GET", api.PathProviderPlan, read, false, row.Asks(plan)),
		row.Of("GET", api.PathProvider, read, false, row.Plain(showProvider)),
		row.Of("DELETE", api.PathProvider, writeAll, false, row.Asks(removeProvider)),
		row.Of("POST", api.PathProviderSync, writeAll, true, row.Takes(syncProvider)),
		row.Of("PUT", api.PathProviderLimit, writeAll, true, row.Takes(limitProvider)),
		row.Of("GET", api.PathInstances, read, false, row.Plain(listInstances)),
		row.Of("GET", api.PathInstance, read, false, row.Plain(showInstance)),
		row.Of("POST", api.PathInstance, read, true, row.Takes(act)),
		row.Of("GET", api.PathLeases, read, false, row.Asks(listLeases)),
		row.Of("POST", api.PathLeases, read, true, row.Takes(setLease)),
		row.Of("GET", api.PathOffers, read, false, row.Asks(listOffers)),
		row.Of("GET", api.PathRentals, read, false, row.Asks(listRentals)),
		row.Of("POST", api.PathRentals, spend, true, row.Takes(ask)),
		row.Of("GET", api.PathRental, read, false, row.Plain(showRental)),
		row.Of("DELETE", api.PathRental, spend, false, row.Plain(giveUp)),
		row.Of("GET", api.PathCostReport, read, false, row.Asks(costs)),
		row.Of("GET", api.PathSpending, readAll, false, row.Plain(listSpending)),
		row.Of("PUT", api.PathTenantLimit, writeAll, true, row.Takes(limitTenant)),
	}
}
