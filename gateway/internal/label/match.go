package label

import (
	"muster/agent/wire"
	"muster/store"
)

// Subject is what a selector asks of a node.
type Subject struct {
	Tenant, Name, Provider, InstanceID, State, Status string

	Labels map[string]string
}

// Matches is true where all terms are true of the node. It says in memory what the store says in SQL.
func Matches(terms []store.Term, s *Subject) bool {
	for _, t := range terms {
		if !s.meets(t) {
			return false
		}
	}
	return true
}

// meets decides one term. A field of the node itself is there unless it is empty.
func (s *Subject) meets(t store.Term) bool {
	var value string
	there := true
	switch t.Key {
	case "tenant":
		value = s.Tenant
	case "name":
		value = s.Name
	case "provider":
		value = s.Provider
	case "instance_id":
		value = s.InstanceID
	case "state":
		value = s.State
	case "status":
		value = s.Status
	default:
		value, there = s.Labels[t.Key]
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
