package provider

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/label"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/reconcile"
	rentals "muster/store/provider"
)

// What a CostReport can be by, beside the key of a label.
const (
	byProvider = "provider"
	byTenant   = "tenant"
)

// Costs adds up what machines have cost. Each day of a machine counts once: by what a company charged for it, or else by the price in its
// node's label.
func (s *Service) Costs(ctx context.Context, f providers.CostReportFilter) (providers.CostReport, error) {
	b, err := s.newBill(f)
	if err != nil {
		return providers.CostReport{}, err
	}
	for n := min(dayOf(b.until.Add(-1)), dayOf(s.Now())); n >= dayOf(b.since); n-- { // backwards: what an instance became is known then
		rows, err := s.Records.Costs(ctx, n, n)
		if err != nil {
			return providers.CostReport{}, err
		}
		at := time.Unix(n*int64(day.Seconds()), 0).UTC()
		nodes, err := s.NodeCosts(ctx, at, at, func(id string) bool { return b.nodes[id] != nil })
		if err != nil {
			return providers.CostReport{}, err
		}
		b.day(rows, nodes)
	}
	return b.report(), nil
}

// bill adds up a report.
type bill struct {
	by           string
	since, until time.Time
	tenant       string
	terms        []label.Term
	nodes        map[string]*api.NodeRow // that count, by id
	nodeOf       map[[2]string]string    // the node that an instance is, or became
	machines     map[string]*spent
}

// spent is what one machine has cost.
type spent struct {
	group string
	providers.CostRow
}

func (s *Service) newBill(f providers.CostReportFilter) (*bill, error) {
	terms, err := label.ParseSelector(f.Selector)
	if err != nil {
		return nil, err
	}
	b := &bill{by: cmp.Or(f.By, byProvider), since: f.Since, until: f.Until, tenant: f.Tenant, terms: terms, nodes: map[string]*api.NodeRow{},
		nodeOf: map[[2]string]string{}, machines: map[string]*spent{}}
	if b.until.IsZero() {
		b.until = s.Now().UTC()
	}
	switch {
	case b.by != byProvider && b.by != byTenant && wire.CheckLabelKey(b.by) != nil:
		return nil, wire.Refuse(wire.CodeBadRequest, "costs cannot be added up by this", "by provider, tenant, or the key of a label")
	case !b.until.After(b.since):
		return nil, wire.Refuse(wire.CodeBadRequest, "this time ends before it begins", "give --since 7d, or a time before the end")
	case !s.Ready():
		return nil, wire.Refuse(wire.CodeUnavailable, "the gateway still reads the fleet", "try again in a few seconds")
	}
	accounts := s.market.Accounts()
	for _, n := range s.Nodes() {
		for _, a := range accounts { // until the next view says so
			if a.Kind == n.Provider && n.InstanceID != "" && n.State != wire.StateRetired {
				b.nodeOf[[2]string{a.Name, reconcile.InstanceID(a.Kind, n.InstanceID)}] = n.ID
			}
		}
		if (b.tenant == "" || n.Tenant == b.tenant) && label.Matches(terms, n) {
			b.nodes[n.ID] = n
		}
	}
	if keep := s.Now().Add(-keepDays * day); b.since.Before(keep) {
		b.since = keep
	}
	b.since = b.since.UTC().Truncate(day) // the sums are of whole days
	return b, nil
}

// day adds the rows of one day, and what nodes cost by themselves on it.
func (b *bill) day(rows []rentals.CostDay, nodes map[string]*api.NodeCost) {
	charged := map[string]rentals.CostRow{} // by machine
	for _, r := range rows {
		instance := [2]string{r.Account, r.Instance}
		id := cmp.Or(r.NodeID, b.nodeOf[instance])
		b.nodeOf[instance] = id
		if !b.counts(id, r.Tenant) {
			continue
		}
		machine := cmp.Or(id, r.Account+"/"+r.Instance)
		sum := charged[machine]
		sum.Account, sum.Tenant, sum.NodeID = r.Account, r.Tenant, id
		sum.Seconds += r.Seconds
		sum.Billed += r.Billed
		sum.Used += r.Used
		sum.Idle += r.Idle
		sum.Silent += r.Silent
		sum.Storage += r.Storage
		charged[machine] = sum
	}
	for machine, r := range charged {
		m := b.machine(machine, r.Account, r.Tenant)
		if r.Seconds > 0 {
			m.charge(r)
			delete(nodes, r.NodeID)
		}
	}
	for id, c := range nodes {
		b.machine(id, b.nodes[id].Provider, b.nodes[id].Tenant).own(c)
	}
}

