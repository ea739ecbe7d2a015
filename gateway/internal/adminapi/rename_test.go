package adminapi_test

import (
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

func TestRenameNode(t *testing.T) {
	h := newHouse(t)
	id := h.node("gpu-7", "platform", "")
	h.node("gpu-8", "platform", "")
	viewer := h.account("viewer", "", "nodes:read")
	theirs := h.account("theirs", "research", "*")
	for _, c := range []struct {
		name, token, who, body, want string
		status                       int
	}{
		{"a taken name", "", "gpu-7", `{"name":"gpu-8"}`, wire.CodeNameInUse, 409},
		{"a token", "", "gpu-7", `{"name":"mse_abcdefghijkl_abc"}`, wire.CodeBadName, 400},
		{"no name", "", "gpu-7", `{}`, wire.CodeBadName, 400},
		{"without the scope", viewer, "gpu-7", `{"name":"x"}`, wire.CodeForbidden, 403},
		{"of another tenant", theirs, "gpu-7", `{"name":"x"}`, wire.CodeNotFound, 404},
		{"itself", "", "gpu-7", `{"name":"gpu-7"}`, "", 200},
		{"by its name", "", "gpu-7", `{"name":"h100-a"}`, "", 200},
		{"by its id", "", id, `{"name":"h100-b"}`, "", 200},
	} {
		status, body := h.ask("POST", "nodes/"+c.who+"/rename", c.token, c.body)
		if status != c.status || code(body) != c.want {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
		if status == 200 && (decode[api.RenamedNode](t, body).Node.ID != id || !strings.Contains(string(body), `"old":[]`)) {
			t.Errorf("%s: %s", c.name, body)
		}
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "node.renamed"})
	if err != nil || len(events) != 2 || events[0].Detail["from"] != "h100-a" || events[0].Detail["to"] != "h100-b" {
		t.Errorf("events %+v, %v", events, err)
	}
}

func TestListTenants(t *testing.T) {
	h := newHouse(t)
	h.node("a", "platform", "")
	h.account("all", "", "nodes:read")
	ours := h.account("ours", "platform", "nodes:read")
	none := h.account("none", "", "tokens:write")
	h.ask("POST", "tokens", "", `{"tenant":"research"}`)
	if status, body := h.ask("GET", "tenants", "", ""); status != 200 ||
		string(body) != `{"tenants":[{"tenant":"platform","nodes":1,"retired":0,"accounts":1,"tokens":0},`+
			`{"tenant":"research","nodes":0,"retired":0,"accounts":0,"tokens":1}]}`+"\n" {
		t.Errorf("all: %d %s", status, body)
	}
	if status, body := h.ask("GET", "tenants", ours, ""); status != 200 || strings.Contains(string(body), "research") ||
		len(decode[api.TenantList](t, body).Tenants) != 1 {
		t.Errorf("one's own: %d %s", status, body)
	}
	if status, body := h.ask("GET", "tenants", none, ""); status != 403 {
		t.Errorf("without the scope: %d %s", status, body)
	}
}

func TestTokenNameAndGateway(t *testing.T) {
	h := newHouse(t)
	h.node("there", "research", "")
	for _, c := range []struct {
		body, want string
		status     int
	}{
		{`{"name":"gpu-7"}`, `"name":"gpu-7"`, 201},
		{`{"name":"gpu-7","gateway":"https://10.0.0.5:7443"}`, `https://10.0.0.5:7443"`, 201},
		{`{"name":"gpu-7","uses":2}`, "one name is one node", 400},
		{`{"name":"-"}`, "is not a node's name", 400},
		{`{"name":"there"}`, "the name there is taken", 409},
		{`{"name":"there","tenant":"research"}`, `"name":"there"`, 201},
		{`{"name":"mse_abcdefghijkl_abc"}`, "looks like a token", 400},
		{`{"gateway":"gw"}`, "the gateway's URL", 400},
		{`{"gateway":"https://gw/$(reboot)"}`, "the gateway's URL", 400},
		{`{"gateway":"https://u:p@gw"}`, "the gateway's URL", 400},
	} {
		status, body := h.ask("POST", "tokens", "", c.body)
		if status != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %d %s", c.body, status, body)
		}
	}
	if _, body := h.ask("GET", "tokens", "", ""); !strings.Contains(string(body), `"node":"gpu-7"`) {
		t.Errorf("the list does not say the name: %s", body)
	}
}

// TestRenameTells: what goes by the old name is named, to those who may see it. An alert and a silence of the node itself follow it.
func TestRenameTells(t *testing.T) {
	h := newHouse(t)
	h.node("ours", "platform", "")
	row := &api.NodeRow{Name: "ours", Tenant: "platform"}
	h.withAlerts(row)
	blind := h.account("blind", "", "nodes:write")
	reader := h.account("reader", "platform", "nodes:write", "alerts:read")
	for _, body := range []string{`{"selector":"name=ours","for":"2h","reason":"x"}`,
		`{"selector":"tier=a,name!=ours","tenant":"platform","for":"2h","reason":"x"}`,
		`{"selector":"name=other","for":"2h","reason":"x"}`, `{"node":"ours","for":"2h","reason":"x"}`} {
		if status, body := h.ask("POST", "alert-silences", "", body); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	at := "ours"
	for _, c := range []struct {
		to, token string
		want      []string
	}{
		{"a", blind, nil},
		{"ours", blind, nil},
		{"b", reader, []string{", selector tier=a,name!=ours"}},
		{"ours", blind, nil},
		{"c", "", []string{", selector name=ours", ", selector tier=a,name!=ours"}},
	} {
		status, body := h.ask("POST", "nodes/"+at+"/rename", c.token, `{"name":"`+c.to+`"}`)
		got := decode[api.RenamedNode](t, body)
		if status != 200 || len(got.Old) != len(c.want) {
			t.Errorf("to %s: %d %s", c.to, status, body)
		}
		for _, want := range c.want {
			if !strings.Contains(strings.Join(got.Old, "\n")+"\n", want+"\n") || !strings.Contains(got.Old[0], "alert silence si-") {
				t.Errorf("to %s: got %q, want %s", c.to, got.Old, want)
			}
		}
		at = c.to
	}
	row.Name = at
	h.api.Alerts.Round()
	if _, body := h.ask("GET", "alerts", "", ""); decode[api.AlertList](t, body).Alerts[0].Node != "c" {
		t.Errorf("the alert has the old name: %s", body)
	}
	_, body := h.ask("GET", "alert-silences", "", "")
	if !strings.Contains(string(body), `"node":"c"`) || strings.Contains(string(body), `"node":"ours"`) {
		t.Errorf("the silence has the old name: %s", body)
	}
}
