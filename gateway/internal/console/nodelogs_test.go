package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// openLog is a node whose agent has written 300 lines, some of them hostile. It has no other log.
func (h *house) openLog(_ context.Context, _ string, p wire.LogsParams) (io.ReadCloser, error) {
	var out bytes.Buffer
	if p.Source != wire.LogAgent {
		err := pipe.WriteJSON(&out, pipe.FrameRefused, wire.SessionRefused{Code: wire.CodeNotFound, Message: "there is no " + p.Source})
		return io.NopCloser(&out), err
	}
	for n := range 300 {
		l := wire.LogLine{Time: h.now.Add(time.Duration(n) * time.Second), Level: "warn",
			Message: fmt.Sprint("line ", n, " ", hostile, "\x1b[31m"), Fields: map[string]string{"field": hostile}}
		if n == 298 {
			l.Dropped = 7
		}
		raw, err := json.Marshal(l)
		if err == nil {
			err = pipe.WriteFrame(&out, pipe.FrameOutput, append(raw, '\n'))
		}
		if err != nil {
			return nil, err
		}
	}
	return io.NopCloser(&out), pipe.WriteJSON(&out, pipe.FrameExit, pipe.Exit{})
}

// TestNodeLogs: without a script the page has the last 200 lines that were asked for, as text, and a refusal where the lines would be.
func TestNodeLogs(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.enrolled("gpu-1", "platform", nil)
	plain := b.get("/ui/nodes/gpu-1").body
	if !strings.Contains(plain, `data-logs="/ui/api/nodes/id-gpu-1/logs"`) ||
		strings.Contains(plain, "line 299") || strings.Contains(plain, "data-asked") {
		t.Error("the page of a node does not offer its logs, or reads them unasked")
	}
	got := b.get("/ui/nodes/gpu-1?source=agent")
	whole(t, "logs", got)
	for _, want := range []string{"line 299", "line 100 ", `\u001b[31m`, `<li class="warn">`, `<li class="missing">`,
		"7 missing here", "data-asked"} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(got.body, "line 99 ") || strings.Contains(got.body, "\x1b") {
		t.Error("it has too many lines, or a control character")
	}
	if found := b.get("/ui/nodes/gpu-1?source=agent&grep=line+2%5C%5C%3F5%5B0-9%5D").body; strings.Count(found, `<li class="warn">`) != 10 {
		t.Errorf("%d lines of those with 25x in them", strings.Count(found, `<li class="warn">`))
	}
	for query, want := range map[string]string{"source=kernel": "there is no kernel", "source=colour": "the sources are agent",
		"source=agent&grep=(":       "RE2",
		"source=agent&grep=nowhere": "7 missing here"} {
		refused := b.get("/ui/nodes/gpu-1?" + query)
		if refused.status != http.StatusOK || !strings.Contains(refused.body, want) {
			t.Errorf("%s: %d, without %q", query, refused.status, want)
		}
		whole(t, query, refused)
	}
	if off := b.get("/ui/nodes/gpu-1?source=agent&plots=off").body; strings.Contains(off, "line 299") {
		t.Error("a script that keeps the page live reads the log each time")
	}
	if data := b.get("/ui/api/nodes/id-gpu-1/logs?limit=3"); data.status != http.StatusOK || strings.Count(data.body, "\n") != 3 {
		t.Errorf("for scripts: %d %.300s", data.status, data.body)
	}
}
