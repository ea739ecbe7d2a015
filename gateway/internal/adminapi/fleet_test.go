package adminapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/adminapi"
	"muster/gateway/internal/client"
	"muster/gateway/internal/view"
)

func TestFleet(t *testing.T) {
	h := newHouse(t)
	for _, name := range []string{"b", "a", "d"} {
		h.node(name, "platform", oneGPU)
	}
	h.node("c", "research", "")
	h.api.Overview.Load(t.Context())
	theirs := h.account("r", "research", "nodes:read")
	for _, c := range []struct{ query, token, want string }{
		{"", "", "a b c d|4"},
		{"?tenant=research", "", "c|1"},
		{"?selector=tenant%3Dplatform,name!%3Da", "", "b d|2"},
		{"?status=online", "", "a b d|3"},
		{"?state=retired", "", "|0"},
		{"?idle=true", "", "|0"},
		{"?limit=0", "", "|4"},
		{"?limit=2", "", "a b +|4"},
		{"?limit=4", "", "a b c d|4"},
		{"?sort=-name", "", "d c b a|4"},
		{"?sort=gpus&limit=1", "", "a|4"},
		{"", theirs, "c|1"},
		{"?selector=tenant%3Dplatform", theirs, "|0"},
	} {
		status, body := h.ask("GET", "fleet"+c.query, c.token, "")
		view := decode[api.FleetView](t, body)
		var names []string
		for _, n := range view.Nodes {
			names = append(names, n.Name)
		}
		if view.Next != "" {
			names = append(names, "+")
		}
		if got := fmt.Sprintf("%s|%d", strings.Join(names, " "), view.Totals.Nodes); status != 200 || got != c.want || view.Nodes == nil {
			t.Errorf("%s: got %d %s, want %s", c.query, status, got, c.want)
		}
	}
	_, body := h.ask("GET", "fleet?limit=3", "", "")
	next := decode[api.FleetView](t, body).Next
	_, body = h.ask("GET", "fleet?limit=3&cursor="+next, "", "")
	view := decode[api.FleetView](t, body)
	if len(view.Nodes) != 1 || view.Nodes[0].Name != "d" || view.Next != "" || !view.At.Equal(h.now) {
		t.Errorf("second page: %s", body)
	}
	for query, code := range map[string]string{
		"?cursor=!": wire.CodeBadRequest, "?cursor=bm9uZQ": wire.CodeBadRequest, "?sort=name&cursor=" + next: wire.CodeBadRequest,
		"?sort=colour": wire.CodeBadRequest, "?limit=20001": wire.CodeBadRequest, "?idle=perhaps": wire.CodeBadRequest,
		"?status=dead": wire.CodeBadSelector, "?selector=%3D": wire.CodeBadSelector, "?selector=state%3Ddead": wire.CodeBadSelector,
		"?colour=red": wire.CodeBadRequest, "?all=perhaps": wire.CodeBadRequest,
	} {
		if status, body := h.ask("GET", "fleet"+query, "", ""); status != 400 || refusalCode(body) != code {
			t.Errorf("%s: got %d %s, want %s", query, status, body, code)
		}
	}
	if status, body := h.ask("GET", "fleet?tenant=platform", theirs, ""); status != 403 {
		t.Errorf("of another tenant: %d %s", status, body)
	}
}

func refusalCode(body []byte) string { return code(body) }

// TestFleetShape: what is sent node by node is what the shape says, null if a value is not known.
func TestFleetShape(t *testing.T) {
	h := newHouse(t)
	h.node("a", "platform", oneGPU)
	h.node("b", "platform", "")
	h.api.Overview.Load(t.Context())
	_, body := h.ask("GET", "fleet", "", "")
	view := decode[api.FleetView](t, body)
	again, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	var tight bytes.Buffer
	if err := json.Compact(&tight, body); err != nil || tight.String() != string(again) {
		t.Errorf("got %s\nwant %s", &tight, again)
	}
	for _, part := range []string{`"memory_used_mib":null`, `"gpus":null`, `"findings":[]`, `"state_reasons":[]`, `"last_seen":null`} {
		if !strings.Contains(string(body), part) {
			t.Errorf("no %s in %s", part, body)
		}
	}
}

