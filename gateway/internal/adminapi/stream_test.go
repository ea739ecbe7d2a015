package adminapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/gateway/internal/session"
	"muster/gateway/internal/view/livestream"
	"muster/store"
)

// listener is one reader of a stream, in a bubble.
type listener struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
	ended chan struct{}
	broke bool // it was cut
}

// listen opens a stream. It is served until it ends.
func (h *house) listen(routes http.Handler, query, token, last string) *listener {
	return h.open(routes, "stream"+query, token, last)
}

// follow opens what a task writes.
func (h *house) follow(routes http.Handler, path, token string) *listener {
	return h.open(routes, path, token, "")
}

func (h *house) open(routes http.Handler, path, token, last string) *listener {
	ctx, cancel := context.WithCancel(h.t.Context())
	l := &listener{ResponseRecorder: httptest.NewRecorder(), leave: cancel, ended: make(chan struct{})}
	r := httptest.NewRequestWithContext(ctx, "GET", wire.PrefixAdmin+path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if last != "" {
		r.Header.Set(api.HeaderLastEvent, last)
	}
	go func() {
		defer close(l.ended)
		defer func() { l.broke = recover() != nil }()
		routes.ServeHTTP(l, r)
	}()
	synctest.Wait()
	return l
}

// hear gives what was sent since the last call, without signs of life.
func (l *listener) hear() string {
	time.Sleep(3 * time.Second) // of the bubble's clock
	synctest.Wait()
	text := strings.ReplaceAll(l.Body.String(), ": alive\n\n", "")
	l.Body.Reset()
	return text
}

func (l *listener) isOver() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// inBubble runs a house with everything that a stream needs.
func inBubble(t *testing.T, do func(h *house)) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- h.api.Tail.Run(ctx) }()
		go func() { ended <- h.api.Overview.Run(ctx) }()
		synctest.Wait()
		do(h)
		cancel()
		<-ended
		<-ended
	})
}

