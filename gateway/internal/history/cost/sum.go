package cost

import (
	"context"
	"slices"
	"time"

	"muster/gateway/api"
	"muster/store/costs"
)

// Sums sums the days of a time, with the days on which it begins and ends. nodes says which nodes count. The days are read one by one, so
// that a year of a large fleet needs only the memory of its sums. No more days are read than are kept. The caller fills in Name and Tenant.
func (d *Service) Sums(ctx context.Context, from, to time.Time, nodes func(id string) bool) (map[string]*api.NodeCost, error) {
	last := min(costs.DayOf(to), costs.DayOf(d.Now()))
	first := max(costs.DayOf(from), last-keptDays)
	days, err := d.Records.Days(ctx, first, last)
	if err != nil {
		return nil, err
	}
	newest, ofNewest := d.newest() // the database is behind these
	if first <= newest && newest <= last && !slices.Contains(days, newest) {
		days = append(days, newest)
		slices.Sort(days)
	}
	all := map[string]*api.NodeCost{}
	for _, day := range days {
		rows := ofNewest
		if day != newest {
			if rows, err = d.Records.OfDay(ctx, day); err != nil {
				return nil, err
			}
		}
		for _, r := range rows {
			if !nodes(r.NodeID) {
				continue
			}
			if all[r.NodeID] == nil {
				all[r.NodeID] = &api.NodeCost{NodeID: r.NodeID, Prices: []api.PriceSince{}}
			}
			add(all[r.NodeID], day, r)
		}
	}
	return all, nil
}

// newest is the day in memory, with its rows; 0: none was read yet.
func (d *Service) newest() (costs.Day, []costs.Row) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows := make([]costs.Row, 0, len(d.nodes))
	for id, s := range d.nodes {
		rows = append(rows, s.row(id))
	}
	return d.day, rows
}

func add(s *api.NodeCost, day costs.Day, r costs.Row) {
	s.Days++
	s.WatchedSeconds += r.Watched
	s.IdleGPUSeconds += r.Idle
	idle, all := money(r)
	if r.Watched > 0 {
		api.Add(&s.IdleCost, idle)
	}
	if api.Add(&s.Cost, all); all != nil {
		api.Add(&s.MeasuredCost, new(float64(r.Measured)/millionths))
	}
	var price *float64
	if r.Price != nil {
		price = new(float64(*r.Price) / millionths)
	}
	if n := len(s.Prices); n > 0 && same(s.Prices[n-1].PricePerHour, price) {
		return
	}
	s.Prices = append(s.Prices, api.PriceSince{Since: day.Time(), PricePerHour: price})
}

// money is what a day has cost, and how much of that its idle GPUs, where they were watched; nil: it had no price.
func money(r costs.Row) (idle, all *float64) {
	if r.Price == nil && r.Cost == 0 {
		return nil, nil
	}
	return new(float64(r.IdleCost) / millionths), new(float64(r.Cost) / millionths)
}

func same(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
