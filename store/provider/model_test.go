package provider_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"muster/store"
	"muster/store/provider"
)

// The model is what the records should be, in plain Go: it knows no SQL. Beside it stands what is true: the machines that the company has.
type (
	modelMachine struct {
		name, state string
		price       *int64
		foreign     bool
	}
	modelRow struct {
		modelMachine
		tenant  string
		missing int
		gone    bool
	}
	modelRental struct {
		provider.Rental
		machine string // that the company has made; the record may not know it yet
	}
)

type model struct {
	t        *testing.T
	rng      *rand.Rand
	r        provider.Records
	serial   int
	machines map[string]*modelMachine // at the company
	lists    []map[string]modelMachine
	rows     map[string]*modelRow
	rentals  map[string]*modelRental
	leases   map[string]*provider.Lease // by instance
	limits   map[[2]string]int64
	done     map[string]int // how often each step had an effect, and was refused
}

const (
	modelWanted = 4 // machines, by each request
	modelDisk   = 1 // what a stopped machine costs
)

// TestModel takes random steps on the records and on the model of them, and both stay the same: no machine counts twice, and none that the
// company has for a rental is forgotten.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r, _ := open(t, "a", "b")
			m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 27)), r: r, machines: map[string]*modelMachine{}, rows: map[string]*modelRow{},
				rentals: map[string]*modelRental{}, leases: map[string]*provider.Lease{}, limits: map[[2]string]int64{}, done: map[string]int{}}
			request(t, r, "platform", "a", "platform", modelWanted)
			request(t, r, "research", "a", "research", modelWanted)
			for range 500 {
				m.step()
				m.compare()
				if t.Failed() {
					return
				}
			}
			for _, want := range []string{"intend", "intend refused", "intend limited", "create", "created", "go on", "stale refused", "fail",
				"give back", "destroy", "over", "view", "gone", "limit"} {
				if m.done[want] == 0 {
					t.Errorf("the steps had no %s: %v", want, m.done)
				}
			}
		})
	}
}

func (m *model) step() {
	steps := []struct {
		weight int
		do     func()
	}{
		{24, m.intend}, {12, m.create}, {12, m.created}, {8, m.goOn}, {4, m.stale}, {8, m.end}, {8, m.destroy}, {8, m.over}, {4, m.foreign},
		{20, m.view}, {6, m.limit},
	}
	sum := 0
	for _, s := range steps {
		sum += s.weight
	}
	n := m.rng.IntN(sum)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			s.do()
			return
		}
	}
}

// note compares how a step ended with how it should; want is nil, or the error that it should have.
func (m *model) note(what string, err, want error) bool {
	m.t.Helper()
	if !errors.Is(err, want) {
		m.t.Fatalf("%s: got %v, and by the model it is %v", what, err, want)
	}
	switch want {
	case store.ErrConflict:
		what += " refused"
	case provider.ErrLimit:
		what += " limited"
	}
	m.done[what]++
	return want == nil
}

// pick gives one of those in a map for which a condition is true, at random; false if there is none.
func pick[V any](m *model, of map[string]V, which func(id string, v V) bool) (id string, found bool) {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if which(key, of[key]) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return "", false
	}
	return keys[m.rng.IntN(len(keys))], true
}

func (m *model) name(prefix string) string {
	m.serial++
	return fmt.Sprintf("%s%04d", prefix, m.serial)
}

func (x *modelRental) live() bool { return x.State != "failed" && x.State != "ended" }

func counts(state string) bool { return state != "stopped" && state != "ending" && state != "gone" }

// spent is what counts for the machines of an account or a tenant.
func (m *model) spent(of, name string) (sum [2]int64) {
	add := func(tenant string, price *int64) {
		switch {
		case of == provider.OfAccount && name != "a" || of == provider.OfTenant && name != tenant:
		case price == nil:
			sum[1]++
		default:
			sum[0] += *price
		}
	}
	stands := map[string]bool{} // rentals for which a row stands
	for id, row := range m.rows {
		price := row.price
		if row.state == "stopped" {
			price = ptr(int64(modelDisk))
		}
		for _, x := range m.rentals {
			byName := row.name == provider.NamePrefix+x.ID
			if x.Instance == id || x.Instance == "" && byName && !row.gone && counts(row.state) {
				stands[x.ID] = true
			}
			if price == nil && (x.Instance == id || byName) {
				price = &x.Price
			}
		}
		if !row.gone && row.state != "gone" {
			add(row.tenant, price)
		}
	}
	for _, x := range m.rentals {
		l := m.leases[x.Instance]
		if !stands[x.ID] && (x.live() || l != nil && l.State != "ended") {
			add(x.Tenant, &x.Price)
		}
	}
	return sum
}

func (m *model) compare() {
	m.t.Helper()
	now, err := m.r.Spent(m.t.Context())
	must(m.t, err)
	stored := map[[2]string][2]int64{}
	for _, s := range now {
		stored[[2]string{s.Of, s.Name}] = [2]int64{s.PerHour, s.Unpriced}
	}
	for _, scope := range [][2]string{{provider.OfAccount, "a"}, {provider.OfTenant, "platform"}, {provider.OfTenant, "research"}} {
		want := m.spent(scope[0], scope[1])
		if got := stored[scope]; got != want {
			m.t.Errorf("%v: spent %v, want %v", scope, got, want)
		}
	}
	var charged int64 // for machines that were rented, by the company's own list
	for _, x := range m.rentals {
		if machine := m.machines[x.machine]; machine != nil && counts(machine.state) {
			charged += x.Price
		}
	}
	if now := m.spent(provider.OfAccount, "a"); now[0] < charged {
		m.t.Errorf("the company charges %d for what was rented, and only %d counts", charged, now[0])
	}
	list := listed(m.t, m.r, "a")
	var got, want []string
	for _, i := range list {
		got = append(got, fmt.Sprint(i.ID, i.Tenant, i.Name, i.State, show(i.Running), i.Missing))
	}
	for _, id := range slices.Sorted(maps.Keys(m.rows)) {
		if row := m.rows[id]; !row.gone {
			want = append(want, fmt.Sprint(id, row.tenant, row.name, row.state, show(row.price), row.missing))
		}
	}
	wantSame(m.t, "instances", strings.Join(got, "\n"), strings.Join(want, "\n"))
}
