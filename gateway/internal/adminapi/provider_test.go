package adminapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/adminapi/provider"
	accounts "muster/gateway/internal/provider"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/lease"
	"muster/gateway/internal/provider/market"
	"muster/gateway/internal/provider/rent"
	"muster/store"
	rentals "muster/store/provider"
)

// company is one whose machines are in memory. What it is asked to change, it notes.
type company struct {
	market.Cloud // what is not asked
	machines     []cloud.Instance
	fault        error // of every call but List
	asked        []string
}

func (c *company) List(_ context.Context, take func([]cloud.Instance)) error {
	take(slices.Clone(c.machines))
	return nil
}

func (c *company) Get(_ context.Context, id string) (cloud.Instance, error) {
	i := slices.IndexFunc(c.machines, func(i cloud.Instance) bool { return i.ID == id })
	if i < 0 {
		return cloud.Instance{}, &cloud.Error{Kind: cloud.NoSuch, Status: 404}
	}
	return c.machines[i], nil
}

func (c *company) Start(_ context.Context, id string) error {
	c.asked = append(c.asked, "start "+id)
	for i := range c.machines {
		if c.machines[i].ID == id && c.fault == nil {
			c.machines[i].State = cloud.Running
		}
	}
	return c.fault
}

func (c *company) Offers(context.Context, cloud.Want) ([]cloud.Offer, error) {
	return []cloud.Offer{{ID: "o1", Host: "h1", GPU: "H100", GPUs: 1, Price: 2 * cloud.Dollar}}, c.fault
}

// refusing is a company that takes no key.
type refusing struct{ market.Cloud }

func (refusing) List(context.Context, func([]cloud.Instance)) error {
	return &cloud.Error{Kind: cloud.KeyRefused, Status: 401, Text: "not the key bad-key"}
}

