// Package reconcile compares the fleet with what companies charge. It knows no database, no clock and no company: it is given everything,
// and says what is wrong. If something is not known, the only finding is that it is not known.
package reconcile

import (
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	rentals "muster/store/provider"
)

// Account is an account whose instances are compared with the fleet.
type Account struct {
	Name   string
	Kind   string
	Tenant string
	Known  bool       // its view is of now
	At     *time.Time // of the view; nil: there never was one
	Starts bool       // it was not asked yet: that it has no view of now is nothing to tell
	Error  string     // why there is no newer one
	Seen   []*market.Seen
}

// Machine is what a company and the fleet know of one machine.
type Machine struct {
	Account string
	ID      string         // of the instance
	Seen    *market.Seen   // nil: no company has it
	Node    *api.NodeRow   // nil: no node says that it is this
	Lease   *rentals.Lease // that has not ended; nil: none
	Unsure  bool           // no company has it, as far as that is known
	Gone    *time.Time     // since when the account is known to have it no longer, by its view of now; nil: that is not known
	Foreign bool           // another gateway has rented it: nothing of it is this fleet's to judge
	Rental  string         // by which this gateway has rented it, where it has no lease or no node
}

// Tenant returns the tenant of a machine.
func (m *Machine) Tenant() string {
	if m.Seen != nil {
		return m.Seen.Tenant
	}
	return m.Node.Tenant
}

// InstanceID returns the id of an instance as its company has it. Nodes of vast.ai may say C.123 for 123.
func InstanceID(kind, said string) string {
	if kind == cloud.Vast {
		return strings.TrimPrefix(said, "C.")
	}
	return said
}

func keyOf(kind, instance string) string { return kind + "/" + InstanceID(kind, instance) }

// Join makes the machines of accounts, in their order. nodes are all nodes, the retired too. If two accounts show a machine, it belongs to
// the first. A node whose kind of company has no account is no machine. A node that no account shows is unsure, unless all accounts of its
// kind have an up-to-date view.
func Join(accounts []Account, nodes []*api.NodeRow, leases []rentals.Lease) []Machine {
	j := newJoin(nodes, leases)
	var all []Machine
	shown := map[string]bool{}
	for _, a := range accounts {
		for _, s := range a.Seen {
			key := keyOf(a.Kind, s.ID)
			if !shown[key] {
				shown[key] = true
				l := j.leases[[2]string{a.Name, s.ID}]
				all = append(all, Machine{Account: a.Name, ID: s.ID, Seen: s, Node: j.nodeOf(key, s, l), Lease: l})
			}
		}
	}
	for _, n := range nodes {
		a, isSure := holder(accounts, n)
		if n.State == wire.StateRetired || a == nil {
			continue
		}
		account, id := a.Name, InstanceID(n.Provider, n.InstanceID)
		key := keyOf(n.Provider, id)
		if l := j.ofNode[n.ID]; id == "" && l != nil {
			account, id, key = l.Account, l.Instance, keyOf(n.Provider, l.Instance)
		} else if j.says[key] != n {
			continue
		}
		if !shown[key] {
			all = append(all, Machine{Account: account, ID: id, Node: n, Lease: j.leases[[2]string{account, id}], Unsure: !isSure})
		}
	}
	return all
}

// join finds what belongs to an instance.
type join struct {
	says   map[string]*api.NodeRow // nodes, by the instance that they say they are
	mute   map[string]*api.NodeRow // nodes that cannot know that, such as those of Lambda Cloud, by id and by name
	leases map[[2]string]*rentals.Lease
	ofNode map[string]*rentals.Lease
}

func newJoin(nodes []*api.NodeRow, leases []rentals.Lease) *join {
	j := &join{says: map[string]*api.NodeRow{}, mute: map[string]*api.NodeRow{}, leases: map[[2]string]*rentals.Lease{},
		ofNode: map[string]*rentals.Lease{}}
	for _, n := range nodes {
		if n.InstanceID == "" {
			j.mute[n.ID] = n
			if isBetter(n, j.mute[n.Name]) {
				j.mute[n.Name] = n
			}
		} else if key := keyOf(n.Provider, n.InstanceID); isBetter(n, j.says[key]) {
			j.says[key] = n
		}
	}
	for i := range leases {
		if l := &leases[i]; l.State != providers.LeaseEnded {
			j.leases[[2]string{l.Account, l.Instance}], j.ofNode[l.NodeID] = l, l
		}
	}
	return j
}

// nodeOf is the node of an instance: the one that says so, else the one of its lease, else the one that was made with its name.
func (j *join) nodeOf(key string, s *market.Seen, l *rentals.Lease) *api.NodeRow {
	if n := j.says[key]; n != nil {
		return n
	}
	if l != nil && l.NodeID != "" && j.mute[l.NodeID] != nil {
		return j.mute[l.NodeID]
	}
	if n := j.mute[s.Name]; n != nil && n.Tenant == s.Tenant && strings.HasPrefix(s.Name, rentals.NamePrefix) {
		return n
	}
	return nil
}

// isBetter tells which of two nodes that say the same is believed: one that was not given back, then the one that was heard last.
func isBetter(n, than *api.NodeRow) bool {
	switch {
	case than == nil:
		return true
	case (n.State == wire.StateRetired) != (than.State == wire.StateRetired):
		return than.State == wire.StateRetired
	case n.LastSeen == nil || than.LastSeen == nil:
		return n.LastSeen != nil
	}
	return n.LastSeen.After(*than.LastSeen)
}

// lag is for how long a company's list may lack what is new.
const lag = 10 * time.Minute

// holder is the account that should show a node: one of the node's tenant, or the first; nil: there is none. It is not sure of an account
// whose view is not of now, or may lack what is new.
func holder(accounts []Account, n *api.NodeRow) (first *Account, isSure bool) {
	for i := range accounts {
		a := &accounts[i]
		if a.Kind != n.Provider {
			continue
		}
		if !a.Known || a.At == nil || a.At.Before(n.CreatedAt.Add(lag)) {
			return a, false
		}
		if first == nil || a.Tenant == n.Tenant && first.Tenant != n.Tenant {
			first = a
		}
	}
	return first, true
}
