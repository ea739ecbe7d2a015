package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/session"
	"muster/store"
	"muster/store/engine"
	"muster/store/sessions"
)

// TestLimits: each limit ends a session, says why, and tells both ends.
func TestLimits(t *testing.T) {
	none := func(*hall, string) {}
	node := func(h *hall, id string) {
		_, err := h.NodeFetch(h.t.Context(), claimer("box"), id, pipe.Main, 0, 0)
		must(h.t, err)
	}
	operator := func(h *hall, id string) {
		_, err := h.Fetch(h.t.Context(), alice(), id, pipe.Main, 0, 0)
		must(h.t, err)
	}
	both := func(h *hall, id string) { node(h, id); operator(h, id) }
	for _, c := range []struct {
		what   string
		params string
		taken  bool
		beat   func(*hall, string) // every 30 seconds
		lives  time.Duration
		why    string
	}{
		{"nobody takes it", ``, false, operator, wire.MaxSessionWait, "did not take the session"},
		{"the node is gone", ``, true, operator, wire.SessionBridge, "the node is not heard from"},
		{"the operator is gone", ``, true, node, wire.SessionBridge, "its operator is not heard from"},
		{"both are gone", ``, true, none, wire.SessionBridge, "the node is not heard from"},
		{"nobody writes", `,"idle_seconds":300`, true, both, 5 * time.Minute, "nothing was written for 5m0s"},
		{"it lasts too long", `,"limit_seconds":600`, true, both, 10 * time.Minute, "it lasted 10m0s"},
	} {
		h := newHall(t, "box")
		v, err := h.Open(t.Context(), alice(), session.Ask{Node: "box", Type: wire.SessionExec,
			Params: params(`{"command":["ls"]` + c.params + `}`)})
		must(t, err)
		if c.taken {
			h.Aside(claimer("box"))
		}
		for range c.lives / (30 * time.Second) {
			h.Sweep(t.Context())
			if why := h.why(v.ID); why != "" {
				t.Fatalf("%s: it ended too early: %s", c.what, why)
			}
			h.clock.Forward(30 * time.Second)
			c.beat(h, v.ID)
		}
		h.clock.Forward(time.Second)
		h.Sweep(t.Context())
		if got := h.why(v.ID); !strings.Contains(got, c.why) {
			t.Errorf("%s: it ended because %q", c.what, got)
		}
		if _, err := h.Fetch(t.Context(), alice(), v.ID, pipe.Main, 0, 0); code(err) != wire.CodeSessionOver ||
			!strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: the operator hears %v", c.what, err)
		}
		if _, err := h.NodeFetch(t.Context(), claimer("box"), v.ID, pipe.Main, 0, 0); c.taken && code(err) != wire.CodeSessionOver {
			t.Errorf("%s: the node hears %v", c.what, err)
		}
		if h.Aside(claimer("box")) != nil {
			t.Errorf("%s: it is given out after its end", c.what)
		}
		h.clock.Forward(3 * time.Minute)
		h.Sweep(t.Context())
		if h.Live() != 0 {
			t.Errorf("%s: it is still in memory", c.what)
		}
		if _, err := h.Fetch(t.Context(), alice(), v.ID, pipe.Main, 0, 0); code(err) != wire.CodeSessionOver {
			t.Errorf("%s: late, the operator hears %v", c.what, err)
		}
		if _, err := h.Fetch(t.Context(), mallory(), v.ID, pipe.Main, 0, 0); code(err) != wire.CodeNotFound {
			t.Errorf("%s: late, somebody else hears %v", c.what, err)
		}
	}
}

