package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit"
	"muster/store"
)

func TestEvents(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "old", Tenant: "platform"}, -1, "")
	h.now = h.now.Add(2 * time.Hour)
	h.node(store.Node{Name: "new", Tenant: "platform"}, -1, "")
	err := h.store.AddEvents(t.Context(), store.Event{At: h.now, Kind: "admin.refused", Actor: "unknown", Address: "192.0.2.9",
		Outcome: "unauthorized", Security: true,
		Detail: map[string]string{"path": "/x\x1b[2J", "method": "GET"}})
	if err != nil {
		t.Fatal(err)
	}
	kit.Golden(t, "events.golden", h.done("events"))
	for args, want := range map[string]int{"--since 1h": 2, "--since 7d": 3, "--limit 1": 1, "--since 7d --limit 2": 2, "--node old": 1,
		"--kind node.created": 2,
		"--security":          1, "--tenant research": 0} {
		out := h.done(append([]string{"events", "-o", "json"}, strings.Fields(args)...)...)
		if got := strings.Count(out, "\n"); got != want {
			t.Errorf("%s: %d events, want %d:\n%s", args, got, want, out)
		}
	}
	var rows []store.Event
	for range 1500 {
		rows = append(rows, store.Event{At: h.now, Kind: "many", Outcome: "ok"})
	}
	if err := h.store.AddEvents(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]int{"": 100, "--limit 1200": 1200, "--since 1h": 1502} {
		if got := strings.Count(h.done(append([]string{"events", "-o", "json"}, strings.Fields(args)...)...), "\n"); got != want {
			t.Errorf("%s: %d events, want %d", args, got, want)
		}
	}
}

func TestEventsFollow(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "first", Tenant: "platform"}, -1, "")
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	h.pause = func(ctx context.Context) error {
		if looks++; looks == 2 {
			h.node(store.Node{Name: "second", Tenant: "platform"}, -1, "")
		}
		if looks == 4 {
			cancel()
		}
		return ctx.Err()
	}
	code, out, errs := h.run(ctx, "--data", h.dir, "events", "-f")
	if code != 0 || strings.Count(out, "TIME") != 1 || strings.Count(out, "first") != 1 || strings.Count(out, "second") != 1 {
		t.Errorf("code %d\n%s\n%s", code, out, errs)
	}
}
