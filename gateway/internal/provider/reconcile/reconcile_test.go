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

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func to[T any](v T) *T { return &v }

func ago(d time.Duration) time.Time { return now.Add(-d) }

// seen is an instance that costs 2 dollars an hour, or its disk 0.25, and is there for a day.
func seen(state string, change ...func(*market.Seen)) *market.Seen {
	s := &market.Seen{Account: "vast", Kind: cloud.Vast, Tenant: "lab", FirstAt: ago(24 * time.Hour), SeenAt: now,
		Instance: cloud.Instance{ID: "7", State: state, Raw: "raw_" + state, Price: to(2 * cloud.Dollar), Storage: to(cloud.Dollar / 4)}}
	if state == cloud.Stopped || state == cloud.Broken {
		s.Price = s.Storage
	}
	for _, c := range change {
		c(s)
	}
	return s
}

// nodes are all that a node of the instance can be like.
func nodes() map[string]*api.NodeRow {
	row := func(state, status string, heard *time.Time) *api.NodeRow {
		return &api.NodeRow{ID: "id-1", Name: "gpu-1", Tenant: "lab", Provider: cloud.Vast, InstanceID: "C.7", State: state, Status: status,
			LastSeen: heard, StateSince: ago(time.Hour), CreatedAt: ago(20 * time.Hour)}
	}
	unheard := row(wire.StateActive, wire.StatusOnline, to(ago(time.Minute)))
	unheard.Unheard = true
	young := row(wire.StateEnrolled, wire.StatusPending, nil)
	young.CreatedAt = ago(time.Minute)
	return map[string]*api.NodeRow{
		"none": nil, "online": row(wire.StateActive, wire.StatusOnline, to(now)), "unheard": unheard,
		"drained": row(wire.StateDrained, wire.StatusOnline, to(now)),
		"stale":   row(wire.StateActive, wire.StatusStale, to(ago(time.Hour))),
		"pending": row(wire.StateEnrolled, wire.StatusPending, nil), "young": young,
		"retired": row(wire.StateRetired, wire.StatusStale, to(ago(2*time.Hour))),
	}
}

// leases are all that a lease of the instance can be like.
func leases() map[string]*rentals.Lease {
	lease := func(state, act string, left time.Duration, asked *time.Time) *rentals.Lease {
		return &rentals.Lease{Account: "vast", Instance: "7", Tenant: "lab", Owner: "ada", State: state, Act: act, EndsAt: now.Add(left),
			AskedAt: asked, Version: 1}
	}
	return map[string]*rentals.Lease{
		"none": nil, "live": lease(providers.LeaseLive, providers.ActDestroy, 5*time.Hour, nil),
		"ends":       lease(providers.LeaseLive, providers.ActDestroy, 15*time.Minute, nil),
		"passed":     lease(providers.LeaseLive, providers.ActDestroy, -time.Minute, nil),
		"draining":   lease(providers.LeaseDraining, providers.ActStop, -9*time.Minute, nil),
		"ending":     lease(providers.LeaseEnding, providers.ActDestroy, -12*time.Minute, to(ago(2*time.Minute))),
		"stuck":      lease(providers.LeaseEnding, providers.ActDestroy, -20*time.Minute, to(ago(10*time.Minute))),
		"never asks": lease(providers.LeaseDraining, providers.ActStop, -25*time.Minute, nil),
		"kept":       lease(providers.LeaseLive, providers.ActKeep, -time.Minute, nil),
		"keeps":      lease(providers.LeaseLive, providers.ActKeep, 10*time.Minute, nil),
		"ended":      lease(providers.LeaseEnded, providers.ActDestroy, -time.Hour, to(ago(time.Hour))),
	}
}

// look reconciles one machine.
func look(s *market.Seen, n *api.NodeRow, l *rentals.Lease) []providers.Finding {
	a := reconcile.Account{Name: "vast", Kind: cloud.Vast, Tenant: "lab", Known: true, At: &now}
	if s != nil {
		a.Seen = []*market.Seen{s}
	}
	var rows []*api.NodeRow
	if n != nil {
		rows = append(rows, n)
	}
	var all []rentals.Lease
	if l != nil {
		all = append(all, *l)
	}
	accounts := []reconcile.Account{a}
	found, _ := reconcile.Find(accounts, reconcile.Join(accounts, rows, all), now)
	return found
}

