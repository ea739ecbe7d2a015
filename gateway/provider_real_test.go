//go:build real

package main

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/client"
	"muster/gateway/internal/kit/cloudsim"
	"muster/gateway/internal/kit/cloudsim/vast"
)

// TestRent goes the whole way: rent, join, accept, go silent, be found, be given back. What muster says that it has cost is what the
// company has charged.
func TestRent(t *testing.T) {
	t.Parallel()
	m := newBazaar(t, nil, nil, offered(5, 1)...)
	rented := m.rent("--count", "3", "--max-price", "250", "--label", "batch=x")
	if rented.State != providers.RentedDone || rented.Ready != 3 || len(rented.Machines) != 3 {
		t.Fatalf("rented: %+v", rented)
	}
	var names []string
	for _, one := range rented.Machines {
		names = append(names, one.Node)
		if n, known := m.node(one.Node); !known || n.Status != wire.StatusOnline || n.InstanceID != one.Instance || n.Labels["batch"] != "x" {
			t.Errorf("%s is %+v", one.Node, n)
		}
	}
	if plan := m.plan(); len(plan.Findings) != 0 || plan.Providers[0].Instances == nil || *plan.Providers[0].Instances != 3 {
		t.Errorf("all is well: %+v", plan)
	}
	lost := rented.Machines[1]
	if !m.guests.Kill(lost.Instance) {
		t.Fatal("its agent did not run")
	}
	var found providers.Plan
	m.until("it is found", func() bool {
		found = m.plan()
		return len(found.Findings) > 0
	})
	f := found.Findings[0]
	if len(found.Findings) != 1 || f.Kind != providers.FoundBilledSilent || f.Instance != lost.Instance || f.PerDay == nil ||
		math.Abs(*f.PerDay-24*lost.PerHour) > .01 || f.Next != "muster provider onboard vast_ai/"+lost.Instance {
		t.Errorf("found: %+v", found)
	}
	out := m.muster("node", "return", "-l", "batch=x", "--destroy", "--yes")
	for _, name := range names {
		if !strings.Contains(out, name+": retired") {
			t.Errorf("%s is not given back:\n%s", name, out)
		}
	}
	m.gone()
	if all := m.sim.Machines(); len(all) != 3 || m.sim.Calls(vast.Create) != 3 {
		t.Errorf("rented: %d machines by %d orders", len(all), m.sim.Calls(vast.Create))
	}
	m.charged()
	secretsStay(t, m)
}

// charged checks what muster says that all has cost against what the company has charged: it looks each ten seconds, and sees a machine go
// some seconds late.
func (m *bazaar) charged() {
	m.t.Helper()
	var sum, hour int64
	for _, one := range m.sim.Machines() {
		sum += m.sim.Charged(one.ID)
		hour += one.Running
	}
	m.until("its cost is what was charged", func() bool {
		cost := bazaarAnswer[providers.CostReport](m, "cost", "--by", "provider", "-o", "json")
		m.t.Logf("charged %d, cost %+v", sum, cost.Total)
		return cost.Total.Rented != nil && math.Abs(*cost.Total.Rented*1e6-float64(sum)) < float64(hour)*30/3600
	})
}

// TestRentReplaced: a machine that has not what is paid for is given back, its host is remembered, and another one takes its place.
func TestRentReplaced(t *testing.T) {
	t.Parallel()
	m := newBazaar(t, map[string]int{"101": 7}, nil, offered(3, 8)...)
	rented := m.rent("--gpus", "8", "--max-price", "250")
	if rented.State != providers.RentedDone || rented.Ready != 1 || len(rented.Machines) != 2 {
		t.Fatalf("rented: %+v", rented)
	}
	failed := slices.IndexFunc(rented.Machines, func(one providers.Rental) bool { return one.State == providers.RentalFailed })
	if failed < 0 || rented.Machines[failed].Host != "101" || !strings.Contains(rented.Machines[failed].Why, "did not pass acceptance") {
		t.Errorf("failed: %+v", rented.Machines)
	}
	m.within(5*time.Minute, "the bad one is destroyed", func() bool { return len(m.there()) == 1 })
	offers := bazaarAnswer[providers.OfferList](m, "rent", "--provider", "vast_ai", "--gpu", "H100", "--gpus", "8", "--plan", "-o", "json")
	for _, o := range offers.Offers {
		if isBad := strings.HasPrefix(o.Known, "bad: "); isBad != (o.Host == "101") || isBad && o.Chosen {
			t.Errorf("offer: %+v", o)
		}
	}
}

// TestRentLost: an order whose answer is lost, also since the gateway is killed then, is found and not given again.
func TestRentLost(t *testing.T) {
	t.Parallel()
	var kill atomic.Pointer[func()]
	m := newBazaar(t, nil, func(c *cloudsim.Config) {
		c.OnCall = func(endpoint string) {
			if act := kill.Load(); endpoint == vast.Create && act != nil && kill.CompareAndSwap(act, nil) {
				(*act)()
			}
		}
	}, offered(5, 1)...)
	m.sim.Add(cloudsim.Fault{On: vast.Create, Kind: cloudsim.Lost, Times: 1})
	rented := m.rent("--count", "2", "--max-price", "250")
	if rented.State != providers.RentedDone || rented.Ready != 2 || len(m.sim.Machines()) != 2 {
		t.Errorf("rented: %+v, and there are %+v", rented, m.sim.Machines())
	}
	killed := make(chan struct{})
	kill.Store(new(func() {
		m.gateway.kill()
		close(killed)
	}))
	id := wire.NewTaskID()
	m.post(providers.Renting{ID: id, Provider: "vast_ai", GPU: "H100", Count: 1, MaxPrice: new(250.0), TTLSeconds: 3600})
	<-killed
	m.open()
	m.within(5*time.Minute, "it is ready", func() bool {
		return bazaarAnswer[providers.Rented](m, "rent", "show", id, "-o", "json").State == providers.RentedDone
	})
	if all := m.sim.Machines(); len(all) != 3 || m.sim.Calls(vast.Create) != 3 {
		t.Errorf("%d machines by %d orders: %+v", len(all), m.sim.Calls(vast.Create), all)
	}
}

