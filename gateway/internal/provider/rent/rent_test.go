package rent

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/label"
	"muster/gateway/internal/provider/cloud"
)

// TestRent: machines are ordered, join with a token of their own, pass, and have a lease. At its end they are given back.
func TestRent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	soon := 0
	w.leases.Soon = func(string) { soon++ }
	w.restart()
	first := w.rent(want(3))
	if first.State != providers.RentedRenting || len(first.Machines) != 3 || first.Machines[0].State != providers.RentalIntended ||
		w.company.orderCount() != 0 {
		t.Errorf("it begins so: %+v", first)
	}
	w.pass(5 * time.Minute)
	if soon != 3 {
		t.Errorf("a list is asked for %d times", soon)
	}
	r := w.wantState("after five minutes", first.ID, providers.RentedDone, 3)
	if r.Ready != 3 || r.Spent == nil || *r.Spent <= 0 || *r.Spent > 1 {
		t.Errorf("it is so: %+v", r)
	}
	for i, m := range w.company.there() {
		q := w.minted["mse_"+string(rune('1'+i))]
		if m.Name != "muster-"+r.Machines[i].ID || q.Name != m.Name || !q.BindInstance || q.Uses != 1 || q.GPUs != 1 ||
			q.Labels["batch"] != "x" ||
			q.Tenant != "platform" || r.Machines[i].Node != m.Name {
			t.Errorf("machine %d is %+v with the token %+v", i, m.Instance, q)
		}
		l, err := w.records.Lease(t.Context(), "acme", m.ID)
		if err != nil || l.Owner != "ada" || l.Act != providers.ActDestroy || l.NodeID != "n-"+m.ID ||
			!l.EndsAt.Equal(l.CreatedAt.Add(8*time.Hour)) {
			t.Errorf("its lease is %+v, %v", l, err)
		}
	}
	for kind, want := range map[string]int{"rental.intended": 3, "rental.created": 3, "rental.ready": 3, "rental.failed": 0} {
		if got := w.events(kind); got != want {
			t.Errorf("%d events %s, want %d", got, kind, want)
		}
	}
	w.mu.Lock()
	w.now, w.up = w.now.Add(8*time.Hour), w.up+8*time.Hour
	w.mu.Unlock()
	w.pass(10 * time.Minute)
	r = w.wantState("after its time", first.ID, providers.RentedDone, 0)
	if r.Machines[0].State != providers.RentalEnded || *r.Spent < 24 || *r.Spent > 25 || w.events("rental.ended") != 3 {
		t.Errorf("it is so: %+v", r)
	}
	if n := w.nodes["n-1001"]; n.State != wire.StateRetired {
		t.Errorf("its node is %s", n.State)
	}
}

// TestPromised: a machine's token says what is paid for, as far as that is known, and what the person has said goes before.
func TestPromised(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked, offered string
		mib            *int64
		own            map[string]string
		want           map[string]string
	}{
		"all is known":  {"H100", "H100 SXM", new(int64(81559)), nil, map[string]string{label.GPUModel: "H100", label.GPUMemory: "75.7"}},
		"no memory":     {"4090", "RTX 4090", nil, nil, map[string]string{label.GPUModel: "4090"}},
		"no model":      {"RTX 40", "RTX 4090", nil, nil, map[string]string{}},
		"said already":  {"H100", "H100", new(int64(81559)), map[string]string{label.GPUModel: "h100-sxm", label.GPUMemory: "60"}, nil},
		"not to be so":  {"H100", "H100", nil, map[string]string{label.GPUModel: ""}, nil},
		"another label": {"H100", "H100", nil, map[string]string{"batch": "x"}, map[string]string{label.GPUModel: "H100", "batch": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cloud.Vast)
			w.company.offers = []cloud.Offer{{ID: "1", Host: "h", GPU: c.offered, GPUs: 1, GPUMiB: c.mib, Price: cloud.Dollar}}
			q := want(1)
			q.GPU, q.Labels = c.asked, c.own
			w.rent(q)
			w.pass(time.Minute)
			if c.want == nil {
				c.want = c.own
			}
			if got := w.minted["mse_1"].Labels; !maps.Equal(got, c.want) {
				t.Errorf("the token has %v, want %v", got, c.want)
			}
		})
	}
}

