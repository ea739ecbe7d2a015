package placement

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/gateway/internal/console/picture"
)

// Node is what the page of a node says of its place in the capacity.
type Node struct {
	api.NodeEvidence
	Capacity picture.Mark
	Reasons  []string
	Figures  []Figure
	Unseen   []api.GPUHold // GPUs that somebody has, and that the machine's own driver does not show
	Failed   int           // checks that are not ok
}

// Figure is a number that a check measured, beside those of the other nodes of its kind.
type Figure struct{ Name, Value, Median, Of string }

// NodeOf asks for the evidence of a node. gpus are those that its page has rows for.
func NodeOf(ctx context.Context, c *client.Client, n *api.NodeDetail, gpus []picture.GPU) (*Node, error) {
	var err error
	p := &Node{Capacity: picture.CapacityOf("")}
	if p.NodeEvidence, err = client.Get[api.NodeEvidence](ctx, c, api.At(api.PathCheck, n.ID), nil); err != nil {
		return nil, err
	}
	for _, f := range p.NodeEvidence.Figures {
		p.Figures = append(p.Figures, figureOf(f))
	}
	if e := p.Evidence; e != nil {
		for _, check := range e.Checks {
			if check.State != wire.CheckOK {
				p.Failed++
			}
		}
	}
	if n.Placement == nil {
		return p, nil
	}
	p.Capacity, p.Reasons = picture.CapacityOf(n.Placement.Capacity), n.Placement.Reasons
	for _, h := range n.Placement.Holds {
		if !slices.ContainsFunc(gpus, func(g picture.GPU) bool { return g.Has(h.GPU) }) {
			p.Unseen = append(p.Unseen, h)
		}
	}
	return p, nil
}

func figureOf(f api.FigureBeside) Figure {
	text := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) + " " + f.Unit }
	out := Figure{Name: f.Name, Value: text(f.Value), Median: picture.Unknown, Of: "it is alone of its kind"}
	if f.Median != nil {
		out.Median, out.Of = text(*f.Median), fmt.Sprintf("of %d nodes", f.Of)
	}
	return out
}
