package provider_test

import (
	"maps"
	"slices"
	"time"

	"muster/store"
	"muster/store/provider"
)

func (m *model) intend() {
	tenant := []string{"platform", "research"}[m.rng.IntN(2)]
	x := rental(m.name("r"), m.rng.IntN(2*modelWanted), 1+m.rng.Int64N(9))
	x.Request, x.Tenant = tenant, tenant
	var want error
	live := 0
	for _, other := range m.rentals {
		if other.Request == x.Request && other.live() {
			live++
			if other.Number == x.Number {
				want = store.ErrConflict
			}
		}
	}
	if live >= modelWanted {
		want = store.ErrConflict
	}
	for scope, limit := range m.limits {
		now := m.spent(scope[0], scope[1])
		matters := scope[0] == provider.OfAccount || scope[1] == tenant
		if matters && want == nil && (now[1] > 0 || now[0]+x.Price > limit) {
			want = provider.ErrLimit
		}
	}
	if m.note("intend", m.r.Intend(m.t.Context(), x), want) {
		x.State, x.Version = "intended", 1
		m.rentals[x.ID] = &modelRental{Rental: x}
	}
}

// create has the company make a machine, which may have no price yet.
func (m *model) create() {
	id, found := pick(m, m.rentals, func(_ string, x *modelRental) bool { return x.State == "intended" && x.machine == "" })
	if !found {
		return
	}
	x := m.rentals[id]
	x.machine = m.name("i")
	m.machines[x.machine] = &modelMachine{name: provider.NamePrefix + id, state: "starting"}
	if m.rng.IntN(3) > 0 {
		m.machines[x.machine].price = &x.Price
	}
	m.done["create"]++
}

func (m *model) created() {
	id, found := pick(m, m.rentals, func(_ string, x *modelRental) bool { return x.State == "intended" && x.machine != "" })
	if !found {
		return
	}
	x := m.rentals[id]
	x.State, x.Instance = "booting", x.machine
	l := lease("a", x.machine, id)
	m.note("created", m.r.Created(m.t.Context(), x.Rental, l), nil)
	x.Version++
	l.Version = 1
	m.leases[x.machine] = &l
	if row := m.rows[x.machine]; row != nil {
		row.tenant = x.Tenant
	}
}

func (m *model) goOn() {
	next := map[string]string{"booting": "checking", "checking": "ready"}
	id, found := pick(m, m.rentals, func(_ string, x *modelRental) bool { return next[x.State] != "" })
	if !found {
		return
	}
	x := m.rentals[id]
	x.State = next[x.State]
	m.note("go on", m.r.PutRental(m.t.Context(), x.Rental), nil)
	x.Version++
	if machine := m.machines[x.machine]; machine != nil && machine.state == "starting" {
		machine.state, machine.price = "running", &x.Price
	}
}

// stale writes what was read before, or brings back to life what is over.
func (m *model) stale() {
	id, found := pick(m, m.rentals, func(string, *modelRental) bool { return true })
	if !found {
		return
	}
	x := m.rentals[id].Rental
	if m.rentals[id].live() {
		x.Version--
	} else {
		x.State = "ready"
	}
	m.note("stale", m.r.PutRental(m.t.Context(), x), store.ErrConflict)
}

// end ends a rental: one that never got a machine has failed, and the lease of another ends.
func (m *model) end() {
	id, found := pick(m, m.rentals, func(_ string, x *modelRental) bool { return x.live() && x.machine == x.Instance })
	if !found {
		return
	}
	x := m.rentals[id]
	what := "fail"
	x.State = "failed"
	if x.Instance != "" {
		what, x.State = "give back", "ended"
		l := m.leases[x.Instance]
		l.State = "draining"
		m.note("lease", m.r.PutLease(m.t.Context(), *l), nil)
		l.Version++
	}
	m.note(what, m.r.PutRental(m.t.Context(), x.Rental), nil)
	x.Version++
}

