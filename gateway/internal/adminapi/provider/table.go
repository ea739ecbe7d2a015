// Package provider has those routes of the admin API that are about companies which rent machines: accounts there, instances, leases,
// offers, rentals, limits and costs. They are rows of the API's table: package adminapi serves them like its own.
//
// The key of an account comes in a body only, and no answer has it. Where one path may both save and spend money, the row asks for the
// scope to look, and the handler asks for the scope of what the body says.
package provider

import (
	"net/http"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/adminapi/input"
	"muster/gateway/internal/secret"
)

// Row is one row of the API's table.
type Row struct {
	Method string
	Path   string
	Need   account.Need
	Reads  bool // a body
	Serve  func(Call) (any, error)
}

// Call is one request that the gate let in.
type Call struct {
	Service
	Request *http.Request
	Caller  account.Caller
	Body    []byte                 // of a row that reads one
	Filter  func(filter any) error // reads the parameters
	Created func()                 // the answer is about something new
}

// Table is every route about providers. What makes the gateway call an address, and what bounds the money of others, is for accounts of all
// tenants.
func Table() []Row {
	read := account.Need{Scopes: []string{api.ScopeProvidersRead}, Reach: account.OwnTenant}
	spend := account.Need{Scopes: []string{api.ScopeProvidersSpend}, Reach: account.OwnTenant}
	readAll := account.Need{Scopes: read.Scopes, Reach: account.WholeFleet}
	writeAll := account.Need{Scopes: []string{api.ScopeProvidersWrite}, Reach: account.WholeFleet}
	return []Row{
		{"GET", api.PathProviders, read, false, asks(listProviders)},
		{"POST", api.PathProviders, writeAll, true, takes(addProvider)},
		{"GET", api.PathProviderPlan, read, false, asks(plan)},
		{"GET", api.PathProvider, read, false, plain(showProvider)},
		{"DELETE", api.PathProvider, writeAll, false, plain(removeProvider)},
		{"POST", api.PathProviderSync, writeAll, true, takes(syncProvider)},
		{"PUT", api.PathProviderLimit, writeAll, true, takes(limitProvider)},
		{"GET", api.PathInstances, read, false, plain(listInstances)},
		{"GET", api.PathInstance, read, false, plain(showInstance)},
		{"POST", api.PathInstance, read, true, takes(act)},
		{"GET", api.PathLeases, read, false, asks(listLeases)},
		{"POST", api.PathLeases, read, true, takes(setLease)},
		{"GET", api.PathOffers, read, false, asks(listOffers)},
		{"GET", api.PathRentals, read, false, asks(listRentals)},
		{"POST", api.PathRentals, spend, true, takes(ask)},
		{"GET", api.PathRental, read, false, plain(showRental)},
		{"DELETE", api.PathRental, spend, false, plain(giveUp)},
		{"GET", api.PathCostReport, read, false, asks(costs)},
		{"GET", api.PathSpending, readAll, false, plain(listSpending)},
		{"PUT", api.PathTenantLimit, writeAll, true, takes(limitTenant)},
	}
}

// plain makes a handler for a route that takes no parameters, and reads its body itself if it has one.
func plain(handler func(Call) (any, error)) func(Call) (any, error) {
	return func(c Call) (any, error) {
		if err := c.Filter(&struct{}{}); err != nil {
			return nil, err
		}
		return handler(c)
	}
}

// asks makes a handler for a route whose parameters are a Filter.
func asks[Filter any](handler func(Call, Filter) (any, error)) func(Call) (any, error) {
	return func(c Call) (any, error) {
		var f Filter
		if err := c.Filter(&f); err != nil {
			return nil, err
		}
		return handler(c, f)
	}
}

// takes makes a handler for a route whose body is a Request. An empty body is a Request without values.
func takes[Request any](handler func(Call, Request) (any, error)) func(Call) (any, error) {
	return plain(func(c Call) (any, error) {
		var q Request
		if err := c.noToken(); err != nil {
			return nil, err
		}
		if err := input.Decode(c.Body, &q); err != nil {
			return nil, err
		}
		return handler(c, q)
	})
}

// noToken refuses a body with a token of this gateway in it: it would go to a company, or stand in a list.
func (c Call) noToken() error {
	if slices.ContainsFunc(secret.Texts(c.Body, 1), secret.HasToken) {
		return wire.Refuse(wire.CodeBadRequest, "the body holds a token of this gateway",
			"the key that is asked for is one of the company's: leave the token out, and revoke it: muster token revoke ID")
	}
	return nil
}

func (c Call) named(part string) string { return c.Request.PathValue(part) }
