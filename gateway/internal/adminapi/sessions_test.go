package adminapi_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/gateway/internal/session"
)

// sessionNode makes a node, as the service of sessions knows it.
func (h *house) sessionNode(name string) session.Claimer {
	h.t.Helper()
	c := h.enrolled(name, "default")
	return session.Claimer{NodeID: c.NodeID, Enrolment: c.Enrolment, Fingerprint: c.Fingerprint, Generation: 1}
}

func codeOf(err error) string {
	var said *wire.ErrorDetail
	if errors.As(err, &said) {
		return said.Code
	}
	return ""
}

// TestSessionOverHTTP: an operator opens a session, moves bytes both ways, looks at it, watches it and ends it, all by the Go client.
func TestSessionOverHTTP(t *testing.T) {
	h := newHouse(t)
	node := h.sessionNode("n")
	c := h.client()
	ctx := t.Context()
	s, err := client.Send[api.Session](ctx, c, "POST", api.At(api.PathNodeSessions, "n"), api.SessionAsk{Type: wire.SessionShell,
		Params: json.RawMessage(`{"user":"me"}`)})
	if err != nil || s.Status != api.SessionWaiting || s.Node != "n" || s.About["user"] != "me" || s.LimitSeconds != 24*60*60 {
		t.Fatalf("got %+v, %v", s, err)
	}
	if h.api.Sessions.Aside(node) == nil {
		t.Fatal("the node was given nothing")
	}
	if next, err := c.SendPiece(ctx, "n", s.ID, pipe.Main, 0, pipe.Piece{Data: []byte{'i', 0, 0, 0, 1, 0xff}}); next != 6 || err != nil {
		t.Fatalf("sent up to %d, %v", next, err)
	}
	if p, err := h.api.Sessions.NodeFetch(ctx, node, s.ID, pipe.Main, 0, 0); err != nil || string(p.Data) != "i\x00\x00\x00\x01\xff" {
		t.Errorf("the node got %q, %v", p.Data, err)
	}
	watched, err := c.WatchSession(ctx, "n", s.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Close()
	var both strings.Builder
	if err := errors.Join(pipe.WriteFrame(&both, pipe.FrameReady, []byte("{}")),
		pipe.WriteFrame(&both, pipe.FrameOutput, []byte("hello"))); err != nil {
		t.Fatal(err)
	}
	if _, err := h.api.Sessions.NodeSend(ctx, node, s.ID, pipe.Main, 0, pipe.Piece{Data: []byte(both.String())}); err != nil {
		t.Fatal(err)
	}
	if p, err := c.FetchPiece(ctx, "n", s.ID, pipe.Main, 0, wire.PieceWait); err != nil || string(p.Data) != both.String() {
		t.Errorf("the operator got %q, %v", p.Data, err)
	}
	if kind, data, err := pipe.NewFrames(watched).Next(); err != nil || kind != pipe.FrameOutput || string(data) != "hello" {
		t.Errorf("the watcher got %c %q, %v", kind, data, err)
	}
	if s, err = client.Get[api.Session](ctx, c, api.At(api.PathNodeSession, "n", s.ID), nil); err != nil ||
		s.Status != api.SessionOpen || *s.BytesIn != 6 || *s.BytesOut == 0 {
		t.Errorf("got %+v, %v", s, err)
	}
	for what, f := range map[string]api.SessionFilter{"all": {}, "of the node": {Node: "n"}, "open": {Status: api.SessionOpen}} {
		if page, err := client.Get[api.SessionPage](ctx, c, f.Path(), f); err != nil || len(page.Sessions) != 1 ||
			page.Sessions[0].ID != s.ID {
			t.Errorf("%s: %+v, %v", what, page, err)
		}
	}
	if page, err := client.Get[api.SessionPage](ctx, c, api.PathSessions, api.SessionFilter{Status: api.SessionEnded}); err != nil ||
		len(page.Sessions) != 0 {
		t.Errorf("ended: %+v, %v", page, err)
	}
	if s, err = client.Send[api.Session](ctx, c, "DELETE", api.At(api.PathNodeSession, "n", s.ID), nil); err != nil ||
		s.Status != api.SessionEnded || s.End == "" {
		t.Errorf("killed: %+v, %v", s, err)
	}
	if _, err := c.SendPiece(ctx, "n", s.ID, pipe.Main, 6, pipe.Piece{Data: []byte("x")}); codeOf(err) != wire.CodeSessionOver {
		t.Errorf("after the end: %v", err)
	}
	if _, err := client.Send[api.Session](ctx, c, "DELETE", api.At(api.PathNodeSession, "n", s.ID),
		nil); codeOf(err) != wire.CodeSessionOver {
		t.Errorf("killed twice: %v", err)
	}
	events, err := client.Get[api.EventList](ctx, c, api.PathEvents, api.EventFilter{After: new(int64), Security: true, Limit: 100})
	kinds := ""
	for _, e := range events.Events {
		if e.Detail["session"] != "" {
			kinds += e.Kind + " "
		}
	}
	if err != nil || kinds != "session.opened session.watched session.killed session.ended " {
		t.Errorf("events %q, %v: a late piece is none", kinds, err)
	}
}

// TestSessionRefusals: each bad request is answered with what it takes.
func TestSessionRefusals(t *testing.T) {
	h := newHouse(t)
	node := h.sessionNode("n")
	h.sessionNode("m")
	all := h.account("all", "", api.ScopeSessions)
	only := h.account("only", "", api.ScopePart(api.ScopeSessions, wire.OpenerShell))
	made, err := h.api.Sessions.Open(t.Context(), session.Caller{Account: "msa_other"}, session.Ask{Node: "n", Type: wire.SessionExec,
		Params: json.RawMessage(`{"command":["ls"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	h.api.Sessions.Aside(node)
	at := "nodes/n/sessions/" + made.ID
	for _, c := range []struct {
		who, method, path, body, code string
	}{
		{all, "POST", "nodes/n/sessions", `{}`, wire.CodeBadRequest},
		{all, "POST", "nodes/n/sessions", `{"type":"session.exec","params":{}}`, wire.CodeTaskParamsInvalid},
		{all, "POST", "nodes/nope/sessions", `{"type":"session.exec","params":{"command":["ls"]}}`, wire.CodeNotFound},
		{only, "POST", "nodes/n/sessions", `{"type":"session.exec","params":{"command":["ls"]}}`, wire.CodeForbidden},
		{only, "GET", at, "", wire.CodeForbidden},
		{only, "DELETE", at, "", wire.CodeForbidden},
		{all, "GET", "nodes/m/sessions/" + made.ID, "", wire.CodeNotFound},
		{all, "DELETE", "nodes/m/sessions/" + made.ID, "", wire.CodeNotFound},
		{all, "GET", "nodes/n/sessions/x", "", wire.CodeBadRequest},
		{all, "GET", at + "/stream", "", wire.CodeBadRequest},
		{all, "GET", at + "/stream?at=x", "", wire.CodeBadRequest},
		{all, "GET", at + "/stream?at=0&channel=-1", "", wire.CodeBadRequest},
		{all, "GET", at + "/stream?at=0&wait=21", "", wire.CodeBadRequest},
		{all, "GET", at + "/stream?at=0", "", wire.CodeNotFound}, // it is of another account
		{all, "POST", at + "/stream?at=0", "\x00x", wire.CodeNotFound},
		{all, "POST", at + "/stream?at=0", "\x07x", wire.CodeBadRequest},
		{all, "POST", at + "/stream?at=0", "", wire.CodeBadRequest},
		{all, "GET", at + "/watch", "", wire.CodeBadRequest}, // it has no terminal
		{all, "GET", "sessions?status=nope", "", wire.CodeBadRequest},
		{all, "GET", "sessions?type=nope", "", wire.CodeTaskTypeUnknown},
		{all, "GET", "sessions?cursor=nope", "", wire.CodeBadRequest},
		{all, "GET", "nodes/nope/sessions", "", wire.CodeNotFound},
	} {
		status, body := h.ask(c.method, c.path, c.who, c.body)
		var refused wire.Error
		if err := json.Unmarshal(body, &refused); err != nil || refused.Error.Code != c.code {
			t.Errorf("%s %s %q: got %d %s, want %s", c.method, c.path, c.body, status, body, c.code)
		}
	}
}
