package provider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
	"muster/gateway/internal/kit"
)

// keyFile writes a file with an API key.
func keyFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestAdd: the key goes in the body, from a file or a pipe, and is in no output. --url is the company's.
func TestAdd(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "tenants", api.TenantList{Tenants: []api.Tenant{{Tenant: "research"}}})
	g.On("POST", "providers", accounts().Providers[0])
	code, out, errs := g.Muster("provider", "add", "vast_ai", "--key-file", keyFile(t, "s3cret\n"), "--name", "vast", "--tenant", "research",
		"--url", "http://127.0.0.1:1", "--ssh-key", "mine")
	asked := g.Requests()
	const want = `POST providers {"kind":"vast_ai","name":"vast","tenant":"research","key":"s3cret",` +
		`"url":"http://127.0.0.1:1","ssh_key":"mine"}`
	if code != 0 || len(asked) != 2 || asked[1] != want || strings.Contains(out+errs, "s3cret") ||
		out != "vast is added: 3 instances, 6.25 an hour.\n"+
			"muster provider plan shows what runs there and is not in the fleet, and what it costs.\n" {
		t.Errorf("code %d\n%s%s\n%q", code, out, errs, asked)
	}
	g.Stdin = "piped"
	g.On("POST", "providers", accounts().Providers[2])
	if code, out, errs = g.Muster("provider", "add", "lambda", "--key-file", "-"); code != 0 ||
		g.Requests()[0] != `POST providers {"kind":"lambda","key":"piped"}` || !strings.Contains(out,
		"its key works, and its machines show in a moment") || !strings.Contains(errs, "nothing can be rented from it") {
		t.Errorf("from a pipe: %d %s%s", code, out, errs)
	}
	again := accounts().Providers[0]
	again.KeyReplaced = true
	g.On("POST", "providers", again)
	if code, out, _ := g.Muster("provider", "add", "vast_ai", "--key-file", "-"); code != 0 || out != "The key of vast is replaced.\n" {
		t.Errorf("once more: %d %s", code, out)
	}
	open := keyFile(t, "s3cret\n")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := g.Muster("provider", "add", "vast_ai", "--key-file", open); code != 0 || !strings.HasPrefix(errs,
		"warning: others than its owner can read or change "+open) {
		t.Errorf("a key that others can read: %d %s", code, errs)
	}
	g.Requests()
	for name, args := range map[string][]string{"no file": {}, "an empty file": {"--key-file", keyFile(t, "\n")},
		"two lines": {"--key-file", keyFile(t, "s3cret\ntwo\n")}} {
		code, out, errs := g.Muster(append([]string{"provider", "add", "vast_ai"}, args...)...)
		if code != 2 || out != "" || strings.Contains(errs, "s3cret") || !strings.Contains(errs, "hint: ") {
			t.Errorf("%s: %d %s%s", name, code, out, errs)
		}
	}
	if code, _, errs := g.Muster("provider", "add", "vast_ai", "--key-file", "/nowhere/key"); code != 1 || !strings.Contains(errs,
		"read the API key") {
		t.Errorf("a file that is not there: %d %s", code, errs)
	}
	if code, out, errs := g.Muster("provider", "add", "vast_ai", "--key-file", keyFile(t, "s3c\xffret")); code != 1 || out != "" ||
		strings.Contains(errs, "s3c") || !strings.Contains(errs, "key is not UTF-8") {
		t.Errorf("a key with a bad byte: %d %s%s", code, out, errs)
	}
	if asked := g.Requests(); len(asked) > 0 {
		t.Errorf("the gateway was asked %q", asked)
	}
	g.On("POST", "providers", &wire.ErrorDetail{Code: wire.CodeProviderFailed, Message: "the company does not take the key", Hint: "make one"})
	if code, _, errs := g.Muster("provider", "add", "vast_ai", "--key-file", keyFile(t, "k")); code != 1 || !strings.Contains(errs,
		"hint: make one") {
		t.Errorf("refused: %d %s", code, errs)
	}
}

