package audit

import (
	"muster/gateway/api"
	"muster/store"
)

// Shown returns a line of the audit trail.
func Shown(e store.Event) api.Event {
	return api.Event{ID: e.ID, At: e.At.UTC(), Kind: e.Kind, Actor: e.Actor, NodeID: e.NodeID, Node: e.NodeName, Tenant: e.Tenant,
		Address: e.Address, Outcome: e.Outcome, Detail: api.Texts(e.Detail), Security: e.Security}
}