// counts tells whether an instance is asked for: by its node, or if it has none by its tenant, which is all that is known of it.
func (b *bill) counts(nodeID, tenant string) bool {
	if nodeID != "" {
		return b.nodes[nodeID] != nil
	}
	return len(b.terms) == 0 && (b.tenant == "" || tenant == b.tenant)
}

// machine is what is added up of one machine, which is a node's id or the key of an instance.
func (b *bill) machine(id, provider, tenant string) *spent {
	m := b.machines[id]
	if m != nil {
		return m
	}
	m = &spent{}
	b.machines[id] = m
	n := b.nodes[id]
	switch {
	case b.by == byProvider:
		m.group = provider
	case b.by == byTenant && n != nil:
		m.group = n.Tenant
	case b.by == byTenant:
		m.group = tenant
	case n != nil:
		m.group = n.Labels[b.by]
	}
	return m
}

// charge adds what a company charged on one day.
func (m *spent) charge(r rentals.CostRow) {
	m.Hours += float64(r.Seconds) / time.Hour.Seconds()
	add(&m.Rented, r.Billed)
	add(&m.Silent, r.Silent)
	add(&m.Storage, r.Storage)
	if r.Used+r.Idle > 0 {
		add(&m.Used, r.Used)
		add(&m.Idle, r.Idle)
	}
	add(&m.Unmeasured, max(r.Billed-r.Used-r.Idle-r.Silent-r.Storage, 0))
}

// own adds what a node cost by its label on one day, while it was heard.
func (m *spent) own(c *api.NodeCost) {
	m.Hours += float64(c.WatchedSeconds) / time.Hour.Seconds()
	api.Add(&m.Rented, c.Cost)
	if c.Cost == nil || c.MeasuredCost == nil {
		return
	}
	unmeasured := *c.Cost - *c.MeasuredCost
	api.Add(&m.Unmeasured, &unmeasured)
	if *c.MeasuredCost > 0 && c.IdleCost != nil {
		used := *c.MeasuredCost - *c.IdleCost
		api.Add(&m.Used, &used)
		api.Add(&m.Idle, c.IdleCost)
	}
}

func add(sum **float64, millionths int64) {
	dollars := cloud.Money(millionths).Dollars()
	api.Add(sum, &dollars)
}

// report sums the machines by their groups.
func (b *bill) report() providers.CostReport {
	groups := map[string]*providers.CostRow{}
	r := providers.CostReport{By: b.by, Since: b.since, Until: b.until, Rows: []providers.CostRow{}}
	for _, id := range slices.Sorted(maps.Keys(b.machines)) {
		m := b.machines[id]
		g := groups[m.group]
		if g == nil {
			g = &providers.CostRow{Group: m.group}
			groups[m.group] = g
		}
		m.into(g)
		m.into(&r.Total)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		r.Rows = append(r.Rows, *groups[name])
	}
	return r
}

// into adds a machine to a sum. All money is an estimate: by a price and time, never by a bill.
func (m *spent) into(sum *providers.CostRow) {
	sum.Machines++
	sum.Hours += m.Hours
	if m.Rented == nil {
		sum.Unpriced++
		return
	}
	sum.Estimate = true
	api.Add(&sum.Rented, m.Rented)
	api.Add(&sum.Used, m.Used)
	api.Add(&sum.Idle, m.Idle)
	api.Add(&sum.Silent, m.Silent)
	api.Add(&sum.Unmeasured, m.Unmeasured)
	api.Add(&sum.Storage, m.Storage)
}
