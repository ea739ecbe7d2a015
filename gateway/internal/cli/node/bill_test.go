package node

import (
	"testing"
	"time"

	"muster/gateway/api"
)

// TestBill: from joining to the return, or to now, within what was asked for, times the price.
func TestBill(t *testing.T) {
	until := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ago := func(hours float64) *time.Time {
		at := until.Add(-time.Duration(hours * float64(time.Hour)))
		return &at
	}
	price := 2.0
	var sum billSum
	for _, c := range []struct {
		name                    string
		joined, returned, since *time.Time
		hours                   float64
		counts                  bool
	}{
		{"never joined", nil, nil, nil, 0, false},
		{"still there", ago(10), nil, nil, 10, true},
		{"given back", ago(10), ago(4), nil, 6, true},
		{"given back later, by another clock", ago(10), ago(-1), nil, 10, true},
		{"since later", ago(10), nil, ago(3), 3, true},
		{"since earlier", ago(10), ago(4), ago(20), 6, true},
		{"given back before that", ago(10), ago(4), ago(3), 0, false},
		{"joined just now", ago(0), nil, nil, 0, false},
	} {
		n := api.Node{Name: c.name, EnrolledAt: c.joined, RetiredAt: c.returned, PricePerHour: &price}
		l, counts := lineOf(n, api.NodeCost{}, c.since, until)
		if counts != c.counts || counts && (l.Hours != c.hours || *l.Cost != 2*c.hours) {
			t.Errorf("%s: %+v, counts %v", c.name, l, counts)
		}
		if counts {
			sum.add(l)
		}
	}
	free, _ := lineOf(api.Node{EnrolledAt: ago(1)}, api.NodeCost{}, nil, until)
	sum.add(free)
	if sum.Count != 6 || sum.Unpriced != 1 || sum.Hours != 36 || *sum.Cost != 70 {
		t.Errorf("the sum is %+v", sum)
	}
}

// TestBillUnwatched: what idle GPUs cost is not known if nobody watched them, or if there is no price, though an older gateway says 0.
func TestBillUnwatched(t *testing.T) {
	until := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	joined := until.Add(-time.Hour)
	price := 2.0
	for _, c := range []struct {
		price   *float64
		watched int64
		known   bool
	}{{&price, 60, true}, {&price, 0, false}, {nil, 60, false}} {
		n := api.Node{EnrolledAt: &joined, PricePerHour: c.price}
		l, _ := lineOf(n, api.NodeCost{WatchedSeconds: c.watched, IdleCost: new(float64)}, nil, until)
		if (l.IdleCost != nil) != c.known {
			t.Errorf("%+v: %v", c, l.IdleCost)
		}
	}
}

// TestBillGroups: a sum for each value of a label, in order; nodes without it are one group.
func TestBillGroups(t *testing.T) {
	cost := 3.0
	got := groups([]billLine{{group: "b", Hours: 1, Cost: &cost}, {group: "a", Hours: 2}, {Hours: 4}, {group: "b", Hours: 1, Cost: &cost}})
	if len(got) != 3 || got[0].Value != "" || got[1].Unpriced != 1 || got[2].Value != "b" || got[1].Cost != nil || *got[2].Cost != 6 || got[2].Count != 2 {
		t.Errorf("groups %+v", got)
	}
}

// TestBillPrices: a day counts by the price that was recorded for it, and by the price of now if none was.
func TestBillPrices(t *testing.T) {
	day := func(n int, hour float64) time.Time {
		return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC).Add(time.Duration(hour * float64(time.Hour)))
	}
	to := func(price float64) *float64 { return &price }
	recorded := []api.PriceSince{{Since: day(10, 0), PricePerHour: to(2)}, {Since: day(12, 0), PricePerHour: to(3)},
		{Since: day(14, 0)}}
	until := day(16, 12)
	for what, c := range map[string]struct {
		from, to time.Time
		recorded []api.PriceSince
		now      *float64
		want     float64 // -1: no price
	}{
		"nothing recorded":         {day(10, 0), day(11, 0), nil, to(5), 120},
		"no price at all":          {day(10, 0), day(11, 0), nil, nil, -1},
		"one day":                  {day(10, 12), day(11, 0), recorded, to(5), 24},
		"over a change":            {day(11, 12), day(12, 12), recorded, to(5), 60},
		"before the records":       {day(9, 12), day(10, 12), recorded, to(5), 84},
		"recorded without a price": {day(13, 12), day(14, 12), recorded, to(5), 96},
		"the present day":          {day(13, 0), until, recorded, to(5), 72 + 60*5},
		"joined on the day":        {day(16, 2), until, recorded, to(5), 50},
		"the price was taken away": {day(11, 0), until, recorded, nil, 48 + 144},
		"since after it all":       {day(16, 12), until, recorded, to(5), -1},
	} {
		got := costOf(c.from, c.to, until, c.recorded, c.now)
		if got == nil && c.want != -1 || got != nil && *got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}