// TestFleetTooEarly: a part of the fleet is never shown as if it were the whole.
func TestFleetTooEarly(t *testing.T) {
	h := newHouse(t)
	h.api.Overview = view.Open(view.Config{Store: h.store, Ref: h.api.Fleet.Ref})
	if status, body := h.ask("GET", "fleet", "", ""); status != 503 || code(body) != wire.CodeUnavailable {
		t.Errorf("got %d %s", status, body)
	}
}

// brokenWriter takes some bytes and then none.
type brokenWriter struct {
	*httptest.ResponseRecorder
	left int
}

func (w *brokenWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errors.New("the peer is gone")
	}
	return w.ResponseRecorder.Write(b)
}

// TestFleetCut: an answer that cannot go on is cut, so that nobody takes it for whole.
func TestFleetCut(t *testing.T) {
	h := newHouse(t)
	for i := range 100 {
		h.node(fmt.Sprint("n", i), "platform", oneGPU)
	}
	h.api.Overview.Load(t.Context())
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("the answer was not cut")
		}
	}()
	r := httptest.NewRequest("GET", wire.PrefixAdmin+"fleet", nil)
	h.routes(true).ServeHTTP(&brokenWriter{httptest.NewRecorder(), 40_000}, r)
}

// TestClientFleet: the filter and the page of a client count.
func TestClientFleet(t *testing.T) {
	h := newHouse(t)
	h.node("a", "platform", oneGPU)
	h.node("b", "research", "")
	h.api.Overview.Load(t.Context())
	c, err := client.Dial(t.Context(), client.Target{DataDir: h.onSocket()})
	if err != nil {
		t.Fatal(err)
	}
	view, err := client.Get[api.FleetView](t.Context(), c, api.PathFleet, api.FleetFilter{Limit: 1, Sort: api.SortName, All: true})
	if err != nil || len(view.Nodes) != 1 || view.Totals.Nodes != 2 {
		t.Errorf("got %+v, %v", view, err)
	}
	view, err = client.Get[api.FleetView](t.Context(), c, api.PathFleet,
		api.FleetFilter{Limit: 10, Tenant: "research", Status: "pending", State: "active", Selector: "name=b"})
	if err != nil || len(view.Nodes) != 1 || view.Nodes[0].Name != "b" {
		t.Errorf("got %+v, %v", view, err)
	}
	if _, err := client.Get[api.FleetView](t.Context(), c, api.PathFleet, api.FleetFilter{Selector: "="}); err == nil {
		t.Error("a bad selector was taken")
	}
}

// TestBriefFleet: the same nodes with what the page of the fleet shows, the values of each GPU in a list.
func TestBriefFleet(t *testing.T) {
	h := newHouse(t)
	h.node("a", "platform", strings.Replace(oneGPU, `"memory_used_mib":null`, `"memory_used_mib":500`, 1))
	h.node("b", "platform", "")
	h.api.Overview.Load(t.Context())
	_, body := h.ask("GET", "fleet?brief=true", "", "")
	view := decode[struct {
		Nodes []api.Brief
		Next  string
	}](t, body)
	if len(view.Nodes) != 2 || view.Nodes[0].Name != "a" || *view.Nodes[0].Values[0][1] != 500 || view.Nodes[0].Values[0][0] != nil ||
		*view.Nodes[0].GPUs[0].MemoryMiB != 81559 || view.Nodes[1].GPUs != nil || view.Nodes[1].Values != nil {
		t.Errorf("got %s", body)
	}
	if !strings.Contains(string(body), `"gpus":null`) || !strings.Contains(string(body), `"values":null`) || strings.Contains(string(body),
		"uuid") {
		t.Errorf("got %s", body)
	}
	if status, body := h.ask("GET", "fleet?brief=perhaps", "", ""); status != 400 || refusalCode(body) != wire.CodeBadRequest {
		t.Errorf("got %d %s", status, body)
	}
}

// TestPackedRoutes: only these answers are compressed. One that may hold a secret beside a text of somebody else must not be.
func TestPackedRoutes(t *testing.T) {
	var got []string
	for _, route := range adminapi.Table() {
		if route.Packed() {
			got = append(got, route.Pattern())
		}
	}
	const p = "GET " + wire.PrefixAdmin
	want := []string{p + "nodes", p + "nodes/{node}", p + "nodes/{node}/series", p + "nodes/{node}/gpu-uses", p + "fleet",
		p + "fleet/costs", p + "findings", p + "alerts",
		p + "slots", p + "skus/{sku}", p + "allocations"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
