package reconcile_test

import (
	"testing"
	"time"

	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	rentals "muster/store/provider"
)

// TestEndsSoon: the end that a company has set is told a day before, unless the machine is given back before it.
func TestEndsSoon(t *testing.T) {
	for name, c := range map[string]struct {
		state string
		left  time.Duration
		act   string
		lease time.Duration // that it has left; 0: none
		want  string
	}{
		"a day":                {cloud.Running, 24 * time.Hour, "", 0, providers.FoundEndsSoon},
		"more than a day":      {cloud.Running, 25 * time.Hour, "", 0, ""},
		"in the past":          {cloud.Running, -time.Hour, "", 0, providers.FoundEndsSoon},
		"ending":               {cloud.Ending, time.Hour, "", 0, ""},
		"its lease ends first": {cloud.Running, 20 * time.Hour, providers.ActDestroy, 19 * time.Hour, ""},
		"its lease ends later": {cloud.Running, 20 * time.Hour, providers.ActDestroy, 21 * time.Hour, providers.FoundEndsSoon},
		"its lease keeps it":   {cloud.Running, 20 * time.Hour, providers.ActKeep, 19 * time.Hour, providers.FoundEndsSoon},
	} {
		var l *rentals.Lease
		if c.lease != 0 {
			l = &rentals.Lease{Account: "vast", Instance: "7", State: providers.LeaseLive, Act: c.act, EndsAt: now.Add(c.lease)}
		}
		found := look(seen(c.state, func(s *market.Seen) { s.EndsAt = to(now.Add(c.left)) }), nodes()["online"], l)
		if got := kinds(found); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if found := look(seen(cloud.Stopped, func(s *market.Seen) {
		s.EndsAt, s.Price = to(now.Add(time.Hour)), to(cloud.Money(0))
	}), nil, nil); len(found) != 1 || found[0].Next != "muster provider destroy vast/7" {
		t.Errorf("without a node: %+v", found)
	}
}
