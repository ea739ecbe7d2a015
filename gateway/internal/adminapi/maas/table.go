// Package maas has those routes of the admin API that are about the machines of MAAS. They are rows of the API's table: package adminapi
// serves them like its own.
//
// MAAS belongs to the gateway and not to a tenant, and so do its machines: all routes are for accounts of all tenants.
package maas

import (
	"net/http"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/account"
	"muster/gateway/internal/adminapi/input"
	"muster/gateway/internal/maas"
)

// Service is what the routes ask.
type Service = *maas.Service

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
	Service Service // nil: MAAS is off
	Request *http.Request
	Caller  account.Caller
	Body    []byte                 // of a row that reads one
	Filter  func(filter any) error // reads the parameters
}

// Table is every route about MAAS.
func Table() []Row {
	read := account.Need{Scopes: []string{api.ScopeNodesRead}, Reach: account.WholeFleet}
	write := account.Need{Scopes: []string{api.ScopeMAASWrite}, Reach: account.WholeFleet}
	return []Row{
		{"GET", api.PathMachines, read, false, where(list)},
		{"POST", api.PathMachines, write, true, where(act)},
		{"GET", api.PathMachine, read, false, where(show)},
		{"GET", api.PathMAASPlan, read, false, where(plan)},
	}
}

// where makes a handler that refuses where MAAS is off, and parameters.
func where(handler func(Call) (any, error)) func(Call) (any, error) {
	return func(c Call) (any, error) {
		if err := c.Filter(&struct{}{}); err != nil {
			return nil, err
		}
		if c.Service == nil || !c.Service.State().Enabled {
			return nil, wire.Refuse(wire.CodeUnavailable, "MAAS is off on this gateway",
				"muster serve --maas-url URL --maas-key-file FILE switches it on: muster help maas")
		}
		return handler(c)
	}
}

func list(c Call) (any, error) { return c.Service.Machines(c.Request.Context()) }

func show(c Call) (any, error) {
	return c.Service.Machine(c.Request.Context(), c.Request.PathValue("machine"))
}

func act(c Call) (any, error) {
	var q machines.Act
	if err := input.Decode(c.Body, &q); err != nil {
		return nil, err
	}
	return c.Service.Act(c.Request.Context(), q, c.Caller.Actor)
}

func plan(c Call) (any, error) { return c.Service.Plan(c.Request.Context()) }
