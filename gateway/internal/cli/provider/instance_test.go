package provider_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
	"muster/gateway/internal/kit"
)

// TestInstances: machines of all accounts stand beside their nodes, and the list is as old as its oldest part.
func TestInstances(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "providers", accounts())
	vast := machines()
	vast.Instances[0].Rejoin = &providers.Rejoin{State: providers.RejoinAsked}
	vast.Instances[1].Rejoin = &providers.Rejoin{State: providers.RejoinFailed, Why: "its agent was not heard"}
	g.On("GET", "providers/vast/instances", vast)
	g.On("GET", "providers/lab/instances", providers.InstanceList{SyncedAt: at(-2), Instances: []providers.Instance{{Provider: "lab", ID: "x",
		State: "running", Why: "fine", Rejoin: &providers.Rejoin{State: providers.RejoinJoined}}}})
	g.On("GET", "providers/new/instances", providers.InstanceList{})
	_, out, _ := g.Muster("provider", "instances", "-o", "wide")
	kit.Golden(t, "provider-instances.golden", out)
	if _, out, _ := g.Muster("provider", "instances", "vast", "lab"); !strings.Contains(out,
		"\n4 instances, as of 2h ago: muster provider ls says why") {
		t.Errorf("an old one:\n%s", out)
	}
	if _, out, _ := g.Muster("provider", "instances", "new", "vast"); !strings.HasSuffix(out,
		"3 instances; not every account was seen yet\n") {
		t.Errorf("one that was never seen:\n%s", out)
	}
	if _, out, _ := g.Muster("provider", "instances", "vast", "-o", "json"); !strings.HasPrefix(out,
		`{"synced_at":"2026-11-21T09:59:24Z","known":true,`) {
		t.Errorf("json: %s", out)
	}
	for _, g.Screen = range []int{40, 80, 120} {
		for _, args := range [][]string{{"provider", "instances", "vast"}, {"provider", "ls"}} {
			_, out, _ := g.Muster(args...)
			for line := range strings.Lines(out) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > g.Screen && strings.Contains(line, "  ") {
					t.Errorf("%q on %d columns: a row of %d: %s", args, g.Screen, n, line)
				}
			}
		}
	}
	if code, _, errs := g.Muster("provider", "instances", "none"); code != 1 || !strings.Contains(errs,
		"there is no providers/none/instances") {
		t.Errorf("an account that there is not: %d %s", code, errs)
	}
}