func kinds(found []providers.Finding) string {
	var all []string
	for _, f := range found {
		all = append(all, f.Kind)
	}
	return strings.Join(all, " ")
}

// TestStates: what follows from the state there and the node here. What is not in the table makes no finding.
func TestStates(t *testing.T) {
	want := map[string]string{
		"running none": providers.FoundNeverEnrolled, "running stale": providers.FoundBilledSilent,
		"running pending": providers.FoundBilledSilent,
		"running retired": providers.FoundBilledSilent,
		"starting none":   providers.FoundNeverEnrolled, "starting stale": providers.FoundDown, "starting pending": providers.FoundDown,
		"starting retired": providers.FoundNeverEnrolled,
		"unknown none":     providers.FoundUnknown, "unknown stale": providers.FoundUnknown, "unknown pending": providers.FoundUnknown,
		"unknown retired": providers.FoundUnknown,
		"absent online":   providers.FoundGone, "absent unheard": providers.FoundGone, "absent drained": providers.FoundGone,
		"absent stale": providers.FoundGone,
	}
	for _, state := range []string{cloud.Stopped, cloud.Broken} {
		for node := range nodes() {
			want[state+" "+node] = providers.FoundDown
			if node == "none" || node == "retired" {
				want[state+" "+node] = providers.FoundStorage
			}
		}
	}
	tried := 0
	for _, state := range []string{cloud.Starting, cloud.Running, cloud.Stopped, cloud.Broken, cloud.Ending, cloud.Gone, cloud.Unknown,
		"absent"} {
		for node, row := range nodes() {
			s := seen(state)
			if state == "absent" {
				s = nil
			}
			found := look(s, row, nil)
			if got := kinds(found); got != want[state+" "+node] {
				t.Errorf("%s there, node %s: %q, want %q", state, node, got, want[state+" "+node])
			}
			if want[state+" "+node] != "" {
				tried++
			}
			for _, f := range found {
				complete(t, f)
			}
		}
	}
	if tried != len(want) {
		t.Errorf("%d of %d were tried", tried, len(want))
	}
}

// complete: a finding says what, whose, how bad, and what to do.
func complete(t *testing.T, f providers.Finding) {
	t.Helper()
	isUnknown := f.Kind == providers.FoundUnknown
	if f.Severity == "" || f.Provider != "vast" || f.Tenant != "lab" || !strings.HasPrefix(f.Next, "muster ") || f.Text == "" ||
		!strings.Contains(f.Text, "vast") || (f.PerDay == nil) != isUnknown {
		t.Errorf("not complete: %+v", f)
	}
}

// TestLeases: a lease that goes on changes nothing, one at whose end the machine is being given back hides what follows from that, and one
// that ends or does not end is told.
func TestLeases(t *testing.T) {
	const silent, never = providers.FoundBilledSilent, providers.FoundNeverEnrolled
	own := map[string]string{"ends": providers.FoundEnding, "keeps": providers.FoundEnding, "stuck": providers.FoundOverdue,
		"never asks": providers.FoundOverdue,
		"kept":       providers.FoundOverdue}
	hides := []string{"draining", "ending", "stuck", "never asks"}
	for name, l := range leases() {
		for _, c := range []struct{ state, node, finds string }{
			{cloud.Running, "online", ""}, {cloud.Running, "stale", silent}, {cloud.Running, "none", never}, {cloud.Running, "retired", silent},
			{cloud.Stopped, "stale", providers.FoundDown}, {cloud.Stopped, "none", providers.FoundStorage}, {cloud.Starting, "none", never},
			{cloud.Ending, "none", ""},
		} {
			want := c.finds
			if slices.Contains(hides, name) {
				want = ""
			}
			want = strings.TrimSpace(want + " " + own[name])
			if got := kinds(look(seen(c.state), nodes()[c.node], l)); got != want {
				t.Errorf("%s, node %s, lease %s: %q, want %q", c.state, c.node, name, got, want)
			}
		}
	}
}