// TestSameAgain: the same request rents nothing more, and another one with its id is refused.
func TestSameAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	q := want(1)
	q.ID = wire.NewTaskID()
	w.rent(q)
	w.pass(4 * time.Minute)
	again, created, err := w.Rent(t.Context(), q, ada)
	if err != nil || created || again.State != providers.RentedDone || len(again.Machines) != 1 {
		t.Errorf("got %+v, %v, %v", again, created, err)
	}
	q.Count = 2
	_, _, err = w.Rent(t.Context(), q, ada)
	w.refused("another request", wire.CodeAlreadyThere, err)
	w.pass(5 * time.Minute)
	w.wantState("afterwards", q.ID, providers.RentedDone, 1)
}

// TestAnswers: whatever comes of an order, one machine is there in the end, and no other is kept.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault  string
		orders int
	}{{lost, 1}, {noID, 1}, {crashedIn, 1}, {twice, 1}, {unheard, 2}, {crashed, 2}, {halfDone, 2}, {noOffer, 2}, {limited, 2}, {overDone, 2}} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cloud.Vast)
			w.company.lag = 3 * time.Minute
			w.company.next = []string{c.fault}
			r := w.rent(want(1))
			w.pass(2 * time.Minute)
			if c.orders == 2 && c.fault != crashed && c.fault != unheard {
				w.pass(time.Minute)
			} else if n := w.company.orderCount(); n != 1 {
				t.Errorf("%d orders after two minutes", n)
			}
			w.restart()
			w.pass(20 * time.Minute)
			got := w.wantState("in the end", r.ID, providers.RentedDone, 1)
			if n := w.company.orderCount(); n != c.orders || got.Ready != 1 {
				t.Errorf("%d orders, want %d: %+v", n, c.orders, got)
			}
			for token := range w.minted {
				used := strings.Contains(w.company.there()[0].order.Script, token+"_")
				if w.revoked[token] == used && !(c.fault == crashed && !used && token == "mse_1" && w.revoked[token]) {
					t.Errorf("the token %s is revoked: %v", token, w.revoked[token])
				}
			}
		})
	}
}

// TestTooOften: a company that says it was asked too often, and makes the machine all the same, has it accepted as any other one.
func TestTooOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.company.next = []string{overDone}
	r := w.rent(want(1))
	w.pass(20 * time.Minute)
	got := w.wantState("in the end", r.ID, providers.RentedDone, 1)
	if n := w.company.orderCount(); n != 1 || got.Ready != 1 || got.Machines[0].Node == "" || len(w.revoked) != 0 {
		t.Errorf("%d orders: %+v, revoked %v", n, got, w.revoked)
	}
}

// TestTooOftenAndLate: such a machine that is seen only after its token is void is given back, and another one takes its place.
func TestTooOftenAndLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.company.lag = 3 * time.Minute
	w.company.next = []string{overDone, limited, limited, limited}
	r := w.rent(want(1))
	w.pass(time.Hour)
	got := w.wantState("in the end", r.ID, providers.RentedDone, 1)
	if there := w.company.there(); got.Ready != 1 || len(there) != 1 || there[0].ID != got.Machines[len(got.Machines)-1].Instance {
		t.Errorf("%+v, there are %+v", got, there)
	}
}

// TestRefused: an order that a company refuses ends the request, and says what the company said. So does a token that cannot be made.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.company.next = []string{refusing}
	r := w.rent(want(2))
	w.pass(10 * time.Minute)
	if got := w.wantState("after a refusal", r.ID, providers.RentedFailed, 0); !strings.Contains(got.Why, "names no image") {
		t.Errorf("it failed because %q", got.Why)
	}
	w.fail["mint"] = errors.New("no more tokens")
	r = w.rent(want(1))
	w.pass(time.Minute)
	if got := w.wantState("without a token", r.ID, providers.RentedFailed, 0); !strings.Contains(got.Why, "no more tokens") {
		t.Errorf("it failed because %q", got.Why)
	}
}