// TestUntaken: the end of a session that no node took says when its node was last heard.
func TestUntaken(t *testing.T) {
	h := newHall(t, "box")
	opened := h.clock.Now()
	for want, at := range map[string]any{
		"did not take the session: it was never heard":                                         nil,
		"did not take the session: it was last heard 1m41s ago":                                -40 * time.Second,
		"did not take the session, though it was last heard 31s ago: its agent may be too old": 30 * time.Second,
		"did not take the session: it is away, or its agent is too old":                        errors.New("no disk"),
	} {
		h.open(session.Config{Heard: func(context.Context, string) (*time.Time, error) {
			switch at := at.(type) {
			case error:
				return nil, at
			case time.Duration:
				heard := opened.Add(at)
				return &heard, nil
			}
			return nil, nil
		}})
		opened = h.clock.Now()
		v, err := h.Open(t.Context(), alice(), session.Ask{Node: "box", Type: wire.SessionExec, Params: params(`{"command":["ls"]}`)})
		must(t, err)
		h.clock.Forward(wire.MaxSessionWait + time.Second)
		h.Sweep(t.Context())
		if why := h.why(v.ID); why != "node box "+want {
			t.Errorf("got %q, want %q", why, want)
		}
	}
}

// TestBytesKeepItAlive: what is written counts against the idle limit, in both directions, and not against the outer one.
func TestBytesKeepItAlive(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionExec, `{"command":["ls"],"idle_seconds":50,"limit_seconds":320}`)
	for i := range int64(4) {
		h.clock.Forward(40 * time.Second)
		_, err := h.Send(t.Context(), alice(), id, pipe.Main, i, pipe.Piece{Data: []byte("x")})
		must(t, err)
		h.clock.Forward(40 * time.Second)
		_, err = h.NodeSend(t.Context(), claimer("box"), id, pipe.Main, i, pipe.Piece{Data: []byte("x")})
		must(t, err)
		h.Sweep(t.Context())
	}
	if why := h.why(id); why != "" {
		t.Errorf("it ended: %s", why)
	}
	h.clock.Forward(time.Second)
	h.Sweep(t.Context())
	if why := h.why(id); !strings.Contains(why, "it lasted 5m20s") {
		t.Errorf("after its limit: %q", why)
	}
}

// TestKill: a session ends at once for both ends, who did it is on record, and nobody of another tenant can.
func TestKill(t *testing.T) {
	h := newHall(t, "box")
	id, sent := h.shell("box")
	waits := make(chan error, 2)
	go func() {
		_, err := h.Fetch(t.Context(), alice(), id, pipe.Main, int64(len(*sent)), wire.PieceWait)
		waits <- err
	}()
	go func() {
		_, err := h.NodeFetch(t.Context(), claimer("box"), id, pipe.Main, 0, wire.PieceWait)
		waits <- err
	}()
	for what, who := range map[string]session.Caller{"another tenant": {Tenant: "other"},
		"without the scope": {May: func(string) error { return wire.Refuse(wire.CodeForbidden, "no", "") }}} {
		if _, err := h.Kill(t.Context(), who, id, ""); code(err) != wire.CodeNotFound && code(err) != wire.CodeForbidden {
			t.Errorf("%s: %v", what, err)
		}
	}
	boss := session.Caller{Actor: store.Actor{Name: "account:boss", Address: "192.0.2.9"}, Account: "msa_boss"}
	v, err := h.Kill(t.Context(), boss, id, "")
	must(t, err)
	if v.EndedAt == nil || v.End != "ended by account:boss" {
		t.Errorf("got %+v", v)
	}
	for range 2 {
		if err := <-waits; code(err) != wire.CodeSessionOver {
			t.Errorf("who waits hears %v", err)
		}
	}
	if got := h.events(); !slices.Equal(got, []string{"session.opened ok", "session.killed ok", "session.ended ok"}) {
		t.Errorf("events: %v", got)
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "session.killed"})
	must(t, err)
	if e := events[0]; e.Actor != "account:boss" || e.Address != "192.0.2.9" || e.NodeName != "box" || e.Detail["why"] == "" || !e.Security {
		t.Errorf("the event is %+v", e)
	}
}

