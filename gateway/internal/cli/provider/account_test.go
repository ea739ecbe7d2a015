package provider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
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
	g := newGateway(t)
	g.on("GET", "tenants", api.TenantList{Tenants: []api.Tenant{{Tenant: "research"}}})
	g.on("POST", "providers", accounts().Providers[0])
	code, out, errs := g.muster("provider", "add", "vast_ai", "--key-file", keyFile(t, "s3cret\n"), "--name", "vast", "--tenant", "research",
		"--url", "http://127.0.0.1:1", "--ssh-key", "mine")
	asked := g.requests()
	const want = `POST providers {"kind":"vast_ai","name":"vast","tenant":"research","key":"s3cret",` +
		`"url":"http://127.0.0.1:1","ssh_key":"mine"}`
	if code != 0 || len(asked) != 2 || asked[1] != want || strings.Contains(out+errs, "s3cret") ||
		out != "vast is added: 3 instances, 6.25 an hour.\n"+
			"muster provider plan shows what runs there and is not in the fleet, and what it costs.\n" {
		t.Errorf("code %d\n%s%s\n%q", code, out, errs, asked)
	}
	g.stdin = "piped"
	g.on("POST", "providers", accounts().Providers[2])
	if code, out, errs = g.muster("provider", "add", "lambda", "--key-file", "-"); code != 0 ||
		g.requests()[0] != `POST providers {"kind":"lambda","key":"piped"}` || !strings.Contains(out,
		"its key works, and its machines show in a moment") {
		t.Errorf("from a pipe: %d %s%s", code, out, errs)
	}
	again := accounts().Providers[0]
	again.KeyReplaced = true
	g.on("POST", "providers", again)
	if code, out, _ := g.muster("provider", "add", "vast_ai", "--key-file", "-"); code != 0 || out != "The key of vast is replaced.\n" {
		t.Errorf("once more: %d %s", code, out)
	}
	g.requests()
	for name, args := range map[string][]string{"no file": {}, "an empty file": {"--key-file", keyFile(t, "\n")},
		"two lines": {"--key-file", keyFile(t, "s3cret\ntwo\n")}} {
		code, out, errs := g.muster(append([]string{"provider", "add", "vast_ai"}, args...)...)
		if code != 2 || out != "" || strings.Contains(errs, "s3cret") || !strings.Contains(errs, "hint: ") {
			t.Errorf("%s: %d %s%s", name, code, out, errs)
		}
	}
	if code, _, errs := g.muster("provider", "add", "vast_ai", "--key-file", "/nowhere/key"); code != 1 || !strings.Contains(errs,
		"read the API key") {
		t.Errorf("a file that is not there: %d %s", code, errs)
	}
	if asked := g.requests(); len(asked) > 0 {
		t.Errorf("the gateway was asked %q", asked)
	}
	g.on("POST", "providers", &wire.ErrorDetail{Code: wire.CodeProviderFailed, Message: "the company does not take the key", Hint: "make one"})
	if code, _, errs := g.muster("provider", "add", "vast_ai", "--key-file", keyFile(t, "k")); code != 1 || !strings.Contains(errs,
		"hint: make one") {
		t.Errorf("refused: %d %s", code, errs)
	}
}

// TestAccounts: lists and single accounts say whether what they show is of now.
func TestAccounts(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.on("GET", "providers", accounts())
	_, out, _ := g.muster("provider", "ls", "-o", "wide")
	golden(t, "provider-ls", out)
	if _, out, _ := g.muster("provider", "ls", "-o", "json"); !strings.HasPrefix(out, `{"providers":[{"name":"vast"`) ||
		strings.Contains(out, "key") {
		t.Errorf("json: %s", out)
	}
	g.on("GET", "providers/vast", accounts().Providers[0])
	_, out, _ = g.muster("provider", "show", "vast")
	golden(t, "provider-show", out)
	g.on("GET", "providers", providers.List{})
	if code, _, errs := g.muster("provider", "ls"); code != 0 || !strings.Contains(errs, "muster provider add KIND --key-file FILE") {
		t.Errorf("none: %d %s", code, errs)
	}
	g.on("DELETE", "providers/vast", api.Done{ID: "vast", Status: "removed"})
	if code, _, errs := g.muster("provider", "remove", "vast"); code != 2 || !strings.Contains(errs, "add --yes") {
		t.Errorf("without a yes: %d %s", code, errs)
	}
	if code, out, _ := g.muster("provider", "remove", "vast", "-y"); code != 0 || !strings.Contains(out, "goes on, and is charged") {
		t.Errorf("remove: %d %s", code, out)
	}
	g.on("POST", "providers/vast/sync", accounts().Providers[0])
	g.on("POST", "providers/lab/sync", accounts().Providers[1])
	code, out, errs := g.muster("provider", "sync", "vast", "lab", "gone")
	if code != 1 || out != "vast: 3 instances, 6.25 an hour\n" || !strings.Contains(errs, "lab: unknown since 1h: HTTP 503: ") ||
		!strings.Contains(errs, "gone: there is no ") || strings.Contains(errs, "\x1b") {
		t.Errorf("sync: %d %s%s", code, out, errs)
	}
}

