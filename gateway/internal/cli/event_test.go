package cli_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/reply"
	"muster/store"
)

// TestEventsFollowOutage: events -f waits for a gateway that is away, and then loses nothing and shows nothing twice. A refusal of the
// question ends it, and so does a gateway that was never there.
func TestEventsFollowOutage(t *testing.T) {
	h := newHouse(t)
	var answers atomic.Pointer[http.Handler]
	routes := http.Handler(h.api.Routes())
	answers.Store(&routes)
	h.dir = listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*answers.Load()).ServeHTTP(w, r) }))
	refuse := func(code string, status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			reply.Write(w, status, reply.JSON(wire.Error{Error: wire.ErrorDetail{Code: code, Message: "not now", Hint: "later"}}))
		})
	}
	gone := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	bad := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) })
	for name, c := range map[string]struct {
		away http.Handler
		code int
	}{
		"gone":           {gone, 0},
		"a proxy's page": {bad, 0},
		"unavailable":    {refuse(wire.CodeUnavailable, 503), 0},
		"internal":       {refuse(wire.CodeInternal, 500), 0},
		"revoked":        {refuse(wire.CodeUnauthorized, 401), 1},
		"forbidden":      {refuse(wire.CodeForbidden, 403), 1},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			looks := 0
			began := h.now
			h.pause = func(ctx context.Context) error {
				switch looks++; looks {
				case 2:
					answers.Store(&c.away)
					h.node(store.Node{Name: "during-" + name[:3] + fmt.Sprint(c.code), Tenant: "platform"}, -1, "")
				case 10:
					answers.Store(&routes)
				case 12:
					cancel()
				}
				return ctx.Err()
			}
			code, out, errs := h.run(ctx, "--data", h.dir, "events", "-f")
			answers.Store(&routes)
			if c.code == 1 {
				if code != 1 || strings.Contains(errs, "trying again") {
					t.Errorf("code %d, %s", code, errs)
				}
				return
			}
			if code != 0 || strings.Count(out, "during-"+name[:3]+"0") != 1 || strings.Count(errs, "trying again every") != 5 ||
				!strings.Contains(errs, "every 2s") || !strings.Contains(errs, "every 30s") || strings.Count(errs, "answers again") != 1 {
				t.Errorf("code %d\n%s\n%s", code, out, errs)
			}
			if slept := h.now.Sub(began); slept < 100*time.Second {
				t.Errorf("it backed off for %s in all", slept)
			}
		})
	}
	if code, _, errs := h.run(t.Context(), "--data", t.TempDir(), "events", "-f"); code != 1 || strings.Contains(errs, "trying again") {
		t.Errorf("a gateway that was never there: code %d, %s", code, errs)
	}
}

// TestEventDetail: a screen of 80 columns shows only the start of the detail. So what happened stands there, and the states behind it.
func TestEventDetail(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "box", Tenant: "platform"}, -1, "")
	e := store.Event{At: h.now, Kind: "node.failed", Actor: "node:n-1", NodeName: "box", Outcome: "ok", Detail: map[string]string{
		"from": "active", "to": "unavailable", "reasons": "gpu_count_dropped", "gpu_count_dropped": "7 of 8 GPUs answer"}}
	if err := h.store.AddEvents(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if out := h.done("events"); !strings.Contains(out, "gpu_count_dropped=7 of 8 GPUs answer reasons=gpu_count_dropped from=active to=unavailable") {
		t.Errorf("got %s", out)
	}
}