// TestAccounts: lists and single accounts say whether what they show is of now.
func TestAccounts(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "providers", accounts())
	_, out, _ := g.Muster("provider", "ls", "-o", "wide")
	kit.Golden(t, "provider-ls.golden", out)
	if _, out, _ := g.Muster("provider", "ls", "-o", "json"); !strings.HasPrefix(out, `{"providers":[{"name":"vast"`) ||
		strings.Contains(out, "key") {
		t.Errorf("json: %s", out)
	}
	g.On("GET", "providers/vast", accounts().Providers[0])
	_, out, _ = g.Muster("provider", "show", "vast")
	kit.Golden(t, "provider-show.golden", out)
	g.On("GET", "providers", providers.List{})
	if code, _, errs := g.Muster("provider", "ls"); code != 0 || !strings.Contains(errs, "muster provider add KIND --key-file FILE") {
		t.Errorf("none: %d %s", code, errs)
	}
	g.On("DELETE", "providers/vast", api.Done{ID: "vast", Status: "removed"})
	if code, _, errs := g.Muster("provider", "remove", "vast"); code != 2 || !strings.Contains(errs, "add --yes") {
		t.Errorf("without a yes: %d %s", code, errs)
	}
	if code, out, _ := g.Muster("provider", "remove", "vast", "-y"); code != 0 || !strings.Contains(out, "goes on, and is charged") {
		t.Errorf("remove: %d %s", code, out)
	}
	g.On("POST", "providers/vast/sync", accounts().Providers[0])
	g.On("POST", "providers/lab/sync", accounts().Providers[1])
	code, out, errs := g.Muster("provider", "sync", "vast", "lab", "gone")
	if code != 1 || out != "vast: 3 instances, 6.25 an hour\n" || !strings.Contains(errs, "lab: unknown since 1h: HTTP 503: ") ||
		!strings.Contains(errs, "gone: there is no ") || strings.Contains(errs, "\x1b") {
		t.Errorf("sync: %d %s%s", code, out, errs)
	}
}

// TestLimit: a limit is shown, set for an account or a tenant, and taken away. A word that is no price is no limit.
func TestLimit(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "spending", providers.SpendingList{Spending: []providers.Spending{{Of: "account vast", PerHour: some(20.0), Now: 6.25},
		{Of: "tenant lab", Now: 1}}})
	_, out, _ := g.Muster("provider", "limit")
	if want := "OF            LIMIT  NOW   LEFT\naccount vast  20.00  6.25  13.75\ntenant lab    none   1.00  -\n"; out != want {
		t.Errorf("got\n%s", out)
	}
	g.On("PUT", "providers/vast/limit", providers.Spending{Of: "account vast", PerHour: some(5.0), Now: 6.25})
	g.On("PUT", "spending/lab", providers.Spending{Of: "tenant lab"})
	g.Requests()
	code, out, _ := g.Muster("provider", "limit", "vast", "5")
	if code != 0 || g.Requests()[0] != `PUT providers/vast/limit {"per_hour":5}` || !strings.Contains(out,
		"nothing more is rented or started") {
		t.Errorf("set: %d %s", code, out)
	}
	if code, out, _ := g.Muster("provider", "limit", "--tenant", "lab", "none"); code != 0 ||
		g.Requests()[0] != `PUT spending/lab {"per_hour":null}` || out != "tenant lab: limit none, now 0.00\n" {
		t.Errorf("taken away: %d %s", code, out)
	}
	for _, args := range [][]string{{"vast"}, {"vast", "much"}, {"vast", "-1"}, {"vast", "NaN"}, {"vast", "1e9"}, {"--tenant", "lab"},
		{"--tenant", "lab", "vast", "5"}} {
		if code, _, errs := g.Muster(append([]string{"provider", "limit"}, args...)...); code != 2 || !strings.Contains(errs, "hint: ") {
			t.Errorf("%q: %d %s", args, code, errs)
		}
	}
	if asked := g.Requests(); len(asked) > 0 {
		t.Errorf("the gateway was asked %q", asked)
	}
}

