package adminapi_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas"
	"muster/gateway/internal/maas/region"
	"muster/store"
)

// metal gives the house a MAAS with two machines, of which the second is new there, and takes a view of it.
func (h *house) metal() (sim *maassim.Sim, first, second string) {
	h.t.Helper()
	sim = maassim.New(maassim.Config{Now: h.clock})
	server := httptest.NewServer(sim)
	h.t.Cleanup(server.Close)
	first = sim.Add(maassim.Machine{Hostname: "rack-1", Status: 4})
	second = sim.Add(maassim.Machine{Hostname: "rack-2"})
	client, err := region.New(region.Config{URL: server.URL, Key: sim.Key(), Now: h.clock,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(client.Close)
	h.api.MAAS, err = maas.Open(h.t.Context(), maas.Config{Store: h.store, Region: client, URL: server.URL, Tenant: "lab", Now: h.clock,
		Commission: func(ctx context.Context, name, tenant, provider, instance string, by store.Actor) (string, error) {
			n, err := h.api.Fleet.Commission(ctx, name, tenant, provider, instance, by)
			return n.ID, err
		},
		Move: func(ctx context.Context, id, verb string, force bool, by store.Actor) error {
			return h.api.Fleet.Provide(ctx, id, fleet.Verb(verb), force, by)
		},
		Profiles: func(context.Context) ([]api.Profile, error) { return []api.Profile{{Name: api.ProfileBareMetal}}, nil },
	})
	if err == nil {
		err = h.api.MAAS.Round(h.t.Context())
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return sim, first, second
}

// TestMAASRoutes: machines stand beside their nodes, by each of their names, and what is asked for is on record with who asked.
func TestMAASRoutes(t *testing.T) {
	h := newHouse(t)
	_, first, second := h.metal()
	looks := h.account("looks", "", api.ScopeNodesRead)
	acts := h.account("acts", "", api.ScopeMAASWrite)
	status, body := h.ask("GET", "maas/machines", looks, "")
	list := decode[machines.List](t, body)
	if status != 200 || !list.MAAS.Known || !list.MAAS.Enabled || len(list.Machines) != 2 {
		t.Fatalf("%d %s", status, body)
	}
	var id string
	for _, name := range []string{first, "rack-1"} {
		status, body := h.ask("GET", "maas/machines/"+name, looks, "")
		m := decode[machines.Machine](t, body)
		if status != 200 || m.SystemID != first || m.State != machines.StateReady || m.Node != "rack-1" || m.NodeState != wire.StateCommissioned {
			t.Errorf("%s: %d %s", name, status, body)
		}
		id = m.NodeID
	}
	if status, body := h.ask("GET", "maas/machines/"+id, looks, ""); status != 200 || decode[machines.Machine](t, body).SystemID != first {
		t.Errorf("by the node's id: %d %s", status, body)
	}
	status, body = h.ask("GET", "maas/plan", looks, "")
	if plan := decode[machines.Plan](t, body); status != 200 || len(plan.Steps) != 2 || plan.Steps[0].Finding != "no_profile" ||
		plan.Steps[1].Finding != "not_commissioned" {
		t.Errorf("%d %s", status, body)
	}
	status, body = h.ask("POST", "maas/machines", acts, `{"act":"commission","machines":["rack-2","none"]}`)
	acted := decode[machines.Acted](t, body)
	if status != 200 || len(acted.Machines) != 1 || acted.Machines[0].SystemID != second || acted.Machines[0].Work == nil ||
		acted.Machines[0].Work.By != "account:acts" || !strings.Contains(acted.Refused["none"], "no machine none") {
		t.Errorf("%d %s", status, body)
	}
	status, body = h.ask("GET", "maas/machines/rack-2", looks, "")
	if m := decode[machines.Machine](t, body); status != 200 || m.Work == nil || m.Work.Act != machines.ActCommission {
		t.Errorf("%d %s", status, body)
	}
}

// TestMAASRefusals: who may look may not act, an account of one tenant may neither, and where MAAS is off the answer says how it is
// switched on.
func TestMAASRefusals(t *testing.T) {
	h := newHouse(t)
	sim, first, _ := h.metal()
	looks := h.account("looks", "", api.ScopeNodesRead)
	acts := h.account("acts", "", api.ScopeMAASWrite)
	one := h.account("one", "lab", api.ScopeNodesRead, api.ScopeMAASWrite)
	refused := func(name, method, path, token, body, want, says string) {
		t.Helper()
		if _, answer := h.ask(method, path, token, body); code(answer) != want || !strings.Contains(string(answer), says) {
			t.Errorf("%s: %s", name, answer)
		}
	}
	const deploy = `{"act":"deploy","machines":["rack-1"]}`
	refused("a tenant looks", "GET", "maas/machines", one, "", wire.CodeForbidden, "an account of all tenants")
	refused("a tenant plans", "GET", "maas/plan", one, "", wire.CodeForbidden, "an account of all tenants")
	refused("a tenant acts", "POST", "maas/machines", one, deploy, wire.CodeForbidden, "an account of all tenants")
	refused("a reader acts", "POST", "maas/machines", looks, deploy, wire.CodeForbidden, "maas:write")
	refused("who acts looks", "GET", "maas/machines/"+first, acts, "", wire.CodeForbidden, "nodes:read")
	refused("no such machine", "GET", "maas/machines/none", looks, "", wire.CodeNotFound, "muster maas ls")
	refused("no such act", "POST", "maas/machines", acts, `{"act":"burn","machines":["rack-1"]}`, wire.CodeBadRequest, "deploy, release")
	refused("no machine", "POST", "maas/machines", acts, `{"act":"deploy"}`, wire.CodeBadRequest, "name at least one")
	refused("a field that is none", "POST", "maas/machines", acts, `{"act":"deploy","wipe":true}`, wire.CodeBadRequest, "erase")
	refused("a parameter", "GET", "maas/machines?state=ready", looks, "", wire.CodeBadRequest, "it takes no parameters")
	refused("a reader syncs", "POST", "maas/sync", looks, "", wire.CodeForbidden, "maas:write")
	refused("a body for a sync", "POST", "maas/sync", acts, `{"now":1}`, wire.CodeBadRequest, "now")
	refused("a method that is none", "DELETE", "maas/machines/"+first, acts, "", wire.CodeMethodNotAllowed, "")

	sim.Revoke("muster", false)
	if err := h.api.MAAS.Round(t.Context()); err == nil {
		t.Error("a view with a key that was revoked")
	}
	refused("an old view", "POST", "maas/machines", acts, deploy, wire.CodeUnavailable, "nothing is done on an old view")

	off, err := maas.Open(t.Context(), maas.Config{Store: h.store})
	if err != nil {
		t.Fatal(err)
	}
	for _, h.api.MAAS = range []*maas.Service{nil, off} {
		for _, path := range []string{"maas/machines", "maas/plan", "maas/machines/" + first} {
			refused("off", "GET", path, looks, "", wire.CodeUnavailable, "muster serve --maas-url URL --maas-key-file FILE")
		}
		refused("off", "POST", "maas/machines", acts, deploy, wire.CodeUnavailable, "muster serve --maas-url URL --maas-key-file FILE")
	}
}
