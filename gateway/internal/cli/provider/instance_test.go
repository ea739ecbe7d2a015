package provider_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"muster/agent/wire"
	"muster/gateway/api/providers"
)

// TestInstances: machines of all accounts stand beside their nodes, and the list is as old as its oldest part.
func TestInstances(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.on("GET", "providers", accounts())
	g.on("GET", "providers/vast/instances", machines())
	g.on("GET", "providers/lab/instances", providers.InstanceList{SyncedAt: at(-2), Instances: []providers.Instance{{Provider: "lab", ID: "x",
		State: "running"}}})
	g.on("GET", "providers/new/instances", providers.InstanceList{})
	_, out, _ := g.muster("provider", "instances", "-o", "wide")
	golden(t, "provider-instances", out)
	if _, out, _ := g.muster("provider", "instances", "vast", "lab"); !strings.Contains(out,
		"\n4 instances, as of 2h ago: muster provider ls says why") {
		t.Errorf("an old one:\n%s", out)
	}
	if _, out, _ := g.muster("provider", "instances", "new", "vast"); !strings.HasSuffix(out,
		"3 instances; not every account was seen yet\n") {
		t.Errorf("one that was never seen:\n%s", out)
	}
	if _, out, _ := g.muster("provider", "instances", "vast", "-o", "json"); !strings.HasPrefix(out,
		`{"synced_at":"2026-11-21T09:59:24Z","known":true,`) {
		t.Errorf("json: %s", out)
	}
	for _, g.screen = range []int{40, 80, 120} {
		for _, args := range [][]string{{"provider", "instances", "vast"}, {"provider", "ls"}} {
			_, out, _ := g.muster(args...)
			for line := range strings.Lines(out) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > g.screen && strings.Contains(line, "  ") {
					t.Errorf("%q on %d columns: a row of %d: %s", args, g.screen, n, line)
				}
			}
		}
	}
	if code, _, errs := g.muster("provider", "instances", "none"); code != 1 || !strings.Contains(errs,
		"there is no providers/none/instances") {
		t.Errorf("an account that there is not: %d %s", code, errs)
	}
}

// TestActs: what is done is shown and asked first, for instances and for nodes that are one. Without a yes nothing is done.
func TestActs(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.on("GET", "providers", providers.List{Providers: accounts().Providers[:1]})
	g.on("GET", "providers/vast/instances", machines())
	g.on("GET", "providers/vast/instances/2", machines().Instances[1])
	ending := silentOne()
	ending.Lease.State = providers.LeaseDraining
	g.on("POST", "providers/vast/instances/39467543", ending)
	g.on("POST", "providers/vast/instances/2", providers.Instance{ID: "2", State: "ending",
		Lease: &providers.Lease{State: providers.LeaseEnding,
			Act: "destroy"}})
	code, out, errs := g.muster("provider", "destroy", "gpu-7", "vast/2")
	const shown = "  vast/39467543: 8x H100 SXM, running, 2.125 an hour, node gpu-7 (stale)\n" +
		"  vast/2: 1x RTX 4090, stopped, - an hour, no node\n"
	if code != 2 || out != "" || !strings.HasPrefix(errs, shown) || !strings.Contains(errs, "add --yes") ||
		strings.Contains(strings.Join(g.requests(), "\n"), "POST") {
		t.Errorf("without a yes: %d %s%s", code, out, errs)
	}
	g.persons, g.stdin = true, "n\n"
	if code, _, errs := g.muster("provider", "destroy", "vast/2"); code != 1 || !strings.Contains(errs, "destroy 1 machine? [y/N] ") ||
		!strings.Contains(errs, "nothing was done") {
		t.Errorf("a no: %d %s", code, errs)
	}
	g.stdin = "y\n"
	g.requests()
	code, out, _ = g.muster("provider", "destroy", "gpu-7", "vast/2")
	asked := g.requests()
	if code != 0 || asked[len(asked)-1] != `POST providers/vast/instances/2 {"act":"destroy"}` ||
		out != "vast/39467543: it is running there; its node takes no new work, and has time to finish; then: destroy\n"+
			"vast/2: it is ending there; destroy is asked for, and is looked at until it is done\n" {
		t.Errorf("destroy: %d %s\n%q", code, out, asked)
	}
	g.on("POST", "providers/vast/instances/2", &wire.ErrorDetail{Code: wire.CodeOverQuota, Message: "more than the limit",
		Hint: "muster provider limit"})
	if code, _, errs := g.muster("provider", "start", "vast/2", "-y"); code != 1 || !strings.Contains(errs, "vast/2: more than the limit") {
		t.Errorf("start over a limit: %d %s", code, errs)
	}
	still, up := providers.Instance{Provider: "vast", ID: "2", State: "stopped"}, providers.Instance{ID: "2", State: "starting"}
	g.on("POST", "providers/vast/instances/2", still)
	g.on("GET", "providers/vast/instances/2", still)
	if code, out, errs := g.muster("provider", "start", "vast/2", "-y"); code != 1 || out != "" || !strings.Contains(errs,
		"vast/2: it was asked to start, and it is stopped there still") {
		t.Errorf("a start of nothing: %d %s%s", code, out, errs)
	}
	g.on("GET", "providers/vast/instances/2", still, still, up)
	if code, out, _ := g.muster("provider", "start", "vast/2", "-y"); code != 0 || out != "vast/2: it is starting there\n" {
		t.Errorf("a list that lags: %d %s", code, out)
	}
	g.on("GET", "providers/vast/instances/2", still)
	if code, out, _ := g.muster("provider", "stop", "vast/2", "-y", "-o", "json"); code != 0 || !strings.HasPrefix(out,
		`{"provider":"vast","kind"`) {
		t.Errorf("stop: %d %s", code, out)
	}
	for name, args := range map[string][]string{"no instance is the node": {"gpu-9"}, "given twice": {"gpu-7", "id-gpu-7"},
		"there is no": {"vast/404"}} {
		code, _, errs := g.muster(append([]string{"provider", "stop", "-y"}, args...)...)
		if name == "no instance is the node" {
			name = "no account has an instance that is the node"
		}
		if code == 0 || !strings.Contains(errs, name) {
			t.Errorf("%s: %d %s", name, code, errs)
		}
	}
}

