//go:build real

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/kit/cloudsim"
	"muster/gateway/internal/kit/cloudsim/vast"
)

// beside is another gateway, with a database of its own and the same account.
func (m *bazaar) beside() *bazaar {
	m.t.Helper()
	other := &bazaar{house: newHouse(m.t), sim: m.sim, guests: m.guests, api: m.api}
	other.muster("provider", "add", "vast_ai", "--key-file", other.key(companyKey), "--url", other.api)
	return other
}

// TestRentByTwoGateways: two gateways rent from one account at once, are killed meanwhile, and lose answers to their orders. Each gets what
// it has asked for and no more, and shows what the other has rented as foreign: it neither joins nor ends it. Both limits count all of it.
func TestRentByTwoGateways(t *testing.T) {
	t.Parallel()
	a := newBazaar(t, nil, nil, offered(9, 1)...)
	b := a.beside()
	a.sim.Add(cloudsim.Fault{On: vast.Create, Kind: cloudsim.Lost, Times: 1})
	a.sim.Add(cloudsim.Fault{On: vast.Create, Kind: cloudsim.Lost, Skip: 1, Times: 1})
	both, own := []*bazaar{a, b}, make([][]string, 2)
	offers := [][]string{{"500101", "500102"}, {"500103", "500104"}}
	for _, offers := range [][][]string{offers, {nil, nil}} { // those of one's own, with faults, and then the same cheapest one
		asked := []string{wire.NewTaskID(), wire.NewTaskID()}
		before := a.sim.Calls(vast.Create)
		for i, m := range both {
			m.post(providers.Renting{ID: asked[i], Provider: "vast_ai", GPU: "H100", Count: max(len(offers[i]), 1), MaxPrice: new(300.0),
				TTLSeconds: 3600, Labels: map[string]string{"batch": "x"}, Offers: offers[i]})
		}
		all := before + 2*max(len(offers[0]), 1)
		for _, m := range both { // an order that a kill kept from the company is looked for over ten minutes: TestRentLost
			m.until("all machines are ordered", func() bool { return m.sim.Calls(vast.Create) >= all })
			m.gateway.kill()
			m.open()
		}
		for i, m := range both {
			own[i] = append(own[i], m.got(asked[i])...)
		}
	}
	for i, m := range both {
		if live := m.there(); len(own[i]) != 3 || len(live) != 6 {
			t.Errorf("gateway %d has %q, and there are %+v", i, own[i], live)
		}
		m.showsApart(own[i], own[1-i])
		m.muster("provider", "limit", "vast_ai", "1300")
		code, _, errs := m.try("rent", "--provider", "vast_ai", "--gpu", "H100", "--max-price", "300", "--ttl", "1h", "--yes")
		if code != exitFailed || !strings.Contains(errs, "may cost $1300 an hour") {
			t.Errorf("the machines of the other do not count: exit %d\n%s", code, errs)
		}
	}
	a.muster("node", "return", "-l", "batch=x", "--destroy", "--yes")
	a.until("its machines are gone", func() bool { return len(a.there()) == 3 })
	a.muster("provider", "sync", "vast_ai")
	a.showsApart(nil, own[1])
	b.muster("provider", "sync", "vast_ai")
	b.showsApart(own[1], nil)
	for i, m := range both {
		if cost := bazaarAnswer[providers.CostReport](m, "cost", "--by", "batch", "-o", "json"); len(cost.Rows) == 0 {
			t.Errorf("gateway %d has no cost", i)
		}
		if text := m.muster("events", "-o", "json"); slices.ContainsFunc(own[1-i], func(id string) bool {
			return strings.Contains(text, `"kind":"rental.created"`) && strings.Contains(text, `"instance":"`+id+`"`)
		}) {
			t.Errorf("gateway %d has taken a machine of the other:\n%s", i, text)
		}
	}
}

func (m *bazaar) rental(id string) providers.Rented {
	m.t.Helper()
	return bazaarAnswer[providers.Rented](m, "rent", "show", id, "-o", "json")
}

// got waits until a rental is done, and gives its instances.
func (m *bazaar) got(id string) (instances []string) {
	m.t.Helper()
	m.within(10*time.Minute, "its machines are ready", func() bool { return m.rental(id).State != providers.RentedRenting })
	rented := m.rental(id)
	if rented.State != providers.RentedDone || rented.Ready != rented.Count {
		m.t.Errorf("rented: %+v", rented)
	}
	for _, one := range rented.Machines {
		if one.State == providers.RentalReady {
			instances = append(instances, one.Instance)
		}
	}
	return instances
}

// showsApart checks that the machines of this gateway are its nodes, with leases, and that those of the other are shown as foreign, and are
// none of its nodes.
func (m *bazaar) showsApart(own, foreign []string) {
	m.t.Helper()
	m.until("all are shown", func() bool {
		m.muster("provider", "sync", "vast_ai")
		list := bazaarAnswer[providers.InstanceList](m, "provider", "instances", "vast_ai", "-o", "json")
		return len(list.Instances) == len(own)+len(foreign)
	})
	for _, i := range bazaarAnswer[providers.InstanceList](m, "provider", "instances", "vast_ai", "-o", "json").Instances {
		isOwn := slices.Contains(own, i.ID)
		if i.Foreign == isOwn || (i.Node != "") != isOwn || (i.Lease != nil) != isOwn || (i.Rental != "") != isOwn ||
			!isOwn && !slices.Contains(foreign, i.ID) {
			m.t.Errorf("own %q, foreign %q: %+v", own, foreign, i)
		}
	}
	var nodes []string
	for _, n := range m.nodes() {
		nodes = append(nodes, n.InstanceID)
	}
	if slices.Sort(nodes); !slices.Equal(nodes, slices.Sorted(slices.Values(own))) {
		m.t.Errorf("the nodes are the instances %q, want %q", nodes, own)
	}
}
