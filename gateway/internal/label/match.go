package label

import (
	"slices"
	"strconv"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Matches reports whether all terms are true of the node.
func Matches(terms []Term, n *api.NodeRow) bool {
	for _, t := range terms {
		if !meets(n, t) {
			return false
		}
	}
	return true
}

// meets decides one term. A field of the node itself is there unless it is empty.
func meets(n *api.NodeRow, t Term) bool {
	if t.Key == "tag" {
		return tagged(n, t)
	}
	value, there := valueOf(n, t.Key)
	reserved := wire.IsReserved(t.Key)
	switch t.Op {
	case OpEquals:
		return there && value == t.Value
	case OpNotEquals:
		return !there || value != t.Value
	case OpExists:
		return there && (value != "" || !reserved)
	case OpAbsent:
		return !there || value == "" && reserved
	}
	number, known := Number(value)
	bound, _ := Number(t.Value)
	return there && known && compares(number, t.Op, bound)
}

// tagged decides a term of hardware tags, of which a node has several.
func tagged(n *api.NodeRow, t Term) bool {
	var tags []string
	if n.Placement != nil {
		tags = n.Placement.Tags
	}
	return slices.Contains(tags, t.Value) == (t.Op == OpEquals) // only = and != are asked of it
}

func valueOf(n *api.NodeRow, key string) (value string, there bool) {
	switch key {
	case "tenant":
		return n.Tenant, true
	case "name":
		return n.Name, true
	case "provider":
		return n.Provider, true
	case "instance_id":
		return n.InstanceID, true
	case "state":
		return n.State, true
	case "status":
		return n.Status, true
	case "gpus":
		if count := n.GPUCount(); count != nil {
			value = strconv.Itoa(*count)
		}
		return value, true
	}
	value, there = n.Labels[key]
	return value, there
}

func compares(number float64, op string, bound float64) bool {
	switch op {
	case OpLess:
		return number < bound
	case OpAtMost:
		return number <= bound
	case OpMore:
		return number > bound
	case OpAtLeast:
		return number >= bound
	}
	return false
}
