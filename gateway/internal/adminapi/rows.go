package adminapi

import (
	"net/http"

	bare "muster/gateway/internal/adminapi/maas"
	places "muster/gateway/internal/adminapi/placement"
	rented "muster/gateway/internal/adminapi/provider"
	"muster/gateway/internal/adminapi/row"
)

// moreRoutes are the rows of the packages below this one.
func moreRoutes(body Body) []Route {
	routes := routesOf(places.Table(), body, func(s *server, c row.Call) places.Call { return places.Call{Service: s.Placement, Call: c} })
	routes = append(routes, routesOf(rented.Table(), body, func(s *server, c row.Call) rented.Call {
		return rented.Call{Service: s.Providers, Call: c}
	})...)
	return append(routes, routesOf(bare.Table(), body, func(s *server, c row.Call) bare.Call {
		return bare.Call{Service: s.MAAS, Call: c}
	})...)
}

// routesOf makes routes of a package's rows. with gives a call its service.
func routesOf[C any](table []row.Row[C], body Body, with func(*server, row.Call) C) (routes []Route) {
	for _, r := range table {
		route := Route{r.Method, r.Path, r.Need, Body{}, func(s *server, c *call) (_ any, err error) {
			in := row.Call{Request: c.r, Caller: c.caller, Read: c.ask, Created: func() { c.status = http.StatusCreated }}
			if r.Reads {
				if in.Body, err = c.body(); err != nil {
					return nil, err
				}
			}
			return r.Serve(with(s, in))
		}}
		if r.Reads {
			route.Body = body
		}
		routes = append(routes, route)
	}
	return routes
}
