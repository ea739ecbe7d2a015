package adminapi_test

import (
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/history"
	slots "muster/store/placement"
)

// TestUses: who worked on the GPUs of a node, for whoever may see the node, and nothing for others.
func TestUses(t *testing.T) {
	h := newHouse(t)
	n := h.node("n", "platform", oneGPU)
	since := h.now.Add(-2 * time.Hour)
	for i, program := range []string{"train", "eval"} {
		err := slots.New(h.store.Records()).SaveUses(t.Context(), []slots.Use{{UseKey: slots.UseKey{NodeID: n, GPU: "GPU-1", User: "ada",
			Program: program, Allocation: "a1"}, Owner: "ada", Since: since, Until: since.Add(time.Duration(i) * time.Hour)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	reader := h.account("r", "platform", "nodes:read")
	other := h.account("o", "research", "nodes:read")
	writer := h.account("w", "", "tokens:write")
	for _, c := range []struct {
		token, path string
		status      int
		has         string
	}{
		{reader, "nodes/n/gpu-uses", 200, `"program":"eval"`},
		{"", "nodes/n/gpu-uses?limit=1", 200, `"memory_mib":null}],"total":2}`},
		{"", "nodes/n/gpu-uses?since=90m", 200, `"total":1}`},
		{"", "nodes/n/gpu-uses?since=1s", 200, `{"uses":[],"total":0}`},
		{"", "nodes/n/gpu-uses?limit=0", 400, wire.CodeBadRequest},
		{"", "nodes/n/gpu-uses?limit=1001", 400, wire.CodeBadRequest},
		{"", "nodes/n/gpu-uses?since=soon", 400, wire.CodeBadRequest},
		{"", "nodes/n/gpu-uses?gpu=0", 400, wire.CodeBadRequest},
		{"", "nodes/nobody/gpu-uses", 404, wire.CodeNotFound},
		{other, "nodes/n/gpu-uses", 404, wire.CodeNotFound},
		{writer, "nodes/n/gpu-uses", 403, wire.CodeForbidden},
	} {
		if status, body := h.ask("GET", c.path, c.token, ""); status != c.status || !strings.Contains(string(body), c.has) {
			t.Errorf("%s: got %d %s, want %d and %s", c.path, status, body, c.status, c.has)
		}
	}
}

// TestSeriesRefused: who may not see the node gets nothing, each wrong parameter is refused, and a gateway without history says so.
func TestSeriesRefused(t *testing.T) {
	h := newHouse(t)
	h.node("n", "platform", oneGPU)
	other := h.account("o", "research", "nodes:read")
	writer := h.account("w", "", "tokens:write")
	const load = "nodes/n/series?metric=load1"
	for range 2 {
		for _, c := range []struct {
			token, path string
			status      int
			code        string
		}{
			{"", load, 503, wire.CodeUnavailable}, // there is no history, then its file is not open
			{other, load, 404, wire.CodeNotFound},
			{writer, load, 403, wire.CodeForbidden},
			{"", "nodes/nobody/series?metric=load1", 404, wire.CodeNotFound},
			{"", load + "&since=yesterday", 400, wire.CodeBadRequest}, {"", load + "&since=-2m", 400, wire.CodeBadRequest},
			{"", load + "&until=soon", 400, wire.CodeBadRequest},
			{"", load + "&since=2m", 503, wire.CodeUnavailable}, // as the command line writes it
			{"", load + "&step=0", 400, wire.CodeBadRequest},
			{"", load + "&step=1m", 400, wire.CodeBadRequest},
			{"", load + "&gpu=1", 400, wire.CodeBadRequest},
		} {
			status, body := h.ask("GET", c.path, c.token, "")
			if status != c.status || code(body) != c.code {
				t.Errorf("%s: got %d %s, want %d %s", c.path, status, body, c.status, c.code)
			}
		}
		h.api.History = history.New(history.Config{})
	}
	if status, body := h.ask("GET", "nodes/n/series?metric=loud", "", ""); status != 400 || code(body) != wire.CodeBadRequest {
		t.Errorf("an unknown metric got %d %s", status, body)
	}
}
