package maas_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"muster/agent/wire"
	"muster/gateway/api/machines"
)

// TestList: both sides stand beside each other, a list says of when it is, and what is not known is no zero.
func TestList(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.on("GET", "maas/machines", all())
	_, out, _ := g.muster("maas", "ls", "-o", "wide")
	golden(t, "maas-ls", out)
	if _, out, _ := g.muster("maas", "ls", "--state", "failed"); strings.Contains(out, "rack-1") || !strings.HasSuffix(out,
		"\n1 machine, seen 30s ago; of 1 the two sides disagree: muster maas plan\n") {
		t.Errorf("of one state:\n%s", out)
	}
	if _, out, _ := g.muster("maas", "ls", "--state", "ready", "-o", "json"); !strings.HasPrefix(out, `{"maas":{"enabled":true`) ||
		strings.Count(out, `"system_id"`) != 1 {
		t.Errorf("json: %s", out)
	}
	for _, g.screen = range []int{40, 80, 120} {
		for _, command := range []string{"ls", "plan"} {
			g.on("GET", "maas/plan", thePlan())
			_, out, _ := g.muster("maas", command)
			for line := range strings.Lines(out) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > g.screen && strings.Contains(strings.TrimSpace(line), "  ") {
					t.Errorf("%s on %d columns: a row of %d: %s", command, g.screen, n, line)
				}
			}
		}
	}
	g.screen = 0
	away := machines.State{SyncedAt: at(-120), FailedAt: at(-60), Error: "HTTP 502"}
	for want, state := range map[string]machines.State{
		"0 machines, MAAS was not seen yet\n":                                                   {Enabled: true},
		"0 machines, seen 2h ago; MAAS cannot be seen since 1h: HTTP 502\n":                     away,
		"0 machines, seen 2h ago, which is old: nothing is done until there is a view of now\n": {SyncedAt: at(-120)},
	} {
		g.on("GET", "maas/machines", machines.List{MAAS: state})
		if _, out, _ := g.muster("maas", "ls"); !strings.HasSuffix(out, want) {
			t.Errorf("got %q, want %q", out, want)
		}
	}
	g.on("GET", "maas/machines", &wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "MAAS is off on this gateway",
		Hint: "muster serve --maas-url URL --maas-key-file FILE switches it on"})
	if code, _, errs := g.muster("maas", "ls"); code != 1 || !strings.Contains(errs, "hint: muster serve --maas-url URL") {
		t.Errorf("off: %d %s", code, errs)
	}
}

// TestShow: a machine is shown with its node, its work, and what comes next.
func TestShow(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	busy := deploying(machines.StateDeploying, "deploy", "HTTP 503: no free addresses")
	busy.Work.Tries, busy.Work.TryAt, busy.Work.Reimage, busy.Work.Erase, busy.Work.Allocates = 3, at(2), true, true, "4sl5ucv6e2vnxq7a"
	g.on("GET", "maas/machines/rack-1", busy)
	g.on("GET", "maas/machines/bad9", failed())
	g.on("GET", "maas/machines/new7", fresh())
	_, out, _ := g.muster("maas", "show", "rack-1", "bad9", "new7")
	golden(t, "maas-show", out)
	if _, out, _ := g.muster("maas", "show", "new7", "-o", "json"); !strings.HasPrefix(out, `{"system_id":"new7"`) {
		t.Errorf("json: %s", out)
	}
	if code, _, errs := g.muster("maas", "show", "new7", "none"); code != 1 || !strings.Contains(errs, "none: there is no ") {
		t.Errorf("one that there is not: %d %s", code, errs)
	}
}

// TestPlan: what is done by itself stands in the table, and what a person does below it.
func TestPlan(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.on("GET", "maas/plan", thePlan())
	_, out, _ := g.muster("maas", "plan", "-o", "wide")
	golden(t, "maas-plan", out)
	g.screen = 80
	_, out, _ = g.muster("maas", "plan")
	golden(t, "maas-plan-80", out)
	g.screen = 0
	for want, p := range map[string]machines.Plan{
		"Nothing is to be done: MAAS and muster agree, seen 30s ago.\n": {MAAS: seen()},
		"Nothing is known to be done: MAAS was not seen yet.\n":         {},
	} {
		g.on("GET", "maas/plan", p)
		if _, out, _ := g.muster("maas", "plan"); out != want {
			t.Errorf("got %q, want %q", out, want)
		}
	}
}
