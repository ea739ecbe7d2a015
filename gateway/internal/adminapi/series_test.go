package adminapi_test

import (
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/history"
)

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
