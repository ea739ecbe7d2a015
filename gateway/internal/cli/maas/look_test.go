package maas_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
	"muster/gateway/internal/kit"
)

// TestList: both sides stand beside each other, a list says of when it is, and what is not known is no zero.
func TestList(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "maas/machines", all())
	_, out, _ := g.Muster("maas", "ls", "-o", "wide")
	kit.Golden(t, "maas-ls.golden", out)
	if code, out, errs := g.Muster("maas", "ls", "--state", "bogus"); code != 2 || out != "" ||
		!strings.Contains(errs, "releasing, failed, broken") {
		t.Errorf("a state that there is not: %d %s%s", code, out, errs)
	}
	if _, out, _ := g.Muster("maas", "ls", "--state", "failed"); strings.Contains(out, "rack-1") || !strings.HasSuffix(out,
		"\n1 machine, seen 30s ago; of 1 the two sides disagree: muster maas plan\n") {
		t.Errorf("of one state:\n%s", out)
	}
	if _, out, _ := g.Muster("maas", "ls", "--state", "ready", "-o", "json"); !strings.HasPrefix(out, `{"maas":{"enabled":true`) ||
		strings.Count(out, `"system_id"`) != 1 {
		t.Errorf("json: %s", out)
	}
	for _, g.Screen = range []int{40, 80, 120} {
		for _, command := range []string{"ls", "plan"} {
			g.On("GET", "maas/plan", thePlan())
			_, out, _ := g.Muster("maas", command)
			for line := range strings.Lines(out) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > g.Screen && strings.Contains(strings.TrimSpace(line), "  ") {
					t.Errorf("%s on %d columns: a row of %d: %s", command, g.Screen, n, line)
				}
			}
		}
	}
	g.Screen = 80
	_, out, _ = g.Muster("maas", "ls")
	kit.Golden(t, "maas-ls-80.golden", out)
	g.Screen = 0
	away := machines.State{SyncedAt: at(-120), FailedAt: at(-60), Error: "HTTP 502"}
	for want, state := range map[string]machines.State{
		"0 machines, MAAS was not seen yet\n":                                                   {Enabled: true},
		"0 machines, seen 2h ago; MAAS cannot be seen since 1h: HTTP 502\n":                     away,
		"0 machines, seen 2h ago, which is old: nothing is done until there is a view of now\n": {SyncedAt: at(-120)},
		"0 machines, seen 2h ago, before the gateway's start: nothing is done until there is a view of now\n": {SyncedAt: at(-120),
			Restored: true},
	} {
		g.On("GET", "maas/machines", machines.List{MAAS: state})
		if _, out, _ := g.Muster("maas", "ls"); !strings.HasSuffix(out, want) {
			t.Errorf("got %q, want %q", out, want)
		}
	}
	g.On("GET", "maas/machines", &wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "MAAS is off on this gateway",
		Hint: "muster serve --maas-url URL --maas-key-file FILE switches it on"})
	if code, _, errs := g.Muster("maas", "ls"); code != 1 || !strings.Contains(errs, "hint: muster serve --maas-url URL") {
		t.Errorf("off: %d %s", code, errs)
	}
}

// TestShow: a machine is shown with its node, its work, and what comes next.
func TestShow(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	busy := deploying(machines.StateDeploying, "deploy", "HTTP 503: no free addresses")
	busy.Work.Tries, busy.Work.TryAt, busy.Work.Reimage, busy.Work.Erase, busy.Work.Allocates = 3, at(2), true, true, "4sl5ucv6e2vnxq7a"
	g.On("GET", "maas/machines/rack-1", busy)
	g.On("GET", "maas/machines/bad9", failed())
	g.On("GET", "maas/machines/new7", fresh())
	p := thePlan()
	p.Steps = append(p.Steps, machines.Step{SystemID: "bad9", Finding: "tag_conflict", Severity: wire.SeverityWarn,
		Text: "another tag \x1b[31m"})
	g.On("GET", "maas/plan", p)
	_, out, _ := g.Muster("maas", "show", "rack-1", "bad9", "new7")
	kit.Golden(t, "maas-show.golden", out)
	if _, out, _ := g.Muster("maas", "show", "new7", "-o", "json"); !strings.HasPrefix(out, `{"system_id":"new7"`) {
		t.Errorf("json: %s", out)
	}
	if code, _, errs := g.Muster("maas", "show", "new7", "none"); code != 1 || !strings.Contains(errs, "none: there is no ") {
		t.Errorf("one that there is not: %d %s", code, errs)
	}
}

// TestPlan: what is done by itself stands in the table, and what a person does below it.
func TestPlan(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "maas/plan", thePlan())
	_, out, _ := g.Muster("maas", "plan", "-o", "wide")
	kit.Golden(t, "maas-plan.golden", out)
	g.Screen = 80
	_, out, _ = g.Muster("maas", "plan")
	kit.Golden(t, "maas-plan-80.golden", out)
	g.Screen = 0
	for want, p := range map[string]machines.Plan{
		"Nothing is to be done: MAAS and muster agree, seen 30s ago.\n": {MAAS: seen()},
		"Nothing is known to be done: MAAS was not seen yet.\n":         {},
	} {
		g.On("GET", "maas/plan", p)
		if _, out, _ := g.Muster("maas", "plan"); out != want {
			t.Errorf("got %q, want %q", out, want)
		}
	}
}

// TestSync: what came of a look is said, and where nothing did, since when it is waited for, or when the next one is.
func TestSync(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	away := machines.State{Enabled: true, FailedAt: at(-2), Error: "HTTP 502", NextAt: at(4)}
	slow := seen()
	slow.AskedAt = at(-.2)
	for want, state := range map[string]machines.State{
		"MAAS: seen 30s ago": seen(),
		"MAAS cannot be seen since 2m: HTTP 502; it is looked at again in 4m, or now: muster maas sync": away,
		"MAAS was not seen yet; it is looked at now, with no answer yet since 12s":                      {AskedAt: at(-.2)},
		"seen 30s ago; it is looked at now, with no answer yet since 12s":                               slow,
	} {
		g.On("POST", "maas/sync", state)
		g.On("GET", "maas/plan", machines.Plan{MAAS: state})
		code, out, errs := g.Muster("maas", "sync")
		if (code == 0) != (state.Known && state.AskedAt == nil) || !strings.Contains(out+errs, want) {
			t.Errorf("%d %s%s, want %s", code, out, errs, want)
		}
		_, out, _ = g.Muster("maas", "plan")
		if !state.Known && !strings.Contains(out, want) {
			t.Errorf("a plan says %s", out)
		}
	}
	if code, out, _ := g.Muster("maas", "sync", "-o", "json"); code > 1 || !strings.HasPrefix(out, `{"enabled":`) {
		t.Errorf("json: %d %s", code, out)
	}
}

// TestShowOld: what is shown while MAAS cannot be seen says why, and a time that is over is not to come.
func TestShowOld(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	m := deploying(machines.StateDeploying, "install", "")
	m.Deadline = at(-.5)
	g.On("GET", "maas/machines/rack-1", m)
	g.On("GET", "maas/plan", machines.Plan{MAAS: machines.State{Enabled: true, SyncedAt: at(-3), FailedAt: at(-2), Error: "HTTP 401"}})
	_, out, _ := g.Muster("maas", "show", "rack-1")
	for _, want := range []string{"gave up   30s ago", "MAAS      seen 3m ago; MAAS cannot be seen since 2m: HTTP 401"} {
		if !strings.Contains(out, want) {
			t.Errorf("it lacks %q:\n%s", want, out)
		}
	}
}