// TestPatience: what may be over in a moment is not told.
func TestPatience(t *testing.T) {
	young := func(d time.Duration) func(*market.Seen) {
		return func(s *market.Seen) { s.FirstAt = ago(d) }
	}
	returned := func(d time.Duration) *api.NodeRow {
		n := nodes()["retired"]
		n.StateSince = ago(d)
		return n
	}
	for name, c := range map[string]struct {
		seen *market.Seen
		node *api.NodeRow
		want string
	}{
		"runs for 14 minutes": {seen(cloud.Running, young(14*time.Minute)), nil, ""},
		"runs for 15 minutes": {seen(cloud.Running, young(15*time.Minute)), nil, providers.FoundNeverEnrolled},
		"seen late": {seen(cloud.Running, young(0), func(s *market.Seen) { s.StartedAt = to(ago(time.Hour)) }), nil,
			providers.FoundNeverEnrolled},
		"starts for 29 minutes": {seen(cloud.Starting, young(29*time.Minute)), nil, ""},
		"starts for 30 minutes": {seen(cloud.Starting, young(30*time.Minute)), nil, providers.FoundNeverEnrolled},
		"started in the future": {seen(cloud.Running, func(s *market.Seen) { s.StartedAt = to(now.Add(time.Hour)) }), nil,
			providers.FoundNeverEnrolled},
		"unknown for a minute":    {seen(cloud.Unknown, young(time.Minute)), nil, ""},
		"returned seconds ago":    {seen(cloud.Running), returned(30 * time.Second), ""},
		"returned a minute ago":   {seen(cloud.Running), returned(time.Minute), providers.FoundBilledSilent},
		"stopped without a cost":  {seen(cloud.Stopped, func(s *market.Seen) { s.Price = to(cloud.Money(0)) }), nil, ""},
		"stopped, cost not known": {seen(cloud.Stopped, func(s *market.Seen) { s.Price, s.Storage = nil, nil }), nil, providers.FoundStorage},
	} {
		if got := kinds(look(c.seen, c.node, nil)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWords: each kind with its text, its cost a day and its command.
func TestWords(t *testing.T) {
	labelled := nodes()["online"]
	labelled.PricePerHour = to(1.5)
	cheap := nodes()["online"]
	cheap.PricePerHour = to(2.5)
	for name, c := range map[string]struct {
		seen  *market.Seen
		node  *api.NodeRow
		lease *rentals.Lease
		text  string
		day   float64 // -1: not known
		next  string
	}{
		"silent": {seen(cloud.Running), nodes()["stale"], nil,
			"gpu-1 (vast/7): it runs at $2 an hour, and its node is not heard from since 2026-11-29T11:00:00Z", 48,
			"muster provider onboard vast/7"},
		"silent, price not known": {seen(cloud.Running, func(s *market.Seen) { s.Price = nil }), nodes()["pending"], nil,
			"gpu-1 (vast/7): it runs, at a price that is not known, and its node is not heard from yet, since 2026-11-28T16:00:00Z", -1,
			"muster provider onboard vast/7"},
		"given back here alone": {seen(cloud.Running), nodes()["retired"], nil,
			"gpu-1 (vast/7): it runs at $2 an hour, and its node was given back at 2026-11-29T11:00:00Z", 48, "muster provider destroy vast/7"},
		"never enrolled": {seen(cloud.Running), nil, nil,
			"vast/7: it runs since 2026-11-28T12:00:00Z at $2 an hour, and no node says that it is this", 48, "muster provider onboard vast/7"},
		"starts for ever": {seen(cloud.Starting, func(s *market.Seen) { s.Why = "OCI runtime create failed." }), nil, nil,
			"vast/7: it starts since 2026-11-28T12:00:00Z at $2 an hour, and the company says: OCI runtime create failed", 48,
			"muster provider destroy vast/7"},
		"stopped, and no node is there": {seen(cloud.Stopped), nil, nil, "vast/7: it is stopped, and its disk is charged at $0.25 an hour", 6,
			"muster provider destroy vast/7"},
		"stopped a moment ago": {seen(cloud.Stopped), nodes()["online"], nil,
			"gpu-1 (vast/7): it is stopped there at $0.25 an hour, and its node is still heard", 6, "muster provider start vast/7"},
		"stopped, and its disk is charged": {seen(cloud.Stopped), nodes()["stale"], nil,
			"gpu-1 (vast/7): it is stopped there at $0.25 an hour, and its node is not heard from since 2026-11-29T11:00:00Z", 6,
			"muster provider start vast/7"},
		"stopped and down": {seen(cloud.Stopped, func(s *market.Seen) { s.Price, s.Storage = to(cloud.Money(0)), nil }), nodes()["stale"], nil,
			"gpu-1 (vast/7): it is stopped there at $0 an hour, and its node is not heard from since 2026-11-29T11:00:00Z", 0,
			"muster provider start vast/7"},
		"stopped, and rented": {seen(cloud.Stopped, func(s *market.Seen) { s.Name, s.Price = "muster-aaaaaaaaaaaaaaaa", to(cloud.Money(0)) }),
			nodes()["stale"], nil,
			"gpu-1 (vast/7): it is stopped there at $0 an hour, and its node is not heard from since 2026-11-29T11:00:00Z", 0,
			"muster lease set vast/7 8h && muster provider start vast/7"},
		"stopped, and rented, under a lease": {
			seen(cloud.Stopped, func(s *market.Seen) { s.Name, s.Price = "muster-aaaaaaaaaaaaaaaa", to(cloud.Money(0)) }),
			nodes()["stale"], leases()["live"],
			"gpu-1 (vast/7): it is stopped there at $0 an hour, and its node is not heard from since 2026-11-29T11:00:00Z", 0,
			"muster provider start vast/7"},
		"broken and down": {seen(cloud.Broken, func(s *market.Seen) { s.Price = to(cloud.Money(0)) }), nodes()["stale"], nil,
			"gpu-1 (vast/7): it is broken (raw_broken) at $0 an hour, and its node is not heard from since 2026-11-29T11:00:00Z", 0,
			"muster provider destroy vast/7"},
		"broken, and no node is there": {seen(cloud.Broken, func(s *market.Seen) { s.Price = to(2 * cloud.Dollar) }), nil, nil,
			"vast/7: it is broken (raw_broken), and it is charged at $2 an hour", 48, "muster provider destroy vast/7"},
		"outbid": {seen(cloud.Stopped, func(s *market.Seen) { s.Outbid = true }), nodes()["stale"], nil,
			"gpu-1 (vast/7): somebody else pays more, so it is stopped at $0.25 an hour; it goes on by itself if it can", 6,
			"muster provider destroy vast/7"},
		"gone": {nil, nodes()["online"], nil, "gpu-1 (vast/7): the node is heard, and the company shows no such instance: it may be on an " +
			"account that muster does not have, or the list is wrong", 0, "muster provider sync vast"},
		"gone and silent": {nil, nodes()["stale"], nil,
			"gpu-1 (vast/7): the company has no such instance any more, and the node is not heard " +
				"from since 2026-11-29T11:00:00Z", 0, "muster node retire gpu-1"},
		"ends soon": {seen(cloud.Running, func(s *market.Seen) { s.EndsAt = to(now.Add(20 * time.Hour)) }), nodes()["online"], nil,
			"gpu-1 (vast/7): the company ends it at 2026-11-30T08:00:00Z", 0, "muster node return gpu-1 --destroy"},
		"unknown": {seen(cloud.Unknown), nodes()["stale"], nil, `gpu-1 (vast/7): the company does not say whether it runs ("raw_unknown"), and ` +
			"its node is not heard from since 2026-11-29T11:00:00Z: what it costs is not known", -1, "muster provider sync vast"},
		"costs more": {seen(cloud.Running), labelled, nil, "gpu-1 (vast/7): the company charges $2 an hour, and the node's label says 1.5", 12,
			"muster node label gpu-1 price_per_hour=2"},
		"costs less": {seen(cloud.Running), cheap, nil, "gpu-1 (vast/7): the company charges $2 an hour, and the node's label says 2.5", 0,
			"muster node label gpu-1 price_per_hour=2"},
		"lease ends": {seen(cloud.Running), nodes()["online"], leases()["ends"],
			"gpu-1 (vast/7): its lease of ada ends at 2026-11-29T12:15:00Z: it is destroyed then", 0, "muster lease extend gpu-1 2h"},
		"lease ends as another one has set": {seen(cloud.Running), nodes()["online"], func() *rentals.Lease {
			l := leases()["ends"]
			l.Why = "set by bob"
			return l
		}(), "gpu-1 (vast/7): its lease of ada ends at 2026-11-29T12:15:00Z (set by bob): it is destroyed then", 0,
			"muster lease extend gpu-1 2h"},
		"kept": {seen(cloud.Running), nodes()["online"], leases()["kept"],
			"gpu-1 (vast/7): its lease ended at 2026-11-29T11:59:00Z, and it is kept at $2 an hour", 48, "muster lease set gpu-1 8h"},
		"overdue": {seen(cloud.Running), nil, leases()["stuck"],
			"vast/7: its lease ended at 2026-11-29T11:40:00Z, and the company has not done " +
				"what it was asked for (destroy) at $2 an hour", 48, "muster provider destroy vast/7"},
	} {
		found := look(c.seen, c.node, c.lease)
		if len(found) != 1 {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		f := found[0]
		perDay := -1.0
		if f.PerDay != nil {
			perDay = *f.PerDay
		}
		if f.Text != c.text || perDay != c.day || f.Next != c.next {
			t.Errorf("%s:\n%s %g %s, want\n%s %g %s", name, f.Text, perDay, f.Next, c.text, c.day, c.next)
		}
	}
}

// TestUnseen: an account without a view of now is one finding, and what one says that was never asked is none.
func TestUnseen(t *testing.T) {
	accounts := []reconcile.Account{
		{Name: "a", Tenant: "lab", At: to(ago(time.Hour)), Error: "HTTP 503: (unclear)"}, {Name: "b"},
		{Name: "c", Starts: true}, {Name: "d", Known: true},
	}
	text := ""
	found, _ := reconcile.Find(accounts, nil, now)
	for _, f := range found {
		text += f.Kind + " " + f.Next + " " + f.Text + "\n"
	}
	want := "provider_unknown muster provider sync a a: not seen since 2026-11-29T11:00:00Z: what runs there now, and what that costs, is " +
		"not known; the company says: HTTP 503: (unclear)\n" +
		"provider_unknown muster provider sync b b: never seen: what the account has, and what that costs, is not known\n"
	if text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}

// TestJoin: who is whose.
func TestJoin(t *testing.T) {
	at := func(account, id string) *market.Seen {
		return &market.Seen{Account: account, Instance: cloud.Instance{ID: id}}
	}
	node := func(name, kind, id string, change ...func(*api.NodeRow)) *api.NodeRow {
		n := &api.NodeRow{ID: name, Name: name, Provider: kind, InstanceID: id, State: wire.StateActive, LastSeen: to(ago(time.Hour)),
			CreatedAt: ago(24 * time.Hour)}
		for _, c := range change {
			c(n)
		}
		return n
	}
	retired := func(n *api.NodeRow) { n.State, n.LastSeen = wire.StateRetired, to(now) }
	never := func(n *api.NodeRow) { n.LastSeen = nil }
	heard := func(n *api.NodeRow) { n.LastSeen = to(ago(time.Minute)) }
	young := func(n *api.NodeRow) { n.CreatedAt = ago(5 * time.Minute) }
	lab := func(n *api.NodeRow) { n.Tenant = "lab" }
	vast := reconcile.Account{Name: "a", Kind: cloud.Vast, Known: true, At: &now, Seen: []*market.Seen{at("a", "1"), at("a", "2")}}
	other := reconcile.Account{Name: "b", Kind: cloud.Vast, Tenant: "lab", Known: true, At: &now,
		Seen: []*market.Seen{at("b", "2"), at("b", "3")}}
	old := other
	old.Known = false
	named := func(account, id, name, tenant string) *market.Seen {
		s := at(account, id)
		s.Name, s.Tenant = name, tenant
		return s
	}
	lambda := reconcile.Account{Name: "l", Kind: cloud.Lambda, Known: true, At: &now,
		Seen: []*market.Seen{at("l", "1"), named("l", "2", "muster-r", "lab"), named("l", "3", "training", "lab")}}
	leases := []rentals.Lease{{Account: "l", Instance: "1", NodeID: "led", State: providers.LeaseLive},
		{Account: "l", Instance: "8", NodeID: "lost", State: providers.LeaseLive}, {Account: "l", Instance: "3", State: providers.LeaseLive},
		{Account: "l", Instance: "9", NodeID: "given", State: providers.LeaseEnded}}
	for name, c := range map[string]struct {
		accounts []reconcile.Account
		nodes    []*api.NodeRow
		want     string
	}{
		"a mute one by its lease": {[]reconcile.Account{lambda}, []*api.NodeRow{node("led", cloud.Lambda, "")}, "l/1 led, l/2 -, l/3 -"},
		"a mute one by its name": {[]reconcile.Account{lambda}, []*api.NodeRow{node("muster-r", cloud.Lambda, "", lab)},
			"l/1 -, l/2 muster-r, l/3 -"},
		"a name of another tenant": {[]reconcile.Account{lambda}, []*api.NodeRow{node("muster-r", cloud.Lambda, "")}, "l/1 -, l/2 -, l/3 -"},
		"a name of a person":       {[]reconcile.Account{lambda}, []*api.NodeRow{node("training", cloud.Lambda, "", lab)}, "l/1 -, l/2 -, l/3 -"},
		"a mute one that is absent": {[]reconcile.Account{lambda},
			[]*api.NodeRow{node("lost", cloud.Lambda, ""), node("given", cloud.Lambda, "")},
			"l/1 -, l/2 -, l/3 -, l/8 lost absent"},
		"by id": {[]reconcile.Account{vast}, []*api.NodeRow{node("n", cloud.Vast, "1")}, "a/1 n, a/2 -"},
		"by a container's name": {[]reconcile.Account{vast},
			[]*api.NodeRow{node("n", cloud.Vast, "C.2"), node("o", cloud.Vast, "C.9")}, "a/1 -, a/2 n, a/9 o absent"},
		"C. is of vast.ai alone": {[]reconcile.Account{{Name: "r", Kind: cloud.RunPod, Known: true, At: &now,
			Seen: []*market.Seen{at("r", "1")}}},
			[]*api.NodeRow{node("n", cloud.RunPod, "C.1")}, "r/1 -, r/C.1 n absent"},
		"another kind":             {[]reconcile.Account{vast}, []*api.NodeRow{node("n", cloud.RunPod, "1")}, "a/1 -, a/2 -"},
		"no account at all":        {nil, []*api.NodeRow{node("n", cloud.Vast, "1")}, ""},
		"two accounts, one as two": {[]reconcile.Account{vast, other}, nil, "a/1 -, a/2 -, b/3 -"},
		"the living one": {[]reconcile.Account{vast},
			[]*api.NodeRow{node("n", cloud.Vast, "1"), node("o", cloud.Vast, "1", retired)}, "a/1 n, a/2 -"},
		"the living one first": {[]reconcile.Account{vast},
			[]*api.NodeRow{node("o", cloud.Vast, "1", retired), node("n", cloud.Vast, "1")}, "a/1 n, a/2 -"},
		"the one that is heard": {[]reconcile.Account{vast}, []*api.NodeRow{node("m", cloud.Vast, "1", heard), node("n", cloud.Vast, "1"),
			node("o", cloud.Vast, "1", never)}, "a/1 m, a/2 -"},
		"absent": {[]reconcile.Account{vast}, []*api.NodeRow{node("n", cloud.Vast, "9")}, "a/1 -, a/2 -, a/9 n absent"},
		"absent, of its tenant": {[]reconcile.Account{vast, other}, []*api.NodeRow{node("n", cloud.Vast, "9", lab)},
			"a/1 -, a/2 -, b/3 -, b/9 n absent"},
		"one account is unknown": {[]reconcile.Account{vast, old}, []*api.NodeRow{node("n", cloud.Vast, "9")},
			"a/1 -, a/2 -, b/3 -, b/9 n unsure"},
		"too new for the list":  {[]reconcile.Account{vast}, []*api.NodeRow{node("n", cloud.Vast, "9", young)}, "a/1 -, a/2 -, a/9 n unsure"},
		"absent and given back": {[]reconcile.Account{vast}, []*api.NodeRow{node("n", cloud.Vast, "9", retired)}, "a/1 -, a/2 -"},
		"no machine of anybody": {[]reconcile.Account{vast}, []*api.NodeRow{node("n", "", ""), node("m", cloud.Vast, "")}, "a/1 -, a/2 -"},
	} {
		var all []string
		for _, m := range reconcile.Join(c.accounts, c.nodes, leases) {
			text := fmt.Sprintf("%s/%s -", m.Account, m.ID)
			if m.Node != nil {
				text = strings.TrimSuffix(text, "-") + m.Node.Name
			}
			switch {
			case m.Unsure:
				text += " unsure"
			case m.Seen == nil:
				text += " absent"
			}
			all = append(all, text)
		}
		if got := strings.Join(all, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