// TestActs: what is done is shown and asked first, for instances and for nodes that are one. Without a yes nothing is done.
func TestActs(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "providers", providers.List{Providers: accounts().Providers[:1]})
	g.On("GET", "providers/vast/instances", machines())
	g.On("GET", "providers/vast/instances/2", machines().Instances[1])
	ending := silentOne()
	ending.Lease.State = providers.LeaseDraining
	g.On("POST", "providers/vast/instances/39467543", ending)
	g.On("POST", "providers/vast/instances/2", providers.Instance{ID: "2", State: "ending",
		Lease: &providers.Lease{State: providers.LeaseEnding,
			Act: "destroy"}})
	code, out, errs := g.Muster("provider", "destroy", "gpu-7", "vast/2")
	const shown = "  vast/39467543: 8x H100 SXM, running, 2.125 an hour, node gpu-7 (stale)\n" +
		"  vast/2: 1x RTX 4090, stopped, - an hour, no node\n"
	if code != 2 || out != "" || !strings.HasPrefix(errs, shown) || !strings.Contains(errs, "add --yes") ||
		strings.Contains(strings.Join(g.Requests(), "\n"), "POST") {
		t.Errorf("without a yes: %d %s%s", code, out, errs)
	}
	g.Persons, g.Stdin = true, "n\n"
	if code, _, errs := g.Muster("provider", "destroy", "vast/2"); code != 1 || !strings.Contains(errs, "destroy 1 machine? [y/N] ") ||
		!strings.Contains(errs, "nothing was done") {
		t.Errorf("a no: %d %s", code, errs)
	}
	g.Stdin = "y\n"
	g.Requests()
	code, out, _ = g.Muster("provider", "destroy", "gpu-7", "vast/2")
	asked := g.Requests()
	if code != 0 || asked[len(asked)-1] != `POST providers/vast/instances/2 {"act":"destroy"}` ||
		out != "vast/39467543: it is running there; its node takes no new work, and has time to finish; then: destroy\n"+
			"vast/2: it is ending there; destroy is asked for, and is looked at until it is done\n" {
		t.Errorf("destroy: %d %s\n%q", code, out, asked)
	}
	g.On("POST", "providers/vast/instances/2", &wire.ErrorDetail{Code: wire.CodeOverQuota, Message: "more than the limit",
		Hint: "muster provider limit"})
	if code, _, errs := g.Muster("provider", "start", "vast/2", "-y"); code != 1 || !strings.Contains(errs, "vast/2: more than the limit") {
		t.Errorf("start over a limit: %d %s", code, errs)
	}
	still, up := providers.Instance{Provider: "vast", ID: "2", State: "stopped"}, providers.Instance{ID: "2", State: "starting"}
	g.On("POST", "providers/vast/instances/2", still)
	g.On("GET", "providers/vast/instances/2", still)
	if code, out, errs := g.Muster("provider", "start", "vast/2", "-y"); code != 1 || out != "" || !strings.Contains(errs,
		"vast/2: it was asked to start, and it is stopped there still") {
		t.Errorf("a start of nothing: %d %s%s", code, out, errs)
	}
	g.On("GET", "providers/vast/instances/2", still, still, up)
	if code, out, _ := g.Muster("provider", "start", "vast/2", "-y"); code != 0 || out != "vast/2: it is starting there\n" {
		t.Errorf("a list that lags: %d %s", code, out)
	}
	g.On("GET", "providers/vast/instances/2", still)
	if code, out, _ := g.Muster("provider", "stop", "vast/2", "-y", "-o", "json"); code != 0 || !strings.HasPrefix(out,
		`{"provider":"vast","kind"`) {
		t.Errorf("stop: %d %s", code, out)
	}
	storage := 0.0024
	off := providers.Instance{Provider: "vast", ID: "2", State: "stopped", Storage: &storage,
		Lease: &providers.Lease{State: providers.LeaseEnded, Act: providers.ActStop}}
	g.On("POST", "providers/vast/instances/2", off)
	const says = "vast/2: it is stopped there; stop is done; its disk is charged on, 0.0024 an hour, until muster provider destroy vast/2\n"
	if code, out, _ := g.Muster("provider", "stop", "vast/2", "-y"); code != 0 || out != says {
		t.Errorf("stop: %d %s", code, out)
	}
	for name, args := range map[string][]string{"no instance is the node": {"gpu-9"}, "given twice": {"gpu-7", "id-gpu-7"},
		"there is no": {"vast/404"}} {
		code, _, errs := g.Muster(append([]string{"provider", "stop", "-y"}, args...)...)
		if name == "no instance is the node" {
			name = "no account has an instance that is the node"
		}
		if code == 0 || !strings.Contains(errs, name) {
			t.Errorf("%s: %d %s", name, code, errs)
		}
	}
}

// foreignOne was rented by another gateway.
func foreignOne() providers.Instance {
	return providers.Instance{Provider: "vast", Kind: "vast_ai", ID: "9", State: "running", GPU: "RTX 4090", GPUs: 1, Foreign: true}
}

// TestForeign: a machine of another gateway can be ended by name, and the question says whose it is.
func TestForeign(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "providers/vast/instances/9", foreignOne())
	g.On("POST", "providers/vast/instances/9", foreignOne())
	g.On("POST", "leases", providers.Lease{State: providers.LeaseDraining})
	for _, line := range []string{"provider destroy", "provider stop", "provider start", "lease end"} {
		code, _, errs := g.Muster(append(strings.Fields(line), "vast/9", "--yes")...)
		if code != 0 || !strings.Contains(errs, "  vast/9: 1x RTX 4090, running, - an hour, rented by another gateway, which may use it") {
			t.Errorf("%s: %d %s", line, code, errs)
		}
	}
}

// TestQuestionsFitTheScreen: what a person is asked about does not run over the edge of the screen.
func TestQuestionsFitTheScreen(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.Persons, g.Stdin, g.Screen = true, "n\n", 80
	leased := foreignOne()
	leased.Lease = &providers.Lease{State: providers.LeaseLive, EndsAt: *at(8), Act: providers.ActKeep}
	g.On("GET", "providers/vast/instances/9", leased)
	for _, line := range []string{"provider destroy", "provider stop", "provider start", "lease end"} {
		code, _, errs := g.Muster(append(strings.Fields(line), "vast/9")...)
		if code != 1 || !strings.Contains(errs, "rented by another gateway,\n    which may use it") {
			t.Errorf("%s: %d %s", line, code, errs)
		}
		for one := range strings.Lines(errs) {
			if utf8.RuneCountInString(one) > 81 {
				t.Errorf("%s: too wide: %s", line, one)
			}
		}
	}
}

