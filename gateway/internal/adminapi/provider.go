package adminapi

import (
	"net/http"

	rented "muster/gateway/internal/adminapi/provider"
)

// providerRoutes are the rows of package provider below this one.
func providerRoutes(body Body) []Route {
	var routes []Route
	for _, row := range rented.Table() {
		route := Route{row.Method, row.Path, row.Need, Body{}, func(_ *server, c *call) (any, error) { return c.provide(row) }}
		if row.Reads {
			route.Body = body
		}
		routes = append(routes, route)
	}
	return routes
}

func (c *call) provide(row rented.Row) (_ any, err error) {
	in := rented.Call{Service: c.server.Providers, Request: c.r, Caller: c.caller, Filter: c.ask,
		Created: func() { c.status = http.StatusCreated }}
	if row.Reads {
		if in.Body, err = c.body(); err != nil {
			return nil, err
		}
	}
	return row.Serve(in)
}
