package cost

import (
	"context"
	"time"

	"muster/store/costs"
)

// Sum is what was seen of one node over some days.
type Sum struct {
	Days     int // with a row
	Watched  time.Duration
	Idle     time.Duration // of each idle GPU by itself
	IdleCost float64
	Cost     float64
	Prices   []Price // by day
}

// Price is what a node cost in an hour from a day on, until the next one of its list.
type Price struct {
	From    time.Time // the day's beginning
	PerHour *float64  // nil: it had none
}

// Sums sums the days of a time, those included on which it begins and ends. nodes says which nodes count. The days are read one by one, so
// that a year of a large fleet needs the memory of its sums. No more days are read than are kept.
func (d *Desk) Sums(ctx context.Context, from, to time.Time, nodes func(id string) bool) (map[string]*Sum, error) {
	last := min(costs.DayOf(to), costs.DayOf(d.Now()))
	days, err := d.Records.Days(ctx, max(costs.DayOf(from), last-keptDays), last)
	if err != nil {
		return nil, err
	}
	all := map[string]*Sum{}
	for _, day := range days {
		rows, err := d.Records.OfDay(ctx, day)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if !nodes(r.NodeID) {
				continue
			}
			if all[r.NodeID] == nil {
				all[r.NodeID] = &Sum{}
			}
			all[r.NodeID].add(day, r)
		}
	}
	return all, nil
}

func (s *Sum) add(day costs.Day, r costs.Row) {
	s.Days++
	s.Watched += time.Duration(r.Watched) * time.Second
	s.Idle += time.Duration(r.Idle) * time.Second
	s.IdleCost += float64(r.IdleCost) / millionths
	s.Cost += float64(r.Cost) / millionths
	var price *float64
	if r.Price != nil {
		perHour := float64(*r.Price) / millionths
		price = &perHour
	}
	if n := len(s.Prices); n > 0 && same(s.Prices[n-1].PerHour, price) {
		return
	}
	s.Prices = append(s.Prices, Price{From: day.Time(), PerHour: price})
}

func same(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