// TestNobodyNamed: a word that names nothing picks no machine, and nobody is asked. An empty variable of a script does that.
func TestNobodyNamed(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	unnamed := providers.Instance{Provider: "vast", ID: "2", State: "running"} // it has no node
	g.On("GET", "providers", providers.List{Providers: accounts().Providers[:1]})
	g.On("GET", "providers/vast/instances", providers.InstanceList{Instances: []providers.Instance{unnamed}})
	g.On("GET", "providers/plan", providers.Plan{})
	for _, line := range []string{"provider destroy", "provider stop", "provider start", "lease end", "lease set", "lease extend",
		"provider onboard", "rent cancel", "rent show", "node return", "node retire", "provider show", "provider remove"} {
		for _, word := range []string{"", " ", "vast/", "/2", "vast/2/3"} {
			args := append(strings.Fields(line), word)
			if strings.HasPrefix(line, "lease ") && line != "lease end" {
				args = append(args, "8h")
			}
			if strings.Contains(word, "/") && (line == "rent cancel" || line == "rent show" || strings.HasPrefix(line, "node ") ||
				line == "provider show" || line == "provider remove") {
				continue // they take no instances
			}
			g.Requests()
			code, out, errs := g.Muster(append(args, "--yes")...)
			if strings.HasSuffix(line, "set") || strings.HasSuffix(line, "extend") || strings.HasSuffix(line, "show") {
				code, out, errs = g.Muster(args...)
			}
			if code != 2 || out != "" || !strings.Contains(errs, "hint: ") {
				t.Errorf("%q: %d %s%s", args, code, out, errs)
			}
			for _, asked := range g.Requests() {
				if asked != "GET providers/plan" {
					t.Errorf("%q: asked for %s", args, asked)
				}
			}
		}
	}
}

// TestLeases: a lease is set, extended and ended for nodes and instances, and lists say what is done at the end.
func TestLeases(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	live := providers.Lease{Provider: "vast", Instance: "39467543", Node: "gpu-7", Tenant: "research", Owner: "ada",
		State:  providers.LeaseLive,
		EndsAt: *at(8), Act: providers.ActDestroy, IdleSeconds: some(int64(7200)), CreatedAt: *at(-1), Rental: rentalID}
	over := providers.Lease{Provider: "vast", Instance: "2", State: providers.LeaseEnding, EndsAt: *at(-.5), Act: providers.ActStop, Tries: 3,
		Why: "HTTP 503: busy", CreatedAt: *at(-9)}
	g.On("GET", "leases", providers.LeaseList{Leases: []providers.Lease{live, over}})
	_, out, _ := g.Muster("lease", "ls", "--provider", "vast", "--all", "-o", "wide")
	kit.Golden(t, "lease-ls.golden", out)
	if got := g.Requests()[0]; got != "GET leases?all=true&provider=vast" {
		t.Errorf("asked %s", got)
	}
	due, kept := live, live
	due.EndsAt, kept.EndsAt, kept.Act = *at(-.01), *at(-.01), providers.ActKeep
	g.On("GET", "leases", providers.LeaseList{Leases: []providers.Lease{due, kept}})
	if _, out, _ := g.Muster("lease", "ls"); !strings.Contains(out, "  live   now      destroy") || !strings.Contains(out, "  36s ago  keep") {
		t.Errorf("an end that is not acted on yet:\n%s", out)
	}
	g.Requests()
	g.On("POST", "leases", live)
	code, out, _ := g.Muster("lease", "set", "gpu-7", "vast/2", "8h", "--act", "destroy", "--idle-end", "2h")
	asked := g.Requests()
	if code != 0 || len(asked) != 2 || asked[0] != `POST leases {"node":"gpu-7","ttl_seconds":28800,"act":"destroy","idle_seconds":7200}` ||
		asked[1] != `POST leases {"provider":"vast","instance_id":"2","ttl_seconds":28800,"act":"destroy","idle_seconds":7200}` ||
		!strings.HasPrefix(out, "gpu-7: its lease ends at 2026-11-21T18:00:00Z, in 8h; then: destroy; or when it has been idle for 2h\n") {
		t.Errorf("set: %d %s%q", code, out, asked)
	}
	g.Requests()
	if code, _, _ := g.Muster("lease", "extend", "gpu-7", "90m"); code != 0 ||
		g.Requests()[0] != `POST leases {"node":"gpu-7","add_seconds":5400}` {
		t.Errorf("extend: %d", code)
	}
	if code, _, errs := g.Muster("lease", "extend", "gpu-7", "90m", "--act", "destroy"); code != 2 || len(g.Requests()) > 0 {
		t.Errorf("extend with an act: %d %s", code, errs)
	}
	if _, _, errs := g.Muster("lease", "set", "gpu-7", "99999d"); !strings.Contains(errs, `"99999d" is too long: 36500d is the most`) {
		t.Errorf("too long: %s", errs)
	}
	for _, args := range [][]string{{"gpu-7", "long"}, {"gpu-7", "0s"}, {"gpu-7", "1500ms"}, {"gpu-7", "8h", "--act", "burn"}} {
		if code, _, errs := g.Muster(append([]string{"lease", "set"}, args...)...); code != 2 || !strings.Contains(errs, "hint: ") {
			t.Errorf("%q: %d %s", args, code, errs)
		}
	}
	g.On("GET", "providers/vast/instances/39467543", silentOne())
	g.On("POST", "leases", over)
	code, out, errs := g.Muster("lease", "end", "vast/39467543", "--act", "stop", "-y")
	asked = g.Requests()
	if code != 0 || asked[1] != `POST leases {"provider":"vast","instance_id":"39467543","act":"stop","end":true}` ||
		out != "vast/39467543: its lease is ending; then: stop\n" || !strings.Contains(errs, "node gpu-7 (stale); lease: in 3h, destroy\n") {
		t.Errorf("end: %d %s%s%q", code, out, errs, asked)
	}
	if code, _, errs := g.Muster("lease", "end", "vast/39467543"); code != 2 || !strings.Contains(errs, "end the lease of 1 machine now") {
		t.Errorf("without a yes: %d %s", code, errs)
	}
	g.On("GET", "leases", providers.LeaseList{})
	if code, _, errs := g.Muster("lease", "ls"); code != 0 || !strings.Contains(errs, "muster lease set NODE 8h") {
		t.Errorf("none: %d %s", code, errs)
	}
}

