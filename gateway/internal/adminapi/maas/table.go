// Package maas has those routes of the admin API that are about the machines of MAAS. They are rows of the API's table: package adminapi
// serves them like its own.
//
// MAAS belongs to the gateway and not to a tenant, and so do its machines: all routes are for accounts of all tenants.
package maas

import (
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/account"
	"muster/gateway/internal/adminapi/row"
	"muster/gateway/internal/maas"
)

// Service is what the routes ask.
type Service = *maas.Service

// Call is one request that the gate let in.
type Call struct {
	Service Service // nil: MAAS is off
	*row.Call
}

// Table returns every route about MAAS.
func Table() []row.Row[Call] {
	read := account.Need{Scopes: []string{api.ScopeNodesRead}, Reach: account.WholeFleet}
	write := account.Need{Scopes: []string{api.ScopeMAASWrite}, Reach: account.WholeFleet}
	return []row.Row[Call]{
		row.Of("GET", api.PathMachines, read, false, where(list)),
		row.Of("POST", api.PathMachines, write, true, where(act)),
		row.Of("GET", api.PathMachine, read, false, where(show)),
		row.Of("GET", api.PathMAASPlan, read, false, where(plan)),
		row.Of("POST", api.PathMAASSync, write, true, where(sync)),
	}
}

// where makes a handler that refuses where MAAS is off, and parameters.
func where(handler func(Call) (any, error)) func(Call) (any, error) {
	return row.Plain(func(c Call) (any, error) {
		if c.Service == nil || !c.Service.State().Enabled {
			return nil, wire.Refuse(wire.CodeUnavailable, "MAAS is off on this gateway",
				"muster serve --maas-url URL --maas-key-file FILE switches it on: muster help maas")
		}
		return handler(c)
	})
}

func list(c Call) (any, error) { return c.Service.Machines(c.Context()) }

func show(c Call) (any, error) {
	return c.Service.Machine(c.Context(), c.Named("machine"))
}

func act(c Call) (any, error) {
	var q machines.Act
	if err := c.Decode(&q); err != nil {
		return nil, err
	}
	return c.Service.Act(c.Context(), q, c.Caller.Actor)
}

func plan(c Call) (any, error) { return c.Service.Plan(c.Context()) }

// sync takes no body: an empty one is none.
func sync(c Call) (any, error) {
	if err := c.Decode(&struct{}{}); err != nil {
		return nil, err
	}
	return c.Service.Sync(c.Context()), nil
}
