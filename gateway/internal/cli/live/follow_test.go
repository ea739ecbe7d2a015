package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/live"
	"muster/gateway/internal/client"
)

// gateway answers GET fleet with one node, and GET stream with what a test says.
type gateway struct {
	stream func(say func(string), done <-chan struct{})
	refuse bool
	end    string // a code of a refusal: the stream is refused; empty: it is not

	mu       sync.Mutex
	selector []string
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.selector = append(g.selector, r.URL.Query().Get("selector")+" "+r.URL.Query().Get("all"))
	g.mu.Unlock()
	if g.end != "" && r.URL.Path == "/api/v1/admin/stream" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(401)
		_, _ = w.Write([]byte(`{"error":{"code":"` + g.end + `","message":"this account was revoked"}}`))
		return
	}
	if g.refuse {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		_, _ = w.Write([]byte(`{"error":{"code":"bad_selector","message":"no"}}`))
		return
	}
	if r.URL.Path == "/api/v1/admin/stream" {
		w.Header().Set("Content-Type", api.StreamType)
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		g.stream(func(text string) {
			_, _ = w.Write([]byte(text))
			_ = http.NewResponseController(w).Flush()
		}, r.Context().Done())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(api.FleetView{Nodes: []api.NodeRow{{ID: "1", Name: "a"}}})
}

// follow gives what is told, up to so many times.
func follow(t *testing.T, g *gateway, f live.Filter, times int) (told []live.News, pauses []time.Duration, err error) {
	t.Helper()
	server := httptest.NewServer(g)
	defer server.Close()
	to := &client.Client{BaseURL: server.URL, HTTP: server.Client()}
	s := &cli.Session{Env: cli.Env{Gateway: to, Pause: func(ctx context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return ctx.Err()
	}}}
	enough := errors.New("enough")
	err = live.Follow(t.Context(), s, f, func(n live.News) error {
		told = append(told, n)
		if len(told) == times {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return told, pauses, err
}

// TestFollow: all nodes first, then what changes, all again where something was left out, and kinds that are not known are no trouble.
func TestFollow(t *testing.T) {
	g := &gateway{stream: func(say func(string), done <-chan struct{}) {
		say(": alive\n\nevent: colour\ndata: {}\n\nevent: node\ndata: {\"nodes\":[{\"id\":\"1\",\"name\":\"b\"}],\"gone\":[\"2\"]}\n\n" +
			"event: lost\ndata: {}\n\n")
		<-done
	}}
	told, _, err := follow(t, g, live.Filter{Selector: "x", Status: "online", State: "active", All: true}, 3)
	if err != nil || len(told) != 3 || told[0].Fleet == nil || told[2].Fleet == nil {
		t.Fatalf("got %+v, %v", told, err)
	}
	if n := told[1].Nodes; n == nil || n.Nodes[0].Name != "b" || n.Gone[0] != "2" {
		t.Errorf("got %+v", n)
	}
	if slices.ContainsFunc(g.selector, func(s string) bool { return s != "x,status=online,state=active true" }) {
		t.Errorf("asked for %q", g.selector)
	}
}

// TestFollowAgain: a stream that ends is begun again, later each time while nothing is heard.
func TestFollowAgain(t *testing.T) {
	g := &gateway{stream: func(func(string), <-chan struct{}) {}}
	told, pauses, err := follow(t, g, live.Filter{}, 5)
	if err != nil || len(told) != 5 || told[1].Lost == nil || told[2].Fleet == nil || told[3].Lost == nil {
		t.Fatalf("got %+v, %v", told, err)
	}
	if !slices.Equal(pauses, []time.Duration{time.Second, time.Second}) {
		t.Errorf("pauses: %v", pauses)
	}
	_, pauses, _ = follow(t, &gateway{refuse: true}, live.Filter{}, 7)
	if !slices.Equal(pauses, []time.Duration{1e9, 2e9, 4e9, 8e9, 15e9, 15e9}) {
		t.Errorf("pauses while it refuses: %v", pauses)
	}
	broken := &gateway{stream: func(say func(string), done <-chan struct{}) { say("event: node\ndata: [\n\n"); <-done }}
	told, _, _ = follow(t, broken, live.Filter{}, 2)
	if len(told) != 2 || told[1].Lost == nil {
		t.Errorf("a line that is no JSON: %+v", told)
	}
}

// TestFollowEnds: with its context, and with the account.
func TestFollowEnds(t *testing.T) {
	for _, code := range []string{wire.CodeUnauthorized, wire.CodeForbidden} {
		told, pauses, err := follow(t, &gateway{end: code}, live.Filter{}, 5)
		if err == nil || err.Error() != "this account was revoked" || len(told)+len(pauses) > 0 {
			t.Errorf("%s: %v, told %+v, pauses %v", code, err, told, pauses)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	nobody := &client.Client{BaseURL: "http://127.0.0.1:1", HTTP: http.DefaultClient}
	err := live.Follow(ctx, &cli.Session{Env: cli.Env{Gateway: nobody}}, live.Filter{}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