// renting gives the house accounts with companies: "vast" of the tenant lab, with the machines 7 (stopped) and 8 (the node gpu-1), and
// "far" of another tenant with the machine 17.
func (h *house) renting() (vast *company, log *bytes.Buffer) {
	h.t.Helper()
	log = new(bytes.Buffer)
	logger := slog.New(slog.NewTextHandler(log, nil))
	price := 2 * cloud.Dollar
	vast = &company{machines: []cloud.Instance{{ID: "7", State: cloud.Stopped, Running: &price},
		{ID: "8", State: cloud.Running, Price: &price, Running: &price}}}
	far := &company{machines: []cloud.Instance{{ID: "17", State: cloud.Running, Price: &price, Running: &price}}}
	records := rentals.New(h.store.Records())
	a, err := accounts.Open(h.t.Context(), accounts.Config{
		Config: market.Config{Store: h.store, Records: records, Now: h.clock, Logger: logger,
			Dial: func(_ string, d market.Dial) (market.Cloud, error) {
				switch d.Key {
				case "bad-key":
					return refusing{}, nil
				case "far-key":
					return far, nil
				}
				return vast, nil
			}},
		Ready: h.api.Overview.Ready, Nodes: h.rows,
		NodeCosts: func(context.Context, time.Time, time.Time, func(string) bool) (map[string]*api.NodeCost, error) {
			return nil, nil
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	nodeOf := func(kind, instance string) (*api.NodeRow, bool) {
		rows := h.rows()
		if i := slices.IndexFunc(rows, func(n *api.NodeRow) bool { return n.Provider == kind && n.InstanceID == instance }); i >= 0 {
			return rows[i], true
		}
		return nil, false
	}
	leases := lease.Open(lease.Config{World: lease.World{Records: records, Ready: h.api.Overview.Ready, Market: a.Market(),
		Node: h.api.Overview.Row, NodeOf: nodeOf, Now: h.clock, Logger: logger}, Nodes: h.rows, Busy: func(string) []string { return nil }})
	h.api.Providers = provider.Service{Accounts: a, Leases: leases, Rents: rent.Open(rent.Config{Leases: leases,
		Named: func(string) (*api.NodeRow, bool) { return nil, false }})}
	err = h.store.CreateNode(h.t.Context(), store.Node{ID: "id-gpu-1", Name: "gpu-1", Tenant: "lab", Provider: cloud.Vast, InstanceID: "8",
		CreatedAt: h.now, StateSince: h.now}, nil, store.Event{At: h.now, Kind: "node.created", NodeID: "id-gpu-1", Tenant: "lab", Outcome: "ok"})
	if err != nil {
		h.t.Fatal(err)
	}
	h.api.Overview.Load(h.t.Context())
	return vast, log
}

// TestProviderRoutes: what each route does, for those of one tenant with what is theirs alone. The key of an account is in no answer, no
// event and no line of the log.
func TestProviderRoutes(t *testing.T) {
	h := newHouse(t)
	vast, log := h.renting()
	scopes := []string{api.ScopeProvidersRead, api.ScopeProvidersWrite, api.ScopeProvidersSpend}
	all, one, out := h.account("all", "", scopes...), h.account("one", "lab", scopes...), h.account("out", "other", scopes...)
	writer := h.account("writer", "lab", api.ScopeProvidersRead, api.ScopeProvidersWrite)
	var said bytes.Buffer
	for _, c := range []struct {
		method, path, token, body string
		status                    int
		says                      string
		not                       string
	}{
		{"POST", "providers", all, `{"kind":"vast_ai","key":"bad-key"}`, 400, "nothing was stored", "bad-key"},
		{"POST", "providers", all, `{"kind":"vast_ai","name":"vast","tenant":"lab","key":"k-secret"}`, 201, `"name":"vast"`, "k-secret"},
		{"POST", "providers", all, `{"kind":"vast_ai","name":"far","tenant":"far","key":"far-key"}`, 201, `"name":"far"`, "far-key"},
		{"POST", "providers/vast/sync", all, "", 200, `"instances":2`, "key_replaced"},
		{"POST", "providers", all, `{"kind":"vast_ai","name":"vast","key":"k-second"}`, 200, `"key_replaced":true`, "k-second"},
		{"POST", "providers/far/sync", all, "", 200, `"known":true`, ""},
		{"GET", "providers", all, "", 200, `"name":"far"`, ""},
		{"GET", "providers", one, "", 200, `"name":"vast"`, `"name":"far"`},
		{"GET", "providers/vast", one, "", 200, `"created_by":"account:all"`, ""},
		{"GET", "providers/far", one, "", 404, "muster provider ls", ""},
		{"GET", "providers/plan", all, "", 200, `"name":"far"`, ""},
		{"GET", "providers/plan", one, "", 200, `"storage_billed"`, `"name":"far"`},
		{"GET", "providers/vast/instances", one, "", 200, `"node":"gpu-1"`, ""},
		{"GET", "providers/vast/instances", out, "", 404, "vast", ""},
		{"GET", "providers/vast/instances/7", one, "", 200, `"state":"stopped"`, ""},
		{"GET", "providers/vast/instances/9", one, "", 404, "vast/9", ""},
		{"GET", "providers/vast/instances/7", out, "", 404, "vast", ""},
		{"POST", "providers/vast/instances/7", out, `{"act":"destroy"}`, 404, "vast", ""},
		{"POST", "providers/vast/instances/7", one, `{"act":"rejoin"}`, 409, "vast/7 is stopped at its company", ""},
		{"POST", "providers/vast/instances/7", out, `{"act":"rejoin"}`, 404, "vast", ""},
		{"POST", "providers/vast/instances/7", one, `{"act":"start"}`, 200, `"state":"running"`, ""},
		{"PUT", "providers/vast/limit", all, `{"per_hour":5.5}`, 200, `"limit_per_hour":5.5`, ""},
		{"PUT", "spending/lab", all, `{"per_hour":null}`, 200, `"limit_per_hour":null`, ""},
		{"GET", "spending", all, "", 200, `"of":"account vast"`, ""},
		{"POST", "leases", one, `{"node":"gpu-1","ttl_seconds":3600}`, 200, `"ends_at":"2026-11-21T11:00:00Z"`, ""},
		{"POST", "leases", writer, `{"node":"gpu-1","ttl_seconds":3601}`, 403, "providers:spend", ""},
		{"POST", "leases", one, `{"provider":"vast","instance_id":"8","add_seconds":3600}`, 200, `"ends_at":"2026-11-21T12:00:00Z"`, ""},
		{"POST", "leases", out, `{"node":"gpu-1","ttl_seconds":60}`, 404, "muster ls", ""},
		{"POST", "leases", out, `{"provider":"vast","instance_id":"8","end":true}`, 404, "muster provider ls", ""},
		{"POST", "leases", all, `{"provider":"far","instance_id":"17","ttl_seconds":3600}`, 200, `"tenant":"far"`, ""},
		{"GET", "leases", one, "", 200, `"instance_id":"8"`, `"provider":"far"`},
		{"GET", "leases?provider=far", all, "", 200, `"provider":"far"`, `"provider":"vast"`},
		{"GET", "offers?provider=vast&gpu=H100&max_price=2.5", one, "", 200, `"chosen":true`, ""},
		{"GET", "offers?provider=vast&gpu=H100", one, "", 200, `"chosen":true`, ""},
		{"GET", "offers?provider=vast&gpu=H100", out, "", 404, "vast", ""},
		{"GET", "offers?provider=vast&gpu=H100&ttl_seconds=1", one, "", 400, "for 1s", ""},
		{"GET", "offers?provider=vast&gpu=H100&labels=batch%3Dx,tenant%3Dx", one, "", 400, "tenant", ""},
		{"GET", "offers?provider=vast&gpu=H100&labels=batch%3Dx", one, "", 200, "account vast may cost", ""},
		{"POST", "rentals", one, `{"provider":"vast","gpu":"H100","max_price":null,"ttl_seconds":60,"plan":true}`, 200, `"chosen":true`, ""},
		{"POST", "rentals", one, `{"provider":"vast","gpu":"H100","max_price":2.5,"ttl_seconds":60}`, 409, "nothing was rented", ""},
		{"PUT", "providers/vast/limit", all, `{"per_hour":6}`, 200, `"limit_per_hour":6`, ""},
		{"POST", "rentals", one, `{"id":"ID","provider":"vast","gpu":"H100","max_price":2.5,"ttl_seconds":60}`, 201, `"state":"renting"`, ""},
		{"POST", "rentals", one, `{"id":"ID","provider":"vast","gpu":"H100","max_price":2.5,"ttl_seconds":60}`, 200, `"id":"ID"`, ""},
		{"POST", "rentals", out, `{"provider":"vast","gpu":"H100","max_price":2.5,"ttl_seconds":60}`, 404, "vast", ""},
		{"GET", "rentals", one, "", 200, `"id":"ID"`, ""},
		{"GET", "rentals", out, "", 200, `"rentals":[]`, ""},
		{"GET", "rentals/ID", one, "", 200, `"owner":"one"`, ""},
		{"GET", "rentals/ID", out, "", 404, "", ""},
		{"DELETE", "rentals/ID", out, "", 404, "", ""},
		{"DELETE", "rentals/ID", one, "", 200, `given up by account:one`, ""},
		{"GET", "costs?by=provider&since=7d", one, "", 200, `"by":"provider"`, ""},
		{"POST", "providers/vast/instances/7", one, `{"act":"stop"}`, 200, `"state":"draining"`, ""},
		{"DELETE", "providers/vast", all, "", 409, "muster provider remove vast --forget-machines", ""},
		{"DELETE", "providers/vast?forget_machines=true", all, "", 409, "the key of the account vast works", ""},
		{"POST", "leases", one, `{"provider":"vast","instance_id":"8","act":"keep","end":true}`, 200, `"state":"ended"`, ""},
	} {
		const id = "aaaaaaaaaaaaaaaa"
		c.path, c.body, c.says = strings.Replace(c.path, "ID", id, 1), strings.Replace(c.body, "ID", id, 1), strings.Replace(c.says, "ID", id, 1)
		status, body := h.ask(c.method, c.path, c.token, c.body)
		said.Write(body)
		text := string(body)
		if status != c.status || !strings.Contains(text, c.says) || c.not != "" && strings.Contains(text, c.not) {
			t.Errorf("%s %s %s: %d %s, want %d with %s and without %q", c.method, c.path, c.body, status, text, c.status, c.says, c.not)
		}
	}
	if got := fmt.Sprint(vast.asked); got != "[start 7]" {
		t.Errorf("the company was asked to %s", got)
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]string{}
	for _, e := range events {
		by[e.Kind] = e.Actor
	}
	if by["provider.added"] != "account:all" || by["lease.extended"] != "account:one" || by["instance.starting"] != "account:one" ||
		by["spending.limited"] != "account:all" || by["rental.intended"] != "account:one" {
		t.Errorf("the events are by %v", by)
	}
	told, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"an answer": said.String(), "an event": string(told), "the log": log.String()} {
		for _, key := range []string{"k-secret", "far-key", "bad-key"} {
			if strings.Contains(text, key) {
				t.Errorf("the key %s is in %s", key, what)
			}
		}
	}
}

// TestProviderFails: what a company says of a call that fails is what the caller is told, with a code for each way to fail.
func TestProviderFails(t *testing.T) {
	h := newHouse(t)
	vast, _ := h.renting()
	all := h.account("all", "", api.ScopeProvidersRead, api.ScopeProvidersWrite, api.ScopeProvidersSpend)
	if status, body := h.ask("POST", "providers", all, `{"kind":"vast_ai","name":"vast","tenant":"lab","key":"k"}`); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := h.ask("POST", "providers/vast/sync", all, ""); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	for kind, want := range map[string]string{cloud.KeyRefused: wire.CodeProviderFailed, cloud.NoOffer: wire.CodeNoCapacity,
		cloud.Limited: wire.CodeUnavailable, cloud.Refused: wire.CodeProviderFailed, cloud.Unclear: wire.CodeProviderFailed} {
		vast.fault = &cloud.Error{Kind: kind, Text: "no_such_ask"}
		for path, body := range map[string]string{"providers/vast/instances/7": `{"act":"start"}`,
			"rentals": `{"provider":"vast","gpu":"H100","max_price":2.5,"ttl_seconds":60}`} {
			if _, answer := h.ask("POST", path, all, body); code(answer) != want || !strings.Contains(string(answer), "no_such_ask") {
				t.Errorf("%s of %s: %s, want %s", kind, path, answer, want)
			}
		}
	}
	if list := decode[providers.RentedList](t, second(h.ask("GET", "rentals", all, ""))); len(list.Rentals) > 0 {
		t.Errorf("something was rented: %+v", list)
	}
}

// TestProviderRefusals: what is refused before the service is asked. Who may look may not spend, and who may stop may not start.
func TestProviderRefusals(t *testing.T) {
	h := newHouse(t)
	vast, _ := h.renting()
	if status, body := h.ask("POST", "providers", "", `{"kind":"vast_ai","name":"v","tenant":"lab","key":"k"}`); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := h.ask("POST", "providers/v/sync", "", ""); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	reader := h.account("reader", "", api.ScopeProvidersRead)
	writer := h.account("writer", "", api.ScopeProvidersRead, api.ScopeProvidersWrite)
	spender := h.account("spender", "", api.ScopeProvidersRead, api.ScopeProvidersSpend)
	one := h.account("one", "lab", api.ScopeProvidersRead, api.ScopeProvidersWrite, api.ScopeProvidersSpend)
	token := decode[api.NewToken](t, second(h.ask("POST", "tokens", "", ""))).Token
	psk := decode[api.NewPSK](t, second(h.ask("POST", "psk", "", `{"generate":true}`))).Secret
	for name, c := range map[string]struct {
		method, path, token, body string
		code, says                string
	}{
		"start without spending":    {"POST", "providers/v/instances/7", writer, `{"act":"start"}`, wire.CodeForbidden, "providers:spend"},
		"stop without changing":     {"POST", "providers/v/instances/7", spender, `{"act":"stop"}`, wire.CodeForbidden, "providers:write"},
		"destroy without changing":  {"POST", "providers/v/instances/7", reader, `{"act":"destroy"}`, wire.CodeForbidden, "providers:write"},
		"rejoin without changing":   {"POST", "providers/v/instances/7", spender, `{"act":"rejoin"}`, wire.CodeForbidden, "providers:write"},
		"an act that is none":       {"POST", "providers/v/instances/7", one, `{"act":"burn"}`, wire.CodeBadRequest, "start, stop, destroy or"},
		"machines of all forgotten": {"DELETE", "providers/v?forget_machines=true", one, "", wire.CodeForbidden, "an account of all tenants"},
		"a word for forgetting":     {"DELETE", "providers/v?forget_machines=yes", writer, "", wire.CodeBadRequest, "forget_machines"},
		"a lease without spending":  {"POST", "leases", writer, `{"node":"n","add_seconds":60}`, wire.CodeForbidden, "providers:spend"},
		"a lease that destroys":     {"POST", "leases", spender, `{"node":"n","ttl_seconds":60,"act":"destroy"}`, wire.CodeForbidden, "write"},
		"a shorter lease":           {"POST", "leases", spender, `{"node":"gpu-1","ttl_seconds":60}`, wire.CodeForbidden, "providers:write"},
		"another act by more time":  {"POST", "leases", spender, `{"node":"n","add_seconds":60,"act":"destroy"}`, wire.CodeForbidden, "write"},
		"an idle end by more time":  {"POST", "leases", spender, `{"node":"n","add_seconds":60,"idle_seconds":600}`, wire.CodeForbidden, "write"},
		"a change of nothing":       {"POST", "leases", spender, `{"node":"n"}`, wire.CodeForbidden, "providers:write"},
		"an extension by a spender": {"POST", "leases", spender, `{"node":"n","add_seconds":60}`, wire.CodeNotFound, ""},
		"an end without changing":   {"POST", "leases", spender, `{"node":"n","end":true}`, wire.CodeForbidden, "providers:write"},
		"a lease of nothing":        {"POST", "leases", one, `{"provider":"v"}`, wire.CodeBadRequest, "name a node"},
		"renting without spending":  {"POST", "rentals", writer, `{}`, wire.CodeForbidden, "providers:spend"},
		"renting for others":        {"POST", "rentals", one, `{"tenant":"other"}`, wire.CodeForbidden, "for the tenant lab only"},
		"cancel without spending":   {"DELETE", "rentals/x", reader, "", wire.CodeForbidden, "providers:spend"},
		"another tenant's plan":     {"GET", "providers/plan?tenant=other", one, "", wire.CodeForbidden, "for the tenant lab only"},
		"another tenant's leases":   {"GET", "leases?tenant=other", one, "", wire.CodeForbidden, "for the tenant lab only"},
		"an account by a tenant":    {"POST", "providers", one, `{}`, wire.CodeForbidden, "an account of all tenants"},
		"a limit by a tenant":       {"PUT", "spending/lab", one, `{"per_hour":99}`, wire.CodeForbidden, "an account of all tenants"},
		"an account by a reader":    {"POST", "providers", reader, `{}`, wire.CodeForbidden, "providers:write"},
		"a price that is none":      {"GET", "offers?max_price=cheap", one, "", wire.CodeBadRequest, "no number from 0"},
		"a field that is none":      {"POST", "rentals", one, `{"price":1}`, wire.CodeBadRequest, "max_price"},
		"a token as a key":          {"POST", "providers", writer, `{"key":"TOKEN"}`, wire.CodeBadRequest, "revoke it"},
		"a PSK as a key":            {"POST", "providers", writer, `{"key":"PSK"}`, wire.CodePlaintextSecret, "muster psk rotate"},
		"a key in the address":      {"POST", "providers?key=k", writer, `{}`, wire.CodeBadRequest, "it takes no parameters"},
		"a body for a sync":         {"POST", "providers/v/sync", writer, `{"now":1}`, wire.CodeBadRequest, "now"},
		"a limit without a number":  {"PUT", "providers/v/limit", writer, `{"per_hour":"20"}`, wire.CodeBadRequest, "it takes a number"},
		"a method that there's not": {"PATCH", "leases", one, "", wire.CodeMethodNotAllowed, ""},
	} {
		body := strings.NewReplacer("TOKEN", token, "PSK", psk).Replace(c.body)
		if _, answer := h.ask(c.method, c.path, c.token, body); code(answer) != c.code || !strings.Contains(string(answer), c.says) {
			t.Errorf("%s: %s", name, answer)
		}
	}
	for _, path := range []string{"leases?all=true", "rentals"} {
		if body := second(h.ask("GET", path, one, "")); !strings.Contains(string(body), "[]") {
			t.Errorf("after what was refused, %s has %s", path, body)
		}
	}
	if len(vast.asked) > 0 {
		t.Errorf("the company was asked to %q", vast.asked)
	}
}