// TestLimit: a limit is shown, set for an account or a tenant, and taken away. A word that is no price is no limit.
func TestLimit(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.on("GET", "spending", providers.SpendingList{Spending: []providers.Spending{{Of: "account vast", PerHour: some(20.0), Now: 6.25},
		{Of: "tenant lab", Now: 1}}})
	_, out, _ := g.muster("provider", "limit")
	if want := "OF            LIMIT  NOW   LEFT\naccount vast  20.00  6.25  13.75\ntenant lab    none   1.00  -\n"; out != want {
		t.Errorf("got\n%s", out)
	}
	g.on("PUT", "providers/vast/limit", providers.Spending{Of: "account vast", PerHour: some(5.0), Now: 6.25})
	g.on("PUT", "spending/lab", providers.Spending{Of: "tenant lab"})
	g.requests()
	code, out, _ := g.muster("provider", "limit", "vast", "5")
	if code != 0 || g.requests()[0] != `PUT providers/vast/limit {"per_hour":5}` || !strings.Contains(out,
		"nothing more is rented or started") {
		t.Errorf("set: %d %s", code, out)
	}
	if code, out, _ := g.muster("provider", "limit", "--tenant", "lab", "none"); code != 0 ||
		g.requests()[0] != `PUT spending/lab {"per_hour":null}` || out != "tenant lab: limit none, now 0.00\n" {
		t.Errorf("taken away: %d %s", code, out)
	}
	for _, args := range [][]string{{"vast"}, {"vast", "much"}, {"vast", "-1"}, {"vast", "NaN"}, {"vast", "1e9"}, {"--tenant", "lab"},
		{"--tenant", "lab", "vast", "5"}} {
		if code, _, errs := g.muster(append([]string{"provider", "limit"}, args...)...); code != 2 || !strings.Contains(errs, "hint: ") {
			t.Errorf("%q: %d %s", args, code, errs)
		}
	}
	if asked := g.requests(); len(asked) > 0 {
		t.Errorf("the gateway was asked %q", asked)
	}
}

// TestPlan: each finding stands with its cost and its command, once. What is not known is not well.
func TestPlan(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.on("GET", "providers/plan", thePlan())
	_, out, _ := g.muster("provider", "plan")
	golden(t, "provider-plan", out)
	g.screen = 80
	long := thePlan()
	long.Findings[1].Text = "it runs since 2026-11-20T09:00:00Z for $2.12 an hour, which is $51.00 a day, and no node says that it is this"
	g.on("GET", "providers/plan", long)
	_, out, _ = g.muster("provider", "plan")
	golden(t, "provider-plan-80", out)
	for line := range strings.Lines(out) {
		if len(line) > 81 || strings.Contains(line, "…") {
			t.Errorf("on a screen: %s", line)
		}
	}
	g.screen = 0
	for text, p := range map[string]providers.Plan{
		"There is no account. muster provider add": {},
		"FINDING         INSTANCE": {Providers: accounts().Providers,
			Findings: thePlan().Findings[1:2]},
		"Nothing is found. A machine that has just begun to run has 15 minutes to join before it is told of.\n  vast: 3 inst": {
			Providers: accounts().Providers[:1]},
		"Nothing is found, as far as the accounts were seen. A machine that has just begun": {Providers: accounts().Providers},
	} {
		g.on("GET", "providers/plan", p)
		if code, out, _ := g.muster("provider", "plan"); code != 0 || !strings.HasPrefix(out, text) || strings.Contains(out, "0.00") {
			t.Errorf("want %q: %d\n%s", text, code, out)
		}
	}
}

// TestCost: parts of a cost stand beside each other, and what is estimated or not known says so.
func TestCost(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	row := providers.CostRow{Group: "vast", Machines: 3, Hours: 71.5, Rented: some(150.0), Used: some(90.0), Idle: some(40.0),
		Silent:   some(20.0),
		Estimate: true}
	g.on("GET", "costs", providers.CostReport{By: "provider", Since: *at(-24), Until: *at(0), Rows: []providers.CostRow{row, {Group: "",
		Machines: 1,
		Unpriced: 1}},
		Total: providers.CostRow{Machines: 4, Hours: 71.5, Rented: some(150.0), Estimate: true, Unpriced: 1}})
	_, out, _ := g.muster("cost", "--since", "1d", "--by", "provider", "-l", "tier=spot", "--tenant", "lab")
	golden(t, "cost", out)
	if got, want := g.requests()[0], "GET costs?by=provider&selector=tier%3Dspot&since=2026-11-20T10%3A00%3A00Z&tenant=lab"; got != want {
		t.Errorf("asked %s", got)
	}
	g.on("GET", "costs", providers.CostReport{Rows: []providers.CostRow{{Group: "all of it", Machines: 1, Rented: some(1.0)}}})
	if _, out, _ := g.muster("cost"); strings.Contains(out, "\nall  ") || strings.Contains(out, "~") || strings.Contains(g.requests()[0],
		"since") {
		t.Errorf("one row:\n%s", out)
	}
}
