package metrics

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/label"
	"muster/gateway/internal/view"
)

// query reads the parameters of a route. It refuses one that the route does not know, and one that is there twice.
func (c *call) query(known ...string) (url.Values, error) {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, wire.Refuse(wire.CodeBadRequest, "the query string is malformed", "encode it as application/x-www-form-urlencoded")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, name) || len(values[name]) > 1 {
			return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the parameter %.60q is unknown here, or stands more than once", name),
				cmp.Or(strings.Join(known, ", "), "none")+" can stand there")
		}
	}
	return values, nil
}

// pick reads which nodes the caller wants.
func (c *call) pick(more ...string) (q view.Query, err error) {
	values, err := c.query(append([]string{"selector", "tenant"}, more...)...)
	if err != nil {
		return q, err
	}
	if q.Tenant, err = c.caller.Within(values.Get("tenant")); err != nil {
		return q, err
	}
	if q.Terms, err = label.ParseSelector(values.Get("selector")); err != nil {
		return q, err
	}
	return q, label.CheckSelector("", "", q.Terms)
}

// detailParameter says whether an answer has the details of GPUs, which are most of it: yes (the default) or no.
const detailParameter = "detail"

func (c *call) gpuFamilies() ([]gpuFamily, error) {
	switch asked := c.r.URL.Query().Get(detailParameter); asked {
	case "", "yes":
		return append(gpuFamilies(), detailFamilies()...), nil
	case "no":
		return gpuFamilies(), nil
	default:
		return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%s=%.20q: not known", detailParameter, asked), "write yes or no")
	}
}