// destroy has the company end a machine whose lease is over, at once or slowly.
func (m *model) destroy() {
	id, found := pick(m, m.leases, func(id string, l *provider.Lease) bool { return l.State == "draining" && m.machines[id] != nil })
	if !found {
		return
	}
	if m.machines[id].state != "ending" && m.rng.IntN(2) == 0 {
		m.machines[id].state = "ending"
		return
	}
	delete(m.machines, id)
	m.done["destroy"]++
}

// over ends a lease whose machine the company has no longer.
func (m *model) over() {
	id, found := pick(m, m.leases, func(id string, l *provider.Lease) bool { return l.State == "draining" && m.machines[id] == nil })
	if !found {
		return
	}
	l := m.leases[id]
	l.State, l.EndedAt = "ended", ptr(start)
	m.note("over", m.r.PutLease(m.t.Context(), *l), nil)
	l.Version++
}

// foreign has somebody else rent, stop, start or destroy a machine.
func (m *model) foreign() {
	id, found := pick(m, m.machines, func(_ string, machine *modelMachine) bool { return machine.foreign })
	switch {
	case !found || m.rng.IntN(3) == 0:
		price := m.rng.Int64N(5)
		machine := &modelMachine{name: "mine", state: "running", foreign: true, price: &price}
		if m.rng.IntN(4) == 0 {
			machine.price = nil
		}
		m.machines[m.name("f")] = machine
	case m.rng.IntN(2) == 0:
		delete(m.machines, id)
	case m.machines[id].state == "running":
		m.machines[id].state = "stopped"
	default:
		m.machines[id].state = "running"
	}
}

// view saves what the company shows, or what it has shown a few lists before: its lists lag. What two of them do not have, and the company
// does not know, is gone.
func (m *model) view() {
	list := map[string]modelMachine{}
	for id, machine := range m.machines {
		list[id] = *machine
	}
	m.lists = append(m.lists, list)
	if len(m.lists) > 3 {
		m.lists = m.lists[1:]
	}
	list = m.lists[max(0, len(m.lists)-1-m.rng.IntN(2))]
	var all []provider.Instance
	for _, id := range slices.Sorted(maps.Keys(list)) {
		machine := list[id]
		all = append(all, provider.Instance{ID: id, Name: machine.name, State: machine.state, Running: machine.price,
			Storage: ptr(int64(modelDisk)), Body: "{}"})
		row := m.rows[id]
		if row == nil {
			row = &modelRow{tenant: "platform"}
			m.rows[id] = row
		}
		row.modelMachine, row.missing, row.gone = machine, 0, false
		for _, x := range m.rentals {
			if x.machine == id {
				row.tenant = x.Tenant
			}
		}
	}
	want := map[string]bool{}
	for id, row := range m.rows {
		if _, has := list[id]; !has && !row.gone {
			row.missing++
			want[id] = row.missing >= 2
		}
	}
	missing, err := m.r.SaveView(m.t.Context(), "a", after(time.Duration(m.serial)*time.Second), all)
	m.note("view", err, nil)
	for _, id := range missing {
		if !want[id] {
			m.t.Errorf("%s is missing, and should not be", id)
		}
		delete(want, id)
		if m.machines[id] == nil {
			m.note("gone", m.r.Gone(m.t.Context(), "a", id, start), nil)
			m.rows[id].gone = true
		}
	}
	for id, twice := range want {
		if twice {
			m.t.Errorf("%s is not missing, and should be", id)
		}
	}
}

func (m *model) limit() {
	scope := [][2]string{{provider.OfAccount, "a"}, {provider.OfTenant, "platform"}, {provider.OfTenant, "research"}}[m.rng.IntN(3)]
	delete(m.limits, scope)
	var limit *int64
	if m.rng.IntN(4) > 0 {
		n := m.rng.Int64N(40)
		limit = &n
		m.limits[scope] = n
	}
	set := m.r.SetTenantLimit
	if scope[0] == provider.OfAccount {
		set = m.r.SetLimit
	}
	m.note("limit", set(m.t.Context(), scope[1], limit, start, "account:ops"), nil)
}
