package adminapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/logs"
	"muster/store"
)

// oneLog is a node with one line in each log, which goes on silently where it is followed.
func oneLog(_ context.Context, _ string, p wire.LogsParams) (io.ReadCloser, error) {
	var out bytes.Buffer
	l := wire.LogLine{Time: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), Message: "hello from " + p.Source}
	raw, err := json.Marshal(l)
	if err == nil {
		err = pipe.WriteFrame(&out, pipe.FrameOutput, append(raw, '\n'))
	}
	if !p.Follow {
		_ = pipe.WriteJSON(&out, pipe.FrameExit, pipe.Exit{})
		return io.NopCloser(&out), err
	}
	from, to := io.Pipe()
	go func() { _, _ = to.Write(out.Bytes()) }()
	return from, err
}

// TestNodeLogs: lines of a node of the caller's tenant, each reader an event.
func TestNodeLogs(t *testing.T) {
	h := newHouse(t)
	h.api.Logs = logs.New(logs.Config{Open: oneLog, Now: h.clock})
	h.enrolled("a", "platform")
	mine := h.account("mine", "platform", "logs:read")
	status, raw := h.ask("GET", "nodes/a/logs?source=kernel,agent&grep=kernel&limit=5", mine, "")
	body := string(raw)
	if status != 200 || strings.Count(body, "\n") != 1 || !shown(body, `"source":"kernel"`,
		`"message":"hello from kernel"`, `"received":"2026`) {
		t.Errorf("got %d %s", status, body)
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "logs.read", Limit: 9})
	if err != nil || len(events) != 1 || events[0].NodeID != "id-a" || events[0].Detail["source"] != "kernel,agent" || !events[0].Security ||
		events[0].Actor != "account:mine" || events[0].Tenant != "platform" {
		t.Errorf("%+v, %v", events, err)
	}
	for _, c := range []struct {
		path, scope string
		want        int
	}{
		{"nodes/a/logs?source=colour", "logs:read", 400}, {"nodes/a/logs?grep=(", "logs:read", 400}, {"nodes/a/logs?since=now", "logs:read", 400},
		{"nodes/a/logs?follow=maybe", "logs:read", 400}, {"nodes/a/logs?limit=0", "logs:read", 400}, {"nodes/a/logs?tail=1", "logs:read", 400},
		{"nodes/b/logs", "logs:read", 404}, {"nodes/a/logs", "nodes:read", 403},
	} {
		token := h.account(strings.NewReplacer("/", "-", "?", "-", "=", "-", "(", "", ":", "-").Replace(c.path+c.scope), "platform", c.scope)
		if status, body := h.ask("GET", c.path, token, ""); status != c.want {
			t.Errorf("%s: got %d %s", c.path, status, body)
		}
	}
	if status, _ := h.ask("GET", "nodes/a/logs", h.account("other", "research", "logs:read"), ""); status != 404 {
		t.Errorf("an account of another tenant got %d", status)
	}
}

// TestNodeLogsEnd: following ends with the account, at once, and the last line says so.
func TestNodeLogsEnd(t *testing.T) {
	inBubble(t, func(h *house) {
		h.api.Logs = logs.New(logs.Config{Open: oneLog})
		h.enrolled("a", "platform")
		h.api.Overview.Load(h.t.Context())
		l := h.follow(h.routes(false), "nodes/a/logs?follow=true", h.account("gone", "", "logs:read"))
		if got := l.hear(); l.isOver() || strings.Count(got, "hello") != 1 || l.Header().Get("Content-Type") != api.LogsType {
			t.Fatalf("over %v, %q", l.isOver(), got)
		}
		h.ask("DELETE", "accounts/gone", "", "")
		if got := l.hear(); !l.isOver() || l.broke || !shown(got, `"source":"gateway","level":"error"`) || strings.Contains(got, "hello") {
			t.Errorf("over %v, cut %v, %q", l.isOver(), l.broke, got)
		}
		ctx, stop := context.WithCancel(h.t.Context())
		stop()
		_ = h.api.Logs.Run(ctx)
		synctest.Wait()
	})
}

// TestNodeLogsEndOnce: a node whose log never ends keeps no reader whose account is gone, also if nobody follows.
func TestNodeLogsEndOnce(t *testing.T) {
	inBubble(t, func(h *house) {
		endless := func(ctx context.Context, node string, p wire.LogsParams) (io.ReadCloser, error) {
			p.Follow = true
			return oneLog(ctx, node, p)
		}
		h.api.Logs = logs.New(logs.Config{Open: endless})
		h.enrolled("a", "platform")
		h.api.Overview.Load(h.t.Context())
		l := h.follow(h.routes(false), "nodes/a/logs", h.account("gone", "", "logs:read"))
		if l.hear(); l.isOver() {
			t.Fatal("it ended by itself")
		}
		h.ask("DELETE", "accounts/gone", "", "")
		if l.hear(); !l.isOver() {
			t.Error("an account that is gone still reads")
		}
		ctx, stop := context.WithCancel(h.t.Context())
		stop()
		_ = h.api.Logs.Run(ctx)
		synctest.Wait()
	})
}