// TestPlan: each finding stands with its cost and its command, once. What is not known is not well.
func TestPlan(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "providers/plan", thePlan())
	_, out, _ := g.Muster("provider", "plan")
	kit.Golden(t, "provider-plan.golden", out)
	g.Screen = 80
	long := thePlan()
	long.Findings[1].Text = "it runs since 2026-11-20T09:00:00Z for $2.12 an hour, which is $51.00 a day, and no node says that it is this"
	g.On("GET", "providers/plan", long)
	_, out, _ = g.Muster("provider", "plan")
	kit.Golden(t, "provider-plan-80.golden", out)
	for line := range strings.Lines(out) {
		if len(line) > 81 || strings.Contains(line, "…") {
			t.Errorf("on a screen: %s", line)
		}
	}
	g.Screen = 0
	for text, p := range map[string]providers.Plan{
		"There is no account. muster provider add": {},
		"FINDING         INSTANCE": {Providers: accounts().Providers,
			Findings: thePlan().Findings[1:2]},
		"Nothing is found.\n  vast: 3 instances, 6.25 an hour, seen 36s ago\n1 machine is not judged yet:\n  1 of vast: still to join\n": {
			Providers: accounts().Providers[:1], Unjudged: []providers.Unjudged{{Provider: "vast", Machines: 1, Why: "still to join"}}},
		"1 machine being given back, 48.05 a day\n  vast: 3 instances, 6.25 an hour, seen 36s ago\n1 machine is being given back:\n" +
			"  vast/7: it is being destroyed at $2.002 an hour\n1 machine is not judged yet:\n": {
			Providers: accounts().Providers[:1], PerDay: 48.05, Unjudged: []providers.Unjudged{
				{Provider: "vast", Machines: 1, Why: "still to join"},
				{Provider: "vast", Instance: "7", Machines: 1, PerDay: 48.05, Why: "it is being destroyed at $2.002 an hour"}}},
		"2 machines being given back, whose cost is not known\n": {Providers: accounts().Providers[:1], Unjudged: []providers.Unjudged{
			{Provider: "vast", Instance: "7", Machines: 1}, {Provider: "vast", Instance: "8", Machines: 1}}},
		"Nothing is found, as far as the accounts were seen.\n": {Providers: accounts().Providers},
	} {
		g.On("GET", "providers/plan", p)
		if code, out, _ := g.Muster("provider", "plan"); code != 0 || !strings.HasPrefix(out, text) || strings.Contains(out, "0.00") {
			t.Errorf("want %q: %d\n%s", text, code, out)
		}
	}
}

// TestCost: parts of a cost stand beside each other, and what is estimated or not known says so.
func TestCost(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	row := providers.CostRow{Group: "vast", Machines: 3, Hours: 71.5, Rented: some(150.0), Used: some(90.0), Idle: some(40.0),
		Silent: some(15.0), Storage: some(0.0), Unmeasured: some(5.0), Estimate: true}
	g.On("GET", "costs", providers.CostReport{By: "provider", Since: *at(-24), Until: *at(0), Rows: []providers.CostRow{row, {Group: "",
		Machines: 1,
		Unpriced: 1}},
		Total: providers.CostRow{Machines: 4, Hours: 71.5, Rented: some(150.0), Estimate: true, Unpriced: 1}})
	_, out, _ := g.Muster("cost", "--since", "1d", "--by", "provider", "-l", "tier=spot", "--tenant", "lab")
	kit.Golden(t, "cost.golden", out)
	if got, want := g.Requests()[0], "GET costs?by=provider&selector=tier%3Dspot&since=2026-11-20T10%3A00%3A00Z&tenant=lab"; got != want {
		t.Errorf("asked %s", got)
	}
	g.On("GET", "costs", providers.CostReport{Rows: []providers.CostRow{{Group: "x", Machines: 1, Rented: some(.0842), Used: some(.0748),
		Idle: some(.0047), Silent: some(0.0), Unmeasured: some(.0047)}}})
	if _, out, _ := g.Muster("cost"); !strings.Contains(out, "  0.08    0.08  0.00  0.00    -        0.00\n") {
		t.Errorf("the parts do not add up:\n%s", out)
	}
	g.Requests()
	g.On("GET", "costs", providers.CostReport{Rows: []providers.CostRow{{Group: "all of it", Machines: 1, Rented: some(1.0)}}})
	if _, out, _ := g.Muster("cost"); strings.Contains(out, "\nall  ") || strings.Contains(out, "~") || strings.Contains(g.Requests()[0],
		"since") {
		t.Errorf("one row:\n%s", out)
	}
}
