package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/gateway/internal/console/picture"
)

// Slots is the page of slots.
type Slots struct {
	Filter   api.SlotFilter
	States   []string
	Filtered bool
	api.SlotList
}

// SlotsOf returns the page that the address asks for.
func SlotsOf(q *picture.Query) Slots {
	p := Slots{States: api.SlotStates(), Filter: api.SlotFilter{Selector: q.Asked("selector"), Node: q.Asked("node"), State: q.Asked("state"),
		SKU: q.Asked("sku"), Tenant: q.Asked("tenant"), Cursor: q.Asked("cursor"), Limit: 200}}
	f := p.Filter
	p.Filtered = f.Selector+f.Node+f.State+f.SKU+f.Tenant != ""
	return p
}

// Fill gets the slots that the filter picks.
func (p *Slots) Fill(ctx context.Context, c *client.Client) (err error) {
	p.SlotList, err = client.Get[api.SlotList](ctx, c, api.PathSlots, p.Filter)
	return err
}

// CheckDecision refuses a decision that a form must not send.
func CheckDecision(q api.SlotDecision, verb string) error {
	switch {
	case verb != "approve" && verb != "disable":
		return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("slots cannot be changed by %.40q", verb), "approve or disable them")
	case len(q.Slots) == 0 && q.Node == "" && q.Selector == "":
		return wire.Refuse(wire.CodeBadRequest, "no slot is selected", "select slots in the first column, or by the key x")
	}
	return nil
}

// IDs returns the ids of slots.
func IDs(slots []api.Slot) []string {
	var ids []string
	for _, s := range slots {
		ids = append(ids, s.ID)
	}
	return ids
}

// DecisionSays returns what a decision about slots would do, in sentences, as far as a dry run has found it out.
func DecisionSays(q api.SlotDecision, would api.SlotsDecided) []string {
	var nodes, others []string
	gpus := 0
	for _, s := range would.Slots {
		gpus += len(s.Units)
		if !slices.Contains(nodes, s.Node) {
			nodes = append(nodes, s.Node)
		}
		if s.Allocation != "" && !slices.Contains(others, s.Allocation) {
			others = append(others, s.Allocation)
		}
	}
	says := []string{fmt.Sprintf("On %s, %s together.", strings.Join(nodes, ", "), Count(gpus, "GPU"))}
	if same := len(would.Slots) - would.Changed; same > 0 {
		says = append(says, fmt.Sprintf("Already %s: %d of them.", stands(q), same))
	}
	if !q.Disable {
		return append(says, "An approved slot can be allocated, as long as the evidence of its node is the one that is approved.",
			"When the machine changes, the approval waits for a person again.")
	}
	says = append(says, "A disabled slot takes no new allocation, until somebody approves it.")
	if len(others) > 0 {
		says = append(says, "Who has GPUs of them keeps them until the end: "+strings.Join(others, ", ")+".")
	}
	return says
}

func stands(q api.SlotDecision) string {
	if q.Disable {
		return "disabled"
	}
	return "approved"
}