// TestLimits: a request that would pass a limit rents nothing; one that is exactly within it rents all; and a machine that is being given
// back counts until it is gone.
func TestLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	limit := int64(3*cloud.Dollar + 3) // three machines cost $3.000003
	w.must(w.records.SetLimit(t.Context(), "acme", new(limit-1), start, "ada"))
	_, _, err := w.Rent(t.Context(), want(3), ada)
	if r := w.refused("by a millionth", wire.CodeOverQuota, err); !strings.Contains(r.Message, "account acme may cost $3.000002") {
		t.Errorf("it says %q", r.Message)
	}
	if o, err := w.Offers(t.Context(), "platform", want(3)); err != nil || !strings.Contains(o.Refused, "account acme may cost $3.000002") {
		t.Errorf("a plan says %q, %v", o.Refused, err)
	}
	if o, err := w.Offers(t.Context(), "platform", want(2)); err != nil || o.Refused != "" {
		t.Errorf("a plan of fewer says %q, %v", o.Refused, err)
	}
	if spent, err := w.records.Spent(t.Context()); err != nil || spent[0].PerHour != 0 {
		t.Errorf("what was refused counts: %+v, %v", spent, err)
	}
	w.pass(5 * time.Minute)
	if n := w.company.orderCount(); n != 0 {
		t.Errorf("%d machines were ordered all the same", n)
	}
	w.must(w.records.SetLimit(t.Context(), "acme", &limit, start, "ada"))
	w.must(w.records.SetTenantLimit(t.Context(), "platform", &limit, start, "ada"))
	w.bad["host-2"] = "fails"
	w.company.deaf = true
	r := w.rent(want(3))
	w.pass(10 * time.Minute)
	w.wantState("while one is given back", r.ID, providers.RentedRenting, 3)
	w.company.set(func() {
		w.company.deaf = false
		w.company.offers = append(w.company.offers, cloud.Offer{ID: "cheap", Host: "cheap", GPU: "H100", GPUs: 1, Price: cloud.Dollar})
	})
	w.pass(12 * time.Minute)
	w.wantState("when it is gone", r.ID, providers.RentedDone, 3)
}

func manyLabels(count int) map[string]string {
	labels := map[string]string{}
	for i := range count {
		labels[fmt.Sprint("l", i)] = "x"
	}
	return labels
}

// TestRentRefusals: what makes no sense is refused, with what to do instead, and nothing is rented.
func TestRentRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	const huge = int(^uint(0) >> 1)
	for what, c := range map[string]struct {
		code   string
		change func(*providers.Renting)
	}{
		"no account":       {wire.CodeNotFound, func(q *providers.Renting) { q.Provider = "nobody" }},
		"no id":            {wire.CodeBadRequest, func(q *providers.Renting) { q.ID = "x" }},
		"no model":         {wire.CodeBadRequest, func(q *providers.Renting) { q.GPU = "" }},
		"many GPUs":        {wire.CodeBadRequest, func(q *providers.Renting) { q.GPUs = huge }},
		"many machines":    {wire.CodeBadRequest, func(q *providers.Renting) { q.Count = huge }},
		"no highest price": {wire.CodeBadRequest, func(q *providers.Renting) { q.MaxPrice = nil }},
		"its own price":    {wire.CodeBadRequest, func(q *providers.Renting) { q.Labels = map[string]string{"price_per_hour": "1"} }},
		"a comma":          {wire.CodeBadRequest, func(q *providers.Renting) { q.GPU = "H100,A100" }},
		"all labels":       {wire.CodeBadRequest, func(q *providers.Renting) { q.Labels = manyLabels(wire.MaxLabels - 1) }},
		"no price":         {wire.CodeBadRequest, func(q *providers.Renting) { q.MaxPrice = new(-1.0) }},
		"a vast disk":      {wire.CodeBadRequest, func(q *providers.Renting) { q.DiskGB = huge }},
		"no image":         {wire.CodeBadRequest, func(q *providers.Renting) { q.Image = "a b" }},
		"no time":          {wire.CodeBadRequest, func(q *providers.Renting) { q.TTLSeconds = 0 }},
		"for ever":         {wire.CodeBadRequest, func(q *providers.Renting) { q.TTLSeconds = huge }},
		"to keep":          {wire.CodeBadRequest, func(q *providers.Renting) { q.Act = providers.ActKeep }},
		"soon idle":        {wire.CodeBadRequest, func(q *providers.Renting) { q.IdleEnd = 1 }},
		"a reserved label": {wire.CodeReservedKey, func(q *providers.Renting) { q.Labels = map[string]string{"tenant": "x"} }},
		"another tenant":   {wire.CodeNotFound, func(q *providers.Renting) { q.Tenant = "other" }},
		"too cheap":        {wire.CodeNoCapacity, func(q *providers.Renting) { q.MaxPrice = new(0.5) }},
		"too many":         {wire.CodeNoCapacity, func(q *providers.Renting) { q.Count = 13 }},
		"no such offer":    {wire.CodeNoCapacity, func(q *providers.Renting) { q.Offers = []string{"offer-99"} }},
	} {
		q := want(1)
		c.change(&q)
		_, _, err := w.Rent(t.Context(), q, ada)
		w.refused(what, c.code, err)
	}
	const few = "0 of the offers that are chosen can be had from acme, and 1 are wanted; "
	for says, change := range map[string]func(*providers.Renting){
		`the tenant other has no account that is called "acme"`: func(q *providers.Renting) { q.Tenant = "other" },
		`no account is called "nobody"`:                         func(q *providers.Renting) { q.Provider = "nobody" },
		"not a tenant's name":                                   func(q *providers.Renting) { q.Tenant = "no such" },
		few + `"offer-99" is taken by somebody else`:            func(q *providers.Renting) { q.Offers = []string{"offer-99"} },
		few + `"offer-9": it is too dear`: func(q *providers.Renting) {
			q.Offers, q.MaxPrice = []string{"offer-9"}, new(0.5)
		},
	} {
		q := want(1)
		change(&q)
		if _, _, err := w.Rent(t.Context(), q, ada); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
	}
	_, err := w.Rented(t.Context(), "platform", "nothing")
	w.refused("nothing", wire.CodeNotFound, err)
	w.company.set(func() {
		w.company.fails["offers"] = &cloud.Error{Kind: cloud.KeyRefused, Status: 401, Text: "auth_error"}
	})
	_, _, err = w.Rent(t.Context(), want(1), ada)
	w.refused("a key that is refused", wire.CodeProviderFailed, err)
	_, err = w.Offers(t.Context(), "platform", want(1))
	w.refused("offers with it", wire.CodeProviderFailed, err)
	if list, err := w.Rentals(t.Context(), "platform"); err != nil || len(list.Rentals) != 0 {
		t.Errorf("something was rented: %+v, %v", list, err)
	}
}