// TestIdentityEnds: a session ends with what its node was, and others go on.
func TestIdentityEnds(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*hall)
		event  string // as package fleet writes it
		why    string
	}{
		"retired":  {func(h *hall) { h.move("box", "active", "retired") }, "node.retired", "the node was retired"},
		"enrolled": {func(h *hall) { h.again("box") }, "node.enrolled", "the node has enrolled again"},
		"banned": {func(h *hall) {
			must(h.t, h.store.MoveNode(h.t.Context(), store.Move{NodeID: "id-box", From: "active", To: "retired", At: start, Ban: true}))
		}, "node.retired", "the node was banned"},
		"conflict": {func(h *hall) {
			must(h.t, h.store.MoveNode(h.t.Context(), store.Move{NodeID: "id-box", From: "active", To: "unavailable", At: start,
				AddReasons: []store.Reason{{Reason: wire.ReasonConflict}}}))
		}, "identity.conflict", "two machines use the node's identity"},
		"nothing": {func(h *hall) { h.move("box", "active", "drained") }, "node.drained", ""},
	} {
		h := newHall(t, "box", "other")
		id := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
		unhurt := h.ask("other", wire.SessionExec, `{"command":["ls"]}`)
		c.change(h)
		h.Take(t.Context(), []store.Event{{Kind: c.event, NodeID: "id-box"}, {Kind: "task.created", NodeID: "id-other"}})
		h.Look(t.Context())
		if got := h.why(id); got != c.why {
			t.Errorf("%s: it ended because %q, want %q", what, got, c.why)
		}
		if got := h.why(unhurt); got != "" {
			t.Errorf("%s: the session of another node ended: %s", what, got)
		}
	}
}

// TestAccountEnds: a session ends with the account, at its event or a little later, and not because the database is away for a moment.
func TestAccountEnds(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	h.still = errors.New("the database is away")
	h.Take(t.Context(), []store.Event{{Kind: "account.revoked"}})
	h.Look(t.Context())
	if why := h.why(id); why != "" {
		t.Errorf("it ended: %s", why)
	}
	h.still = wire.Refuse(wire.CodeUnauthorized, "the account is revoked", "")
	h.clock.Forward(14 * time.Second)
	h.Sweep(t.Context())
	if why := h.why(id); why != "" {
		t.Errorf("it was looked at too early: %s", why)
	}
	h.clock.Forward(2 * time.Second)
	h.Sweep(t.Context())
	if why := h.why(id); !strings.Contains(why, "the account is revoked") {
		t.Errorf("it ended because %q", why)
	}
	second := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	h.Take(t.Context(), []store.Event{{Kind: "account.revoked"}})
	h.Look(t.Context())
	if why := h.why(second); !strings.Contains(why, "the account is revoked") {
		t.Errorf("after the event: %q", why)
	}
}

// TestGatewayStops: all sessions end with it, those who wait are let go, and no new one begins.
func TestGatewayStops(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- h.Run(ctx) }()
	go func() {
		_, err := h.NodeFetch(t.Context(), claimer("box"), id, pipe.Main, 0, wire.PieceWait)
		done <- err
	}()
	stop()
	for range 2 {
		if err := <-done; err != nil && code(err) != wire.CodeSessionOver {
			t.Errorf("got %v", err)
		}
	}
	if why := h.why(id); why != "the gateway stops" {
		t.Errorf("it ended because %q", why)
	}
	_, err := h.Open(t.Context(), alice(), session.Ask{Node: "box", Type: wire.SessionExec, Params: params(`{"command":["ls"]}`)})
	if code(err) != wire.CodeUnavailable {
		t.Errorf("a new one: %v", err)
	}
}

// TestGatewayKilled: the next start ends what the killed one left open. Its node and its operator hear that it is over.
func TestGatewayKilled(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	h.open(session.Config{})
	if why := h.why(id); why != "the gateway was restarted" {
		t.Errorf("it ended because %q", why)
	}
	if _, err := h.Fetch(t.Context(), alice(), id, pipe.Main, 0, 0); code(err) != wire.CodeSessionOver {
		t.Errorf("the operator hears %v", err)
	}
	if _, err := h.NodeFetch(t.Context(), claimer("box"), id, pipe.Main, 0, 0); code(err) != wire.CodeSessionOver {
		t.Errorf("the node hears %v", err)
	}
	h.open(session.Config{})
	if got := h.events(); !slices.Equal(got, []string{"session.opened ok", "session.ended ok"}) {
		t.Errorf("events: %v", got)
	}
	views, _, err := h.List(t.Context(), alice(), sessions.Query{})
	if err != nil || len(views) != 1 || views[0].EndedAt == nil {
		t.Errorf("list: %+v, %v", views, err)
	}
}

