package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli/help"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas"
	"muster/gateway/internal/maas/recovery"
	"muster/gateway/internal/maas/region"
)

// TestRecoveryPage: the page about MAAS has each row of the recovery table, in its order, and no other.
func TestRecoveryPage(t *testing.T) {
	_, section, _ := strings.Cut(help.Text("maas"), "\n## Where the two sides disagree\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var said, want []string
	for line := range strings.Lines(section) {
		if name, found := strings.CutPrefix(line, "| `"); found {
			name, _, _ = strings.Cut(name, "`")
			said = append(said, name)
		}
	}
	for _, row := range recovery.Table() {
		want = append(want, row.Name)
	}
	if !slices.Equal(said, want) {
		t.Errorf("the page has %q, want %q", said, want)
	}
}

// TestLabDown follows the runbook's first step with a MAAS that is broken in each of the ways that it names: what muster says stands there.
func TestLabDown(t *testing.T) {
	db := kit.Store(t, nil)
	closed := httptest.NewServer(nil)
	closed.Close()
	fails := func(f maassim.Fault) func(*maassim.Sim) (http.Handler, string) {
		return func(sim *maassim.Sim) (http.Handler, string) {
			sim.Fail("*", f, -1)
			return sim, sim.Key()
		}
	}
	for name, c := range map[string]struct {
		says  string
		ahead time.Duration // of MAAS's clock
		make  func(*maassim.Sim) (handler http.Handler, key string)
	}{
		"region down": {"(unclear)", 0, fails(maassim.RegionDown)},
		"no answer":   {"(unclear)", 0, fails(maassim.LostBefore)},
		"a page":      {"(not_maas)", 0, fails(maassim.PageInstead)},
		"moved":       {"(not_maas)", 0, fails(maassim.MovedInstead)},
		"clock":       {"(clock)", time.Hour, func(sim *maassim.Sim) (http.Handler, string) { return sim, sim.Key() }},
		"no admin":    {"no admin of MAAS", 0, func(sim *maassim.Sim) (http.Handler, string) { return sim, sim.AddUser("guest", false) }},
		"revoked": {"(key_refused)", 0, func(sim *maassim.Sim) (http.Handler, string) {
			key := sim.Key()
			sim.Revoke("muster", false)
			return sim, key
		}},
		"nothing listens": {"(unreached)", 0, func(sim *maassim.Sim) (http.Handler, string) { return nil, sim.Key() }},
	} {
		sim := maassim.New(maassim.Config{Now: func() time.Time { return time.Now().Add(c.ahead) }})
		handler, key := c.make(sim)
		url := closed.URL
		if handler != nil {
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			url = server.URL
		}
		client, err := region.New(region.Config{URL: url, Key: key, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		service, err := maas.Open(t.Context(), maas.Config{Store: db, Region: client,
			Profiles: func(context.Context) ([]api.Profile, error) { return nil, nil }})
		if err != nil {
			t.Fatal(err)
		}
		if err := service.Round(t.Context()); err == nil {
			t.Errorf("%s: a view was taken", name)
		}
		if said := service.State().Error; !strings.Contains(said, c.says) || !strings.Contains(help.Text("lab-down"), "`"+c.says+"`") {
			t.Errorf("%s: it says %q, want %s, and that the page has it", name, said, c.says)
		}
	}
}
