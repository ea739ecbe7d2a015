package adminapi_test

import (
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
)

func TestBadRequests(t *testing.T) {
	h := newHouse(t)
	h.node("n", "platform", "")
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		code, says               string
	}{
		{"unknown path", "GET", "nowhere", "", 404, wire.CodeNotFound, ""},
		{"wrong method", "PUT", "nodes/n", "", 405, wire.CodeMethodNotAllowed, "it takes GET"},
		{"unknown node", "GET", "nodes/x", "", 404, wire.CodeNotFound, ""},
		{"leave is the node's own", "POST", "nodes/n/leave", "", 404, wire.CodeNotFound, ""},
		{"too large", "POST", "tokens", strings.Repeat(" ", 1<<20+1), 413, wire.CodeBodyTooLarge, ""},
		{"not JSON", "POST", "tokens", "tenant=x", 400, wire.CodeBadRequest, "not a JSON object"},
		{"a list", "POST", "tokens", "[]", 400, wire.CodeBadRequest, "not a JSON object"},
		{"null", "POST", "tokens", "null", 400, wire.CodeBadRequest, "not a JSON object"},
		{"two documents", "POST", "tokens", "{}{}", 400, wire.CodeBadRequest, "not a JSON object"},
		{"deeply nested", "POST", "tokens", `{"labels":` + strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 41), 400,
			wire.CodeBadRequest, "nested"},
		{"unknown field", "POST", "tokens", `{"tennant":"x"}`, 400, wire.CodeBadRequest, "it takes the fields tenant, uses, ttl"},
		{"other case", "POST", "tokens", `{"Tenant":"x"}`, 400, wire.CodeBadRequest, "unknown field"},
		{"twice", "POST", "tokens", `{"tenant":"x","tenant":"y"}`, 400, wire.CodeBadRequest, "stands twice"},
		{"wrong type", "POST", "tokens", `{"uses":"two"}`, 400, wire.CodeBadRequest, "uses"},
		{"no whole number", "POST", "tokens", `{"uses":1.5}`, 400, wire.CodeBadRequest, "whole number"},
		{"bad ttl", "POST", "tokens", `{"ttl":"soon"}`, 400, wire.CodeBadRequest, "write 30m"},
		{"ttl of another type", "POST", "tokens", `{"ttl":{}}`, 400, wire.CodeBadRequest, "write 30m"},
		{"negative uses", "POST", "tokens", `{"uses":-1}`, 400, wire.CodeBadRequest, ""},
		{"bad tenant", "POST", "tokens", `{"tenant":"a b"}`, 400, wire.CodeBadRequest, "tenant"},
		{"a token for a tenant", "POST", "tokens", `{"tenant":"msb_ab12"}`, 400, wire.CodeBadRequest, "looks like a token"},
		{"a token for a node's tenant", "POST", "nodes", `{"name":"x","tenant":"mse_ab12_x"}`, 400, wire.CodeBadRequest, "looks like a token"},
		{"a token for an account's tenant", "POST", "accounts", `{"name":"x","tenant":"msa_ab12"}`, 400, wire.CodeBadRequest,
			"looks like a token"},
		{"bad label", "POST", "tokens", `{"labels":{"state":"x"}}`, 400, wire.CodeReservedKey, ""},
		{"drain with a field", "POST", "nodes/n/drain", `{"why":"x"}`, 400, wire.CodeBadRequest, "it takes no fields"},
		{"unknown parameter", "GET", "nodes?filter=x", "", 400, wire.CodeBadRequest, "selector"},
		{"parameter of a node", "GET", "nodes/n?x=1", "", 400, wire.CodeBadRequest, "it takes no parameters"},
		{"parameter twice", "GET", "nodes?status=online&status=stale", "", 400, wire.CodeBadRequest, "more than once"},
		{"malformed query", "GET", "nodes?a=%zz", "", 400, wire.CodeBadRequest, "malformed"},
		{"bad flag", "GET", "nodes?all=maybe", "", 400, wire.CodeBadRequest, "all=true"},
		{"bad flag of tokens", "GET", "tokens?all=maybe", "", 400, wire.CodeBadRequest, "all=true"},
		{"limit too high", "GET", "nodes?limit=1001", "", 400, wire.CodeBadRequest, "1000"},
		{"limit zero", "GET", "nodes?limit=0", "", 400, wire.CodeBadRequest, "limit"},
		{"no number", "GET", "events?after=x", "", 400, wire.CodeBadRequest, "after"},
		{"bad before", "GET", "events?before=0", "", 400, wire.CodeBadRequest, "before"},
		{"bad since", "GET", "events?since=yesterday", "", 400, wire.CodeBadRequest, "2026-"},
		{"bad security", "GET", "events?security=x", "", 400, wire.CodeBadRequest, "security"},
		{"bad events limit", "GET", "events?limit=x", "", 400, wire.CodeBadRequest, "limit"},
		{"unknown events parameter", "GET", "events?x=x", "", 400, wire.CodeBadRequest, "since"},
		{"unknown tokens parameter", "GET", "tokens?x=x", "", 400, wire.CodeBadRequest, "tenant"},
		{"psk takes no parameter", "GET", "psk?x=x", "", 400, wire.CodeBadRequest, ""},
		{"psk not JSON", "POST", "psk", "x", 400, wire.CodeBadRequest, ""},
		{"psk rotate not JSON", "POST", "psk/rotate", "x", 400, wire.CodeBadRequest, ""},
		{"psk clear", "DELETE", "psk?id=x", "", 400, wire.CodeBadRequest, "keep"},
		{"labels not JSON", "POST", "nodes/n/labels", "x", 400, wire.CodeBadRequest, ""},
		{"bad selector", "GET", "nodes?selector=a,,b", "", 400, wire.CodeBadSelector, ""},
		{"bad status", "GET", "nodes?status=awake", "", 400, wire.CodeBadSelector, ""},
		{"bad state", "GET", "nodes?state=awake", "", 400, wire.CodeBadSelector, ""},
		{"bad cursor", "GET", "nodes?cursor=x", "", 400, wire.CodeBadRequest, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := h.ask(c.method, c.path, "", c.body)
			if status != c.status || code(body) != c.code || !strings.Contains(string(body), c.says) {
				t.Errorf("got %d %s", status, body)
			}
		})
	}
	h.store.Close()
	if status, body := h.ask("GET", "nodes", "", ""); status != 500 || code(body) != wire.CodeInternal ||
		!strings.Contains(string(body), "request_id") {
		t.Errorf("with a broken store: %d %s", status, body)
	}
}