// TestNodeRefuses: what the node says is what the operator and the log get, made harmless.
func TestNodeRefuses(t *testing.T) {
	long := strings.Repeat("ü", 400)
	for what, c := range map[string]struct{ begun, said, event, why string }{
		"policy": {"", `{"code":"task_forbidden","message":"no shells here"}`, "session.refused task_forbidden",
			"the node refused: no shells here"},
		"nonsense": {"", `[`, "session.refused task_forbidden", "the node refused: it does not say why"},
		"bad code": {"", `{"code":"A B","message":"x"}`, "session.refused task_forbidden", "the node refused: x"},
		"too long": {"", `{"code":"x","message":"` + long + `"}`, "session.refused x", "the node refused: " + strings.Repeat("ü", 150)},
		"later":    {"yes", `{"code":"x","message":"the agent stops"}`, "session.ended ok", "the node ended it: the agent stops"},
	} {
		h := newHall(t, "box")
		id := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
		sent := new([]byte)
		if c.begun != "" {
			h.says("box", id, sent, frame(pipe.FrameReady, `{}`))
		}
		h.says("box", id, sent, frame(pipe.FrameRefused, c.said))
		if got := h.why(id); got != c.why {
			t.Errorf("%s: %q", what, got)
		}
		if got := h.events(); got[len(got)-1] != c.event {
			t.Errorf("%s: events %v", what, got)
		}
		if got, err := h.hears(id, 0); got != string(*sent) || code(err) != wire.CodeSessionOver {
			t.Errorf("%s: the operator got %q, %v", what, got, err)
		}
	}
}

// TestExits: how a program ended is what stays.
func TestExits(t *testing.T) {
	exec := `{"command":["ls"]}`
	for said, c := range map[string]struct {
		why    string
		code   int64
		kind   string
		params string
	}{
		`{"code":3}`:                    {"the program ended with status 3", 3, wire.SessionExec, exec},
		`{"code":143,"signal":"TERM"}`:  {"the program was ended by the signal TERM", 143, wire.SessionExec, exec},
		`{"code":1,"error":"no space"}`: {"no space", 1, wire.SessionExec, exec},
		`{`:                             {"the node does not say how it ended", 1, wire.SessionExec, exec},
		`{"code":0,"bytes":7}`:          {"the copy is whole", 0, wire.SessionCopy, `{"path":"/etc/hosts"}`},
		`{"code":1,"bytes":7}`:          {"not everything could be copied", 1, wire.SessionCopy, `{"path":"/etc","folder":true}`},
		`{"code":0}`:                    {"the operator ended it", 0, wire.SessionForward, `{"port":22}`},
	} {
		h := newHall(t, "box")
		id := h.ask("box", c.kind, c.params)
		h.says("box", id, new([]byte), append(frame(pipe.FrameReady, `{}`), frame(pipe.FrameExit, said)...))
		v, err := h.Get(t.Context(), alice(), id)
		if err != nil || v.End != c.why || v.ExitCode == nil || int64(*v.ExitCode) != c.code {
			t.Errorf("%s: %+v, %v", said, v, err)
		}
	}
}

// TestNoFrames: a node that breaks the rules ends its session, and nothing else.
func TestNoFrames(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	_, err := h.NodeSend(t.Context(), claimer("box"), id, pipe.Main, 0, pipe.Piece{Data: []byte{'o', 0xff, 0, 0, 0, 'x'}})
	if code(err) != wire.CodeSessionOver {
		t.Errorf("the node hears %v", err)
	}
	if why := h.why(id); !strings.Contains(why, "broke the rules") {
		t.Errorf("it ended because %q", why)
	}
}

