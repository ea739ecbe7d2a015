package label

import (
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// Matches is true if all terms are true of the node. It says in memory what the store says in SQL.
func Matches(terms []store.Term, n *api.NodeRow) bool {
	for _, t := range terms {
		if !meets(n, t) {
			return false
		}
	}
	return true
}

// meets decides one term. A field of the node itself is there unless it is empty.
func meets(n *api.NodeRow, t store.Term) bool {
	var value string
	there := true
	switch t.Key {
	case "tenant":
		value = n.Tenant
	case "name":
		value = n.Name
	case "provider":
		value = n.Provider
	case "instance_id":
		value = n.InstanceID
	case "state":
		value = n.State
	case "status":
		value = n.Status
	default:
		value, there = n.Labels[t.Key]
	}
	reserved := wire.IsReserved(t.Key)
	switch t.Op {
	case store.OpEquals:
		return there && value == t.Value
	case store.OpNotEquals:
		return !there || value != t.Value
	case store.OpExists:
		return there && (value != "" || !reserved)
	case store.OpAbsent:
		return !there || value == "" && reserved
	}
	return false
}