// post asks for machines, and does not wait for them.
func (m *bazaar) post(want providers.Renting) {
	m.t.Helper()
	c, err := client.Dial(m.t.Context(), client.Target{DataDir: m.data})
	if err == nil {
		_, err = client.Send[providers.Rented](m.t.Context(), c, http.MethodPost, api.PathRentals, want)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// TestRentRejoined: a machine whose agent died, and that ssh does not get onto, starts again at its company with an empty disk, and comes
// back as the node that it was. Another one that runs there is left alone.
func TestRentRejoined(t *testing.T) {
	t.Parallel()
	m := newBazaar(t, nil, nil, offered(2, 1)...)
	rented := m.rent("--max-price", "250", "--label", "batch=x").Machines[0]
	if _, err := m.sim.Rent(102, "by hand"); err != nil {
		t.Fatal(err)
	}
	before, _ := m.node(rented.Node)
	if !m.guests.Kill(rented.Instance) {
		t.Fatal("its agent did not run")
	}
	m.sim.Spoil(rented.Instance, "ssh_host", "127.0.0.1")
	m.sim.Spoil(rented.Instance, "ssh_port", 1) // where nobody listens
	name := "vast_ai/" + rented.Instance
	m.until("it is found", func() bool {
		return slices.ContainsFunc(m.plan().Findings, func(f providers.Finding) bool { return f.Kind == providers.FoundBilledSilent })
	})
	if out := m.muster("provider", "onboard", "--rewrite", "--plan"); !strings.Contains(out, name+": the disk of the container is emptied") {
		t.Errorf("the plan:\n%s", out)
	}
	code, out, errs := m.try("provider", "onboard", name, "--rewrite", "--yes")
	if code != 0 || !strings.Contains(out, name+": joined as "+rented.Node) {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	after, known := m.node(rented.Node)
	if !known || after.ID != before.ID || after.Status != wire.StatusOnline || after.Labels["batch"] != "x" ||
		after.Certificate.Fingerprint == before.Certificate.Fingerprint {
		t.Errorf("it was %+v, and is %+v", before, after)
	}
	if code, _, errs := m.try("provider", "onboard", name, "--rewrite", "--yes"); code != exitFailed ||
		m.sim.Calls(vast.Update) != 1 || len(m.there()) != 2 {
		t.Errorf("again: exit %d, %d calls, %d machines\n%s", code, m.sim.Calls(vast.Update), len(m.there()), errs)
	}
	if out := m.muster("events", "-o", "json"); !strings.Contains(out, "instance.rejoining") || !strings.Contains(out, "instance.rejoined") {
		t.Errorf("the events:\n%s", out)
	}
	secretsStay(t, m)
}

// TestRentAllocation: what no free slot can serve is rented, and given back when the allocation is released.
func TestRentAllocation(t *testing.T) {
	t.Parallel()
	m := newBazaar(t, nil, nil, offered(2, 2)...)
	wish := []string{"alloc", "create", "--gpu", "h100", "--count", "2", "--ttl", "1h", "--rent", "--max-price", "500"}
	if out := m.muster(append(wish, "--dry-run")...); !strings.HasPrefix(out, "It would wait for a machine with 2 x ") ||
		!strings.HasSuffix(out, " an hour\nNothing was done.\n") || m.sim.Calls(vast.Create) > 0 {
		t.Errorf("a dry run: %s", out)
	}
	a := bazaarAnswer[api.Allocation](m, append(wish, "--wait", "-o", "json")...)
	if a.State != api.AllocationAllocated || len(m.there()) == 0 {
		t.Fatalf("allocated: %+v", a)
	}
	m.muster("alloc", "release", a.ID)
	m.gone()
	if n := m.sim.Calls(vast.Create); n != 1 {
		t.Errorf("%d orders", n)
	}
}

// TestRentEnds: at the end of its lease a machine is destroyed, with nobody there. A destroy that the company only says it does is asked
// for again.
func TestRentEnds(t *testing.T) {
	t.Parallel()
	m := newBazaar(t, nil, nil, offered(1, 1)...)
	m.sim.Add(cloudsim.Fault{On: vast.Destroy, Kind: cloudsim.Nothing, Times: 1})
	began := time.Now()
	rented := m.rent("--max-price", "250", "--ttl", "1m")
	m.gone()
	ended := m.sim.Machines()[0]
	if m.sim.Calls(vast.Destroy) < 2 || time.Since(began) < time.Minute {
		t.Errorf("after %s and %d calls: %+v", time.Since(began), m.sim.Calls(vast.Destroy), ended)
	}
	m.until("its node is retired", func() bool {
		_, known := m.node(rented.Machines[0].Node)
		return !known
	})
	if says := m.muster("lease", "ls", "--all"); !strings.Contains(says, "ended") {
		t.Errorf("lease ls:\n%s", says)
	}
}