// TestEndIsStoredLater: an end that cannot be stored is tried again.
func TestEndIsStoredLater(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	change := func(text string) {
		_, err := h.store.Records().Batch(t.Context(), []engine.Statement{engine.Do(text)})
		must(t, err)
	}
	change("ALTER TABLE node_sessions RENAME COLUMN end_reason TO away")
	_, err := h.Kill(t.Context(), alice(), id, "enough")
	must(t, err)
	if _, err := h.NodeFetch(t.Context(), claimer("box"), id, pipe.Main, 0, 0); code(err) != wire.CodeSessionOver {
		t.Errorf("it has ended all the same: %v", err)
	}
	change("ALTER TABLE node_sessions RENAME COLUMN away TO end_reason")
	if got := h.events(); !slices.Equal(got, []string{"session.opened ok"}) {
		t.Errorf("events: %v", got)
	}
	h.Sweep(t.Context())
	if got := h.events(); !slices.Equal(got, []string{"session.opened ok", "session.killed ok", "session.ended ok"}) {
		t.Errorf("events: %v", got)
	}
}

// TestMemoryIsBounded: where all sessions together keep too much, a channel gets little, and goes on when there is room again.
func TestMemoryIsBounded(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionForward, `{"port":22}`)
	h.Keep(session.MostKept)
	big := pipe.Piece{Data: make([]byte, wire.MaxPiece), End: true}
	next, err := h.Send(t.Context(), alice(), id, 1, 0, big)
	if err != nil || next < 1 || next > 64<<10 {
		t.Errorf("%d bytes were taken, %v", next, err)
	}
	if again, err := h.Send(t.Context(), alice(), id, 1, next, pipe.Piece{Data: big.Data[next:], End: true}); again != next || err != nil {
		t.Errorf("%d bytes more were taken, %v", again-next, err)
	}
	p, err := h.NodeFetch(t.Context(), claimer("box"), id, 1, 0, 0)
	if err != nil || int64(len(p.Data)) != next || p.End {
		t.Errorf("the node got %d bytes, end %v, %v", len(p.Data), p.End, err)
	}
	h.Keep(-session.MostKept)
	if all, err := h.Send(t.Context(), alice(), id, 1, next, pipe.Piece{Data: big.Data[next:], End: true}); all != wire.MaxPiece ||
		err != nil {
		t.Errorf("with room again: %d, %v", all, err)
	}
	if h.Kept() == 0 {
		t.Error("nothing is counted")
	}
	_, err = h.Kill(t.Context(), alice(), id, "")
	must(t, err)
	h.clock.Forward(3 * time.Minute)
	h.Sweep(t.Context())
	if kept := h.Kept(); kept != 0 {
		t.Errorf("%d bytes are counted after the end", kept)
	}
}

// TestList: sessions that live are shown as they are now; those of types that the caller may not open are left out.
func TestList(t *testing.T) {
	h := newHall(t, "box")
	h.shell("box")
	exec := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	part := alice()
	part.May = func(opener string) error {
		if opener != wire.OpenerExec {
			return fmt.Errorf("not %s", opener)
		}
		return nil
	}
	views, _, err := h.List(t.Context(), part, sessions.Query{})
	if err != nil || len(views) != 1 || views[0].ID != exec {
		t.Errorf("with a part of the scope: %+v, %v", views, err)
	}
	views, _, err = h.List(t.Context(), alice(), sessions.Query{})
	if err != nil || len(views) != 2 || views[1].OpenedAt == nil || *views[1].BytesOut == 0 || string(views[0].Params) != "null" {
		t.Errorf("all: %+v, %v", views, err)
	}
	if _, _, err := h.List(t.Context(), alice(), sessions.Query{Cursor: "x"}); code(err) != wire.CodeBadRequest {
		t.Errorf("a bad cursor: %v", err)
	}
}