// TestLeases: a lease is set, extended and ended for nodes and instances, and lists say what is done at the end.
func TestLeases(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	live := providers.Lease{Provider: "vast", Instance: "39467543", Node: "gpu-7", Tenant: "research", Owner: "ada",
		State:  providers.LeaseLive,
		EndsAt: *at(8), Act: providers.ActDestroy, IdleSeconds: some(int64(7200)), CreatedAt: *at(-1), Rental: rentalID}
	over := providers.Lease{Provider: "vast", Instance: "2", State: providers.LeaseEnding, EndsAt: *at(-.5), Act: providers.ActStop, Tries: 3,
		Why: "HTTP 503: busy", CreatedAt: *at(-9)}
	g.on("GET", "leases", providers.LeaseList{Leases: []providers.Lease{live, over}})
	_, out, _ := g.muster("lease", "ls", "--provider", "vast", "--all", "-o", "wide")
	golden(t, "lease-ls", out)
	if got := g.requests()[0]; got != "GET leases?all=true&provider=vast" {
		t.Errorf("asked %s", got)
	}
	due, kept := live, live
	due.EndsAt, kept.EndsAt, kept.Act = *at(-.01), *at(-.01), providers.ActKeep
	g.on("GET", "leases", providers.LeaseList{Leases: []providers.Lease{due, kept}})
	if _, out, _ := g.muster("lease", "ls"); !strings.Contains(out, "  live   now      destroy") || !strings.Contains(out, "  36s ago  keep") {
		t.Errorf("an end that is not acted on yet:\n%s", out)
	}
	g.requests()
	g.on("POST", "leases", live)
	code, out, _ := g.muster("lease", "set", "gpu-7", "vast/2", "8h", "--act", "destroy", "--idle-end", "2h")
	asked := g.requests()
	if code != 0 || len(asked) != 2 || asked[0] != `POST leases {"node":"gpu-7","ttl_seconds":28800,"act":"destroy","idle_seconds":7200}` ||
		asked[1] != `POST leases {"provider":"vast","instance_id":"2","ttl_seconds":28800,"act":"destroy","idle_seconds":7200}` ||
		!strings.HasPrefix(out, "gpu-7: its lease ends at 2026-11-21T18:00:00Z, in 8h; then: destroy; or when it has been idle for 2h\n") {
		t.Errorf("set: %d %s%q", code, out, asked)
	}
	if code, _, _ := g.muster("lease", "extend", "gpu-7", "90m"); code != 0 ||
		g.requests()[0] != `POST leases {"node":"gpu-7","add_seconds":5400}` {
		t.Errorf("extend: %d", code)
	}
	if code, _, errs := g.muster("lease", "extend", "gpu-7", "90m", "--act", "destroy"); code != 2 || len(g.requests()) > 0 {
		t.Errorf("extend with an act: %d %s", code, errs)
	}
	for _, args := range [][]string{{"gpu-7", "long"}, {"gpu-7", "0s"}, {"gpu-7", "1500ms"}, {"gpu-7", "8h", "--act", "burn"}} {
		if code, _, errs := g.muster(append([]string{"lease", "set"}, args...)...); code != 2 || !strings.Contains(errs, "hint: ") {
			t.Errorf("%q: %d %s", args, code, errs)
		}
	}
	g.on("GET", "providers/vast/instances/39467543", silentOne())
	g.on("POST", "leases", over)
	code, out, errs := g.muster("lease", "end", "vast/39467543", "--act", "stop", "-y")
	asked = g.requests()
	if code != 0 || asked[1] != `POST leases {"provider":"vast","instance_id":"39467543","act":"stop","end":true}` ||
		out != "vast/39467543: its lease is ending; then: stop\n" || !strings.Contains(errs, "node gpu-7 (stale); lease: in 3h, destroy\n") {
		t.Errorf("end: %d %s%s%q", code, out, errs, asked)
	}
	if code, _, errs := g.muster("lease", "end", "vast/39467543"); code != 2 || !strings.Contains(errs, "end the lease of 1 machine now") {
		t.Errorf("without a yes: %d %s", code, errs)
	}
	g.on("GET", "leases", providers.LeaseList{})
	if code, _, errs := g.muster("lease", "ls"); code != 0 || !strings.Contains(errs, "muster lease set NODE 8h") {
		t.Errorf("none: %d %s", code, errs)
	}
}
