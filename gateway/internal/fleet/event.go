package fleet

import "muster/store"

// about is the node that an event is about.
type about struct{ id, name, tenant string }

func aboutNode(n store.Node) about { return about{n.ID, n.Name, n.Tenant} }

func (id *Identity) about() about { return about{id.NodeID, id.Name, id.Tenant} }

// event makes an event of this moment with the outcome ok.
func (f *Fleet) event(kind string, node about, by store.Actor, detail map[string]string) store.Event {
	return store.Event{
		At: f.now(), Kind: kind, NodeID: node.id, NodeName: node.name, Tenant: node.tenant, Actor: by.Name, Address: by.Address,
		Outcome: store.OutcomeOK, Detail: detail,
	}
}

// audited is an event for the auditor.
func (f *Fleet) audited(kind string, node about, by store.Actor, detail map[string]string) store.Event {
	e := f.event(kind, node, by, detail)
	e.Security = true
	return e
}

// itself is the actor for what a node does itself. The address is empty if it is not known.
func itself(nodeID, address string) store.Actor {
	return store.Actor{Name: "node:" + nodeID, Address: address}
}
