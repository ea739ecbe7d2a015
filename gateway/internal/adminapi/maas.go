package adminapi

import bare "muster/gateway/internal/adminapi/maas"

// maasRoutes are the rows of package maas below this one.
func maasRoutes(body Body) []Route {
	var routes []Route
	for _, row := range bare.Table() {
		route := Route{row.Method, row.Path, row.Need, Body{}, func(_ *server, c *call) (any, error) { return c.metal(row) }}
		if row.Reads {
			route.Body = body
		}
		routes = append(routes, route)
	}
	return routes
}

func (c *call) metal(row bare.Row) (_ any, err error) {
	in := bare.Call{Service: c.server.MAAS, Request: c.r, Caller: c.caller, Filter: c.ask}
	if row.Reads {
		if in.Body, err = c.body(); err != nil {
			return nil, err
		}
	}
	return row.Serve(in)
}