// TestLambda: machines of Lambda Cloud say whose they are, have an hour to boot, and cannot be bound or stopped.
func TestLambda(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Lambda)
	w.company.offers = []cloud.Offer{{ID: "gpu_1x_h100", GPU: "H100", GPUs: 1, Price: 2 * cloud.Dollar}}
	w.boot = 50 * time.Minute
	q := want(2)
	q.Act = providers.ActStop
	_, _, err := w.Rent(t.Context(), q, ada)
	w.refused("to stop", wire.CodeBadRequest, err)
	r := w.rent(want(2))
	w.pass(53 * time.Minute)
	w.wantState("after 53 minutes", r.ID, providers.RentedDone, 2)
	if !strings.Contains(w.company.orders[0].Script, " --provider lambda\n") || w.minted["mse_1"].BindInstance ||
		w.company.orders[0].SSHKey != "key" {
		t.Errorf("the order is %+v", w.company.orders[0])
	}
	l, err := w.records.Lease(t.Context(), "acme", "1001")
	if err != nil || l.NodeID != "n-1001" {
		t.Errorf("the lease is %+v, %v", l, err)
	}
}

// TestNumberOfGPUs: a machine has just as many GPUs as are asked for, unless a person has chosen it, or it is for an allocation.
func TestNumberOfGPUs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.company.offers = []cloud.Offer{{ID: "big", Host: "h", GPU: "H100", GPUs: 8, Price: cloud.Dollar}}
	for what, q := range map[string]providers.Renting{"one": {}, "three": {GPUs: 3}, "three of it": {GPUs: 3, Offers: []string{"big"}}} {
		q.ID, q.Provider, q.GPU, q.MaxPrice, q.TTLSeconds = wire.NewTaskID(), "acme", "H100", new(20.0), 3600
		_, _, err := w.Rent(t.Context(), q, ada)
		w.refused(what, wire.CodeNoCapacity, err)
	}
	for what, q := range map[string]providers.Renting{"eight": {GPUs: 8}, "chosen": {Offers: []string{"big"}}, "more": {MoreGPUs: true}} {
		q.Provider, q.GPU, q.MaxPrice = "acme", "H100", new(20.0)
		if l, err := w.Offers(t.Context(), "", q); err != nil || len(l.Offers) != 1 || !l.Offers[0].Chosen {
			t.Errorf("%s: %+v, %v", what, l, err)
		}
	}
}
