package metrics

import (
	"fmt"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/adminapi/input"
	"muster/gateway/internal/label"
	"muster/gateway/internal/view"
)

// picked says which nodes the caller wants.
type picked struct {
	Selector string `json:"selector"`
	Tenant   string `json:"tenant"`
}

// rows are the nodes that the caller wants, with a place among the answers until leave is called. A part of the fleet is not shown as if
// it were the whole.
func (s *server) rows(c *call, p picked) (rows []*api.NodeRow, leave func(), err error) {
	q := view.Query{Tenant: p.Tenant}
	if q.Terms, err = label.ParseSelector(p.Selector); err == nil {
		err = label.CheckSelector("", "", q.Terms)
	}
	if err == nil && !s.Ready() {
		err = wire.Refuse(wire.CodeUnavailable, "the gateway has just started, and still reads its nodes", "ask again in a few seconds")
	}
	if err == nil {
		leave, err = s.Room.enter(holder(c.caller))
	}
	if err != nil {
		return nil, nil, err
	}
	return s.Rows(q), leave, nil
}

// ask reads the parameters into a filter.
func (s *server) ask(c *call, filter any) error {
	return input.Filter(c.r.URL, filter, c.caller.Within, s.Now())
}

// figuresOf are those of GPUs, with the details, which are most of an answer, unless the caller does not want them.
func figuresOf(detail string) ([]figure[*gpu], error) {
	switch detail {
	case "", "yes":
		return append(gpuFamilies(), detailFamilies()...), nil
	case "no":
		return gpuFamilies(), nil
	}
	return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("detail=%.20q: not known", detail), "write yes or no")
}