// TestInstancesOfNone: without an account there is nothing that was not seen.
func TestInstancesOfNone(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "providers", providers.List{})
	if code, out, _ := g.Muster("provider", "instances"); code != 0 || !strings.HasSuffix(out,
		"0 instances, and no account: muster provider add KIND --key-file FILE adds one\n") {
		t.Errorf("%d %s", code, out)
	}
}

// TestIDsAreWhole: no list is wider than the screen, and from 80 columns on the longest ids can be copied. What is wider is a command.
func TestIDsAreWhole(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	const id = "0920582c7ff041399e34823a0be62541"
	i := silentOne()
	i.Provider, i.Kind, i.ID, i.Node, i.SSH = "lambda", "lambda", id, "muster-4sl5ucv6e2vnxq7a", "ubuntu@198.51.100.201:22"
	i.Lease = &providers.Lease{Provider: "lambda", Instance: id, Node: i.Node, State: providers.LeaseDraining, Act: providers.ActDestroy,
		Owner: "ada", Why: "ended by ada; not done yet: HTTP 503: busy", EndsAt: g.Now}
	p := thePlan()
	p.Findings = p.Findings[:1]
	p.Findings[0].Provider, p.Findings[0].Instance, p.Findings[0].Node = "lambda", id, i.Node
	g.On("GET", "providers/lambda/instances", providers.InstanceList{Known: true, SyncedAt: at(0), Instances: []providers.Instance{i}})
	g.On("GET", "leases", providers.LeaseList{Leases: []providers.Lease{*i.Lease}})
	g.On("GET", "providers/plan", p)
	for _, costs := range []string{"", "the disk of the container is emptied, and the machine restarts"} {
		i.RejoinCosts = costs
		g.On("GET", "providers/lambda/instances/"+id, i)
		for _, g.Screen = range []int{60, 80, 100, 140} {
			for _, command := range []string{"provider instances lambda", "lease ls", "provider plan", "provider onboard --plan",
				"provider onboard --plan --rewrite"} {
				code, out, errs := g.Muster(strings.Fields(command)...)
				if row := strings.Index(out, "lambda/"+id+" "); code != 0 || g.Screen >= 80 && row < 0 {
					t.Errorf("%s on %d columns: %d\n%s%s", command, g.Screen, code, out, errs)
				}
				for line := range strings.Lines(out) {
					if n := utf8.RuneCountInString(line) - 1; n > g.Screen && !strings.HasPrefix(line, "  muster ") {
						t.Errorf("%s on %d columns has a row of %d: %s", command, g.Screen, n, line)
					}
				}
			}
		}
	}
}
