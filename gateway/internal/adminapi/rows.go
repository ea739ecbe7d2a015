package adminapi

import (
	"slices"

	bare "muster/gateway/internal/adminapi/maas"
	places "muster/gateway/internal/adminapi/placement"
	rented "muster/gateway/internal/adminapi/provider"
	"muster/gateway/internal/adminapi/row"
)

// moreRoutes are the rows of the packages below this one.
func moreRoutes(body Body) []Route {
	return slices.Concat(
		routesOf(places.Table(), body, func(c *call) places.Call { return places.Call{Service: c.Placement, Call: c.Call} }),
		routesOf(rented.Table(), body, func(c *call) rented.Call { return rented.Call{Service: c.Providers, Call: c.Call} }),
		routesOf(bare.Table(), body, func(c *call) bare.Call { return bare.Call{Service: c.MAAS, Call: c.Call} }))
}

// routesOf makes routes of a package's rows. of gives a call its service.
func routesOf[C any](table []row.Row[C], body Body, of func(*call) C) (routes []Route) {
	for _, r := range table {
		route := Route{r.Method, r.Path, r.Need, Body{}, func(c *call) (any, error) { return r.Serve(of(c)) }}
		if r.Reads {
			route.Body = body
		}
		routes = append(routes, route)
	}
	return routes
}