// TestTenantsAreIsolated asks every route about what is another tenant's: it must answer as if that did not exist.
func TestTenantsAreIsolated(t *testing.T) {
	h := newHouse(t)
	h.node("mine", "platform", "")
	h.node("theirs", "research", "")
	_, body := h.ask("POST", "tokens", "", `{"tenant":"research"}`)
	token := strings.Split(string(body), `"`)[3]
	me := h.account("me", "platform", "*")
	_, unknown := h.ask("GET", "nodes/nobody", me, "")
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "nodes/theirs", "", 404, wire.CodeNotFound},
		{"GET", "nodes/id-theirs", "", 404, wire.CodeNotFound},
		{"POST", "nodes/theirs/drain", "", 404, wire.CodeNotFound},
		{"POST", "nodes/theirs/resume", "", 404, wire.CodeNotFound},
		{"POST", "nodes/theirs/retire", "", 404, wire.CodeNotFound},
		{"POST", "nodes/id-theirs/ban", "", 404, wire.CodeNotFound},
		{"POST", "nodes/theirs/labels", `{"set":{"a":"b"}}`, 404, wire.CodeNotFound},
		{"POST", "tokens", `{"tenant":"research"}`, 403, wire.CodeForbidden},
		{"GET", "tokens?tenant=research", "", 403, wire.CodeForbidden},
		{"DELETE", "tokens/" + token, "", 404, wire.CodeNotFound},
		{"GET", "events?tenant=research", "", 403, wire.CodeForbidden},
		{"GET", "psk", "", 403, wire.CodeForbidden},
		{"POST", "psk", `{"generate":true}`, 403, wire.CodeForbidden},
		{"POST", "psk/rotate", `{"generate":true}`, 403, wire.CodeForbidden},
		{"DELETE", "psk", "", 403, wire.CodeForbidden},
	} {
		status, body := h.ask(c.method, c.path, me, c.body)
		if status != c.status || code(body) != c.code || strings.Contains(string(body), "research") && c.status == 404 {
			t.Errorf("%s %s: got %d %s", c.method, c.path, status, body)
		}
		if c.path == "nodes/theirs" && strings.Replace(string(body), "theirs", "nobody", 1) != string(unknown) {
			t.Errorf("a foreign node answers %s, an unknown one %s", body, unknown)
		}
	}
	for _, path := range []string{"nodes", "nodes?selector=tenant%3Dresearch", "nodes?all=true", "tokens?all=true",
		"events?kind=node.created", "events?node=theirs"} {
		status, body := h.ask("GET", path, me, "")
		if status != 200 || strings.Contains(string(body), "theirs") || strings.Contains(string(body), `"research"`) ||
			strings.Contains(string(body), token) {
			t.Errorf("%s: got %d %s", path, status, body)
		}
	}
	_, body = h.ask("GET", "events?limit=1000", me, "") // what it asked for itself is there, in its own words
	for _, e := range decode[api.EventList](t, body).Events {
		if e.Tenant != "platform" || e.NodeID != "" && e.NodeID != "id-mine" {
			t.Errorf("another tenant's event: %+v", e)
		}
	}
	status, body := h.ask("POST", "tokens", me, "{}")
	if status != 201 || !strings.Contains(string(body), `"tenant":"platform"`) {
		t.Errorf("a token of one's own: %d %s", status, body)
	}
	if status, body := h.ask("POST", "nodes/mine/drain", me, ""); status != 200 {
		t.Errorf("one's own node: %d %s", status, body)
	}
	_, body = h.ask("GET", "nodes/theirs", "", "")
	if !strings.Contains(string(body), `"state":"active"`) || strings.Contains(string(body), `"a":"b"`) {
		t.Errorf("the other tenant's node was touched: %s", body)
	}
}
