package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	"muster/gateway/internal/provider/reconcile"
	rentals "muster/store/provider"
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
		"given back":            {seen(cloud.Running), given, true, "its node was just given back at $2 an hour"},
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

// TestLeaving: what is charged while a machine is given back is told at once, each machine by itself, until it is gone or a finding.
func TestLeaving(t *testing.T) {
	t.Parallel()
	young := nodes()["retired"]
	young.StateSince = now
	stops := leases()["ending"]
	stops.Act = providers.ActStop
	for name, c := range map[string]struct {
		seen  *market.Seen
		node  *api.NodeRow
		lease *rentals.Lease
		want  string
	}{
		"just retired":       {seen(cloud.Running), young, nil, "7 48: its node was just given back at $2 an hour"},
		"retired, destroyed": {seen(cloud.Running), nodes()["retired"], leases()["ending"], "7 48: it is being destroyed at $2 an hour"},
		"retired, it ends":   {seen(cloud.Ending), young, leases()["ending"], "7 48: it is being destroyed at $2 an hour"},
		"retired, it starts": {seen(cloud.Starting, func(s *market.Seen) { s.FirstAt = now }), young, nil,
			"7 48: starting for less than 30 minutes at $2 an hour"},
		"stopped": {seen(cloud.Running), nodes()["retired"], stops, "7 48: it is being stopped at $2 an hour"},
		"price not known": {seen(cloud.Running, func(s *market.Seen) { s.Price = nil }), nil, leases()["ending"],
			"7 0: it is being destroyed, at a price that is not known"},
		"silent, its end":     {seen(cloud.Running), nodes()["stale"], leases()["draining"], "7 48: it is being stopped at $2 an hour"},
		"heard, and asked":    {seen(cloud.Running), nodes()["online"], leases()["ending"], "7 48: it is being destroyed at $2 an hour"},
		"heard, and finishes": {seen(cloud.Running), nodes()["online"], leases()["draining"], ""},
		"stuck is a finding":  {seen(cloud.Running), nodes()["retired"], leases()["stuck"], ""},
		"gone":                {nil, nodes()["retired"], leases()["ending"], ""},
	} {
		a := reconcile.Account{Name: "vast", Kind: cloud.Vast, Tenant: "lab", Known: true, At: &now}
		if c.seen != nil {
			a.Seen = []*market.Seen{c.seen}
		}
		var rows []*api.NodeRow
		if c.node != nil {
			rows = append(rows, c.node)
		}
		var all []rentals.Lease
		if c.lease != nil {
			all = append(all, *c.lease)
		}
		accounts := []reconcile.Account{a}
		_, waiting := reconcile.Find(accounts, reconcile.Join(accounts, rows, all), now)
		text := ""
		for w, n := range waiting {
			text += fmt.Sprintf("%s %g: %s", w.Instance, w.PerDay, w.Why)
			if n != 1 || w.Account != "vast" || w.Tenant != "lab" {
				t.Errorf("%s: %d %+v", name, n, w)
			}
		}
		if text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// TestGone: a machine that the account had and has no longer is told as such, unless muster gives it back. A node whose last word is of
// before that is not heard.
func TestGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		node  *api.NodeRow
		gone  time.Time
		lease *rentals.Lease
		want  string
	}{
		"heard before": {nodes()["online"], now, nil, "its machine is gone, and its node is not heard since"},
		"heard since": {nodes()["online"], ago(time.Minute), nil, "gone_at_provider muster node retire gpu-1 gpu-1 (vast/7): the company " +
			"has it no longer since 2026-11-29T11:59:00Z, and the node is still heard: another machine may use its identity"},
		"silent": {nodes()["stale"], ago(time.Minute), nil, "gone_at_provider muster node retire gpu-1 gpu-1 (vast/7): the company has no " +
			"such instance any more, and the node is not heard from since 2026-11-29T11:00:00Z"},
		"given back": {nodes()["stale"], ago(time.Minute), leases()["ending"], "it is gone, and is being given back"},
	} {
		accounts := []reconcile.Account{{Name: "vast", Kind: cloud.Vast, Known: true, At: &now}}
		found, waiting := reconcile.Find(accounts, []reconcile.Machine{{Account: "vast", ID: "7", Node: c.node, Lease: c.lease, Gone: &c.gone}},
			now)
		text := ""
		for _, f := range found {
			text += f.Kind + " " + f.Next + " " + f.Text
		}
		for w := range waiting {
			text += w.Why
		}
		if text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
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
