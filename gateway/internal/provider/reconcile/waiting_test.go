package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	"muster/gateway/internal/provider/reconcile"
)

// TestWaiting: a machine that cannot be judged yet is counted, with the reason, and is no finding.
func TestWaiting(t *testing.T) {
	t.Parallel()
	since := func(d time.Duration) func(*market.Seen) { return func(s *market.Seen) { s.FirstAt = ago(d) } }
	given := nodes()["retired"]
	given.StateSince = ago(30 * time.Second)
	const old, joins = "no complete view of the account is of now", "running for less than 15 minutes, and still to join"
	for name, c := range map[string]struct {
		seen  *market.Seen
		node  *api.NodeRow
		known bool
		want  string
	}{
		"well":                  {seen(cloud.Running), nodes()["online"], true, ""},
		"a finding":             {seen(cloud.Running), nodes()["stale"], true, ""},
		"just runs":             {seen(cloud.Running, since(14*time.Minute)), nil, true, joins},
		"runs for long":         {seen(cloud.Running), nil, true, ""},
		"starts":                {seen(cloud.Starting, since(29*time.Minute)), nil, true, "starting for less than 30 minutes"},
		"just joined":           {seen(cloud.Running), nodes()["young"], true, "node joined less than 15 minutes ago, and not heard yet"},
		"the gateway's start":   {seen(cloud.Running), nodes()["unheard"], true, "node not heard since the gateway started"},
		"given back":            {seen(cloud.Running), given, true, "node just given back"},
		"given back for long":   {seen(cloud.Running), nodes()["retired"], true, ""},
		"no word, just seen":    {seen(cloud.Unknown, since(time.Minute)), nil, true, "seen for less than 15 minutes, and in no known state"},
		"no word, unheard":      {seen(cloud.Unknown), nodes()["unheard"], true, "node not heard since the gateway started"},
		"stopped":               {seen(cloud.Stopped), nodes()["unheard"], true, ""},
		"an old view":           {seen(cloud.Running), nodes()["online"], false, old},
		"old, and just runs":    {seen(cloud.Running, since(time.Minute)), nil, false, old},
		"in no view":            {nil, nodes()["online"], true, ""},
		"in no view, and young": {nil, nodes()["young"], true, "newer than the view of the account"},
		"in no view, and old":   {nil, nodes()["online"], false, old},
	} {
		a := reconcile.Account{Name: "vast", Kind: cloud.Vast, Tenant: "lab", Known: c.known, At: &now}
		if c.seen != nil {
			a.Seen = []*market.Seen{c.seen}
		}
		var rows []*api.NodeRow
		if c.node != nil {
			rows = append(rows, c.node)
		}
		accounts := []reconcile.Account{a}
		found, waiting := reconcile.Find(accounts, reconcile.Join(accounts, rows, nil), now)
		var text []string
		for w, n := range waiting {
			text = append(text, fmt.Sprintf("%d %s %s %s", n, w.Account, w.Tenant, w.Why))
		}
		slices.Sort(text)
		want := ""
		if c.want != "" {
			want = "1 vast lab " + c.want
		}
		if got := strings.Join(text, "; "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if c.known && c.want != "" && len(found) > 0 {
			t.Errorf("%s: it is judged too: %+v", name, found)
		}
	}
}

// TestWaitingOrFine: with a view of now, a machine that runs and is heard is neither waited for nor a finding, and one that runs and is
// not is one of both.
func TestWaitingOrFine(t *testing.T) {
	t.Parallel()
	for name, n := range nodes() {
		for _, age := range []time.Duration{time.Second, time.Hour} {
			s := seen(cloud.Running, func(s *market.Seen) { s.FirstAt = ago(age) })
			a := []reconcile.Account{{Name: "vast", Kind: cloud.Vast, Known: true, At: &now, Seen: []*market.Seen{s}}}
			var rows []*api.NodeRow
			if n != nil {
				rows = append(rows, n)
			}
			found, waiting := reconcile.Find(a, reconcile.Join(a, rows, nil), now)
			isHeard := n != nil && n.State != wire.StateRetired && n.Status == wire.StatusOnline && !n.Unheard
			if got := len(found) + len(waiting); got > 1 || (got == 0) != isHeard {
				t.Errorf("%s after %s: %d findings, and waits for %v", name, age, len(found), waiting)
			}
		}
	}
}
