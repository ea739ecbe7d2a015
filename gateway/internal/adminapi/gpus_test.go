package adminapi_test

import (
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
)

func TestPatchNode(t *testing.T) {
	h := newHouse(t)
	h.node("n", "platform", oneGPU)
	writer := h.account("w", "research", "nodes:write")
	reader := h.account("r", "", "nodes:read")
	for _, c := range []struct {
		token, node, body string
		status            int
		code              string
	}{
		{"", "n", `{"gpus_expected":7}`, 200, ""},
		{"", "n", `{"gpus_expected":0}`, 200, ""},
		{"", "n", `{"gpus_as_seen":true}`, 200, ""},
		{"", "n", `{}`, 400, wire.CodeBadRequest},
		{"", "n", `{"gpus_expected":7,"gpus_as_seen":true}`, 400, wire.CodeBadRequest},
		{"", "n", `{"gpus_expected":-1}`, 400, wire.CodeBadRequest},
		{"", "n", `{"gpus_expected":1025}`, 400, wire.CodeBadRequest},
		{"", "n", `{"gpus_expected":"7"}`, 400, wire.CodeBadRequest},
		{"", "n", `{"gpus_expected":7,"gpus_expected":8}`, 400, wire.CodeBadRequest},
		{"", "n", `{"name":"x"}`, 400, wire.CodeBadRequest},
		{"", "nobody", `{"gpus_expected":7}`, 404, wire.CodeNotFound},
		{writer, "n", `{"gpus_expected":7}`, 404, wire.CodeNotFound},
		{reader, "n", `{"gpus_expected":7}`, 403, wire.CodeForbidden},
	} {
		status, body := h.ask("PATCH", "nodes/"+c.node, c.token, c.body)
		if status != c.status || code(body) != c.code {
			t.Errorf("%s: got %d %s, want %d %s", c.body, status, body, c.status, c.code)
		}
	}
	h.ask("PATCH", "nodes/n", "", `{"gpus_expected":0}`)
	_, body := h.ask("GET", "nodes/n", "", "")
	if n := decode[api.Node](t, body); n.GPUsExpected == nil || *n.GPUsExpected != 0 || n.IntervalSeconds == nil ||
		*n.IntervalSeconds != 30 || n.StateDetails == nil {
		t.Errorf("got %s", body)
	}
	h.ask("PATCH", "nodes/n", "", `{"gpus_as_seen":true}`)
	_, body = h.ask("GET", "nodes/n", "", "")
	if n := decode[api.Node](t, body); n.GPUsExpected != nil {
		t.Errorf("got %s", body)
	}
}