// shown is true if a text has all parts.
func shown(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func TestStreamNodes(t *testing.T) {
	inBubble(t, func(h *house) {
		h.node("a", "platform", oneGPU)
		h.node("b", "research", oneGPU)
		h.api.Overview.Load(h.t.Context())
		routes := h.routes(false)
		all := h.listen(h.routes(true), "", "", "")
		mine := h.listen(routes, "?selector=tier=sovereign", h.account("r", "research", "nodes:read"), "")
		if all.Code != 200 || all.Header().Get("Content-Type") != api.StreamType || all.Body.String() != ": alive\n\n" {
			t.Fatalf("got %d %v %q", all.Code, all.Header(), all.Body)
		}
		all.hear()
		if _, err := h.store.Node(h.t.Context(), "", "a"); err != nil {
			t.Fatal(err)
		}
		h.ask("POST", "nodes/a/drain", "", "")
		h.ask("POST", "nodes/a/labels", "", `{"set":{"rack":"7"}}`)
		got := all.hear()
		if strings.Count(got, "event: node\n") > 2 || !shown(got, `"name":"a"`, `"state":"drained"`, `"rack":"7"`, `"gone":[]`) {
			t.Errorf("got %q", got)
		}
		if got := mine.hear(); got != "" {
			t.Errorf("of another tenant: %q", got)
		}
		h.ask("POST", "nodes/b/labels", "", `{"remove":["tier"]}`)
		if got := mine.hear(); !shown(got, `"gone":["id-b"]`, `"nodes":[]`) {
			t.Errorf("got %q", got)
		}
		for _, l := range []*listener{all, mine} {
			l.leave()
			synctest.Wait()
			if !l.isOver() {
				t.Error("a stream goes on without its reader")
			}
		}
	})
}

// TestStreamEvents: events and tasks go to those who may read them, of their own tenant alone, and a reader goes on where it was.
func TestStreamEvents(t *testing.T) {
	inBubble(t, func(h *house) {
		h.enrolled("a", "platform")
		h.enrolled("b", "research")
		h.api.Overview.Load(h.t.Context())
		token := h.account("r", "research", "nodes:read", "events:read", "tasks:read")
		routes := h.routes(false)
		l := h.listen(routes, "?kinds=event,task", token, "")
		l.hear()
		h.ask("POST", "nodes/a/drain", "", "")
		h.ask("POST", "tasks", "", `{"node":"a","type":"diag.collect"}`)
		if got := l.hear(); got != "" {
			t.Errorf("of another tenant: %q", got)
		}
		before := h.api.Tail.Last()
		h.ask("POST", "nodes/b/drain", "", "")
		h.ask("POST", "tasks", "", `{"node":"b","type":"diag.collect"}`)
		got := l.hear()
		if !shown(got, "event: event\n", `"kind":"node.drained"`, `"kind":"task.created"`, "event: task\n", `"type":"diag.collect"`,
			`"status":"queued"`) {
			t.Errorf("got %q", got)
		}
		again := h.listen(routes, "?kinds=event", token, "1")
		if got := again.hear(); strings.Contains(got, "platform") || !shown(got, `"kind":"node.drained"`) {
			t.Errorf("from the first event on: %q", got)
		}
		elsewhere := h.listen(routes, "?kinds=event,node", token, "99999")
		if got := elsewhere.hear(); !shown(got, "event: lost\ndata: {}\n") {
			t.Errorf("after an event that there is not: %q", got)
		}
		if before == 0 {
			t.Error("the log has no end")
		}
		for _, l := range []*listener{l, again, elsewhere} {
			l.leave()
			<-l.ended
		}
	})
}

func TestStreamRefused(t *testing.T) {
	h := newHouse(t)
	reader := h.account("r", "research", "nodes:read")
	for query, want := range map[string]int{
		"?kinds=task": 403, "?kinds=node,event": 403, "?kinds=colour": 400, "?kinds=,": 400, "?selector=%3D": 400, "?tenant=platform": 403,
		"?colour=red": 400,
	} {
		if status, body := h.ask("GET", "stream"+query, reader, ""); status != want {
			t.Errorf("%s: got %d %s", query, status, body)
		}
	}
}

// TestStreamEnds: with its account, and when the gateway stops.
func TestStreamEnds(t *testing.T) {
	inBubble(t, func(h *house) {
		h.api.Streams = livestream.New()
		routes := h.routes(false)
		l := h.listen(routes, "", h.account("gone", "", "nodes:read"), "")
		other := h.listen(routes, "", h.account("stays", "", "nodes:read"), "")
		l.hear()
		if l.isOver() {
			t.Fatal("it ended by itself")
		}
		h.ask("DELETE", "accounts/gone", "", "")
		l.hear()
		if !l.isOver() || other.isOver() {
			t.Errorf("over: %v, the other: %v", l.isOver(), other.isOver())
		}
		ctx, stop := context.WithCancel(h.t.Context())
		ended := make(chan error)
		go func() { ended <- h.api.Streams.Run(ctx) }()
		stop()
		<-ended
		<-other.ended
	})
}

// TestStreamOfOneTenant: a stream ends if its account is for another tenant by now.
func TestStreamOfOneTenant(t *testing.T) {
	inBubble(t, func(h *house) {
		routes := h.routes(false)
		l := h.listen(routes, "", h.account("moves", "old", "nodes:read"), "")
		other := h.listen(routes, "", h.account("stays", "old", "nodes:read"), "")
		l.hear()
		if status, body := h.ask("PATCH", "accounts/moves", "", `{"tenant":"new"}`); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		h.ask("PATCH", "accounts/stays", "", `{"scopes":["nodes:read","events:read"]}`)
		l.hear()
		if !l.isOver() || other.isOver() {
			t.Errorf("over: %v, the other: %v", l.isOver(), other.isOver())
		}
		l.leave()
		other.leave()
		<-l.ended
		<-other.ended
	})
}

// TestWatchNeedsItsPart: a watch of a shell ends with the scope for shells, also if another part of that scope stays, and with its tenant.
func TestWatchNeedsItsPart(t *testing.T) {
	inBubble(t, func(h *house) {
		h.sessionNode("n")
		s, err := h.api.Sessions.Open(h.t.Context(), session.Caller{}, session.Ask{Node: "n", Type: wire.SessionShell,
			Params: json.RawMessage(`{"user":"me"}`)})
		if err != nil {
			t.Fatal(err)
		}
		routes := h.routes(false)
		for name, patch := range map[string]string{"part": `{"scopes":["sessions:forward"]}`, "tenant": `{"tenant":"default"}`,
			"stays": `{"scopes":["sessions:shell"]}`} {
			l := h.open(routes, "nodes/n/sessions/"+s.ID+"/watch", h.account(name, "", "sessions"), "")
			l.hear()
			if l.isOver() {
				t.Errorf("%s: not let in: %s", name, l.Body)
			}
			if status, body := h.ask("PATCH", "accounts/"+name, "", patch); status != 200 {
				t.Errorf("%s: %d %s", name, status, body)
			}
			l.hear()
			if l.isOver() != (name != "stays") {
				t.Errorf("%s: over: %v", name, l.isOver())
			}
			l.leave()
			<-l.ended
		}
	})
}

// TestStreamExpires: an account that ends without an event is noticed too.
func TestStreamExpires(t *testing.T) {
	inBubble(t, func(h *house) {
		end := h.now.Add(time.Minute)
		token := h.accountWith(store.Account{Name: "short", Scopes: []string{"nodes:read"}, ExpiresAt: &end})
		l := h.listen(h.routes(false), "", token, "")
		h.later(2 * time.Minute)
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if !l.isOver() {
			t.Error("it goes on for an account that has expired")
			l.leave()
		}
	})
}

// TestStreamsBounded: one account cannot take all, and who leaves makes room.
func TestStreamsBounded(t *testing.T) {
	inBubble(t, func(h *house) {
		routes := h.routes(false)
		token := h.account("many", "", "nodes:read")
		var open []*listener
		for range 16 {
			open = append(open, h.listen(routes, "", token, ""))
		}
		if l := h.listen(routes, "", token, ""); l.Code != 429 || !strings.Contains(l.Body.String(), "muster top") {
			t.Errorf("got %d %s", l.Code, l.Body)
		}
		other := h.listen(routes, "", h.account("other", "", "nodes:read"), "")
		open[0].leave()
		<-open[0].ended
		open[0] = h.listen(routes, "", token, "")
		for _, l := range append(open, other) {
			if l.Code != 200 {
				t.Errorf("got %d %s", l.Code, l.Body)
			}
			l.leave()
			<-l.ended
		}
	})
}

// TestClientStream: the Go client reads what the gateway sends, and says when the gateway is lost.
func TestClientStream(t *testing.T) {
	h := newHouse(t)
	h.node("a", "platform", oneGPU)
	h.api.Overview.Load(t.Context())
	h.api.Streams = livestream.New()
	c, err := client.Dial(t.Context(), client.Target{DataDir: h.onSocket()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var got []api.StreamNodes
	begun := func() error { h.api.Overview.Findings("id-a", []api.Finding{{Rule: "x"}}); return nil }
	filter := api.StreamFilter{Kinds: []string{api.StreamNode}, All: true, Tenant: "platform", Selector: "name=a"}
	err = c.Stream(t.Context(), filter, begun,
		func(kind string, data []byte) error {
			n, err := api.ReadStreamNodes(data)
			got = append(got, n)
			stop()
			_ = h.api.Streams.Run(ctx)
			return err
		})
	if !client.IsLost(err) || len(got) != 1 || got[0].Nodes[0].Findings[0].Rule != "x" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := c.Stream(t.Context(), api.StreamFilter{Kinds: []string{"colour"}}, nil, nil); err == nil || client.IsLost(err) {
		t.Errorf("a refusal: %v", err)
	}
	if _, err := api.ReadStreamNodes([]byte("[")); err == nil {
		t.Error("a broken line was taken")
	}
	if !bytes.Contains([]byte(err.Error()), []byte("broke off")) {
		t.Error(err)
	}
}
