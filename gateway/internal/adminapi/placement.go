package adminapi

import (
	"net/http"

	places "muster/gateway/internal/adminapi/placement"
)

// placementRoutes are the rows of package placement below this one.
func placementRoutes(body Body) []Route {
	var routes []Route
	for _, row := range places.Table() {
		route := Route{row.Method, row.Path, row.Need, Body{}, func(_ *server, c *call) (any, error) { return c.place(row) }}
		if row.Reads {
			route.Body = body
		}
		routes = append(routes, route)
	}
	return routes
}

func (c *call) place(row places.Row) (_ any, err error) {
	in := places.Call{Service: c.server.Placement, Request: c.r, Caller: c.caller, Filter: c.ask,
		Created: func() { c.status = http.StatusCreated }}
	if row.Reads {
		if in.Body, err = c.body(); err != nil {
			return nil, err
		}
	}
	return row.Serve(in)
}
