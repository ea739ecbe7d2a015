package session_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/session"
	"muster/store"
)

func params(text string) json.RawMessage { return json.RawMessage(text) }

// TestDocument: what the node gets is signed, says all that the node checks, and has the gateway's bounds.
func TestDocument(t *testing.T) {
	h := newHall(t, "box")
	h.open(session.Config{Idle: 30 * time.Minute, Limit: 12 * time.Hour})
	v, err := h.Open(t.Context(), alice(), session.Ask{Node: "box", Type: wire.SessionExec,
		Params: params(`{"command":["/bin/ls","--token=x"],"limit_seconds":60}`)})
	must(t, err)
	if h.rings["id-box"] != 1 {
		t.Errorf("the node was rung for %d times", h.rings["id-box"])
	}
	h.clock.Forward(20 * time.Second)
	signed := h.Aside(claimer("box"))
	if signed == nil {
		t.Fatal("the node was given nothing")
	}
	p, key, err := sign.OpenTask(*signed, []ed25519.PublicKey{h.key.Public().(ed25519.PublicKey)})
	must(t, err)
	keyID := sign.KeyID(key)
	var run wire.ExecParams
	must(t, sign.DecodeStrict(p.Params, &run))
	if p.TaskID != v.ID || p.NodeID != "id-box" || p.Enrolment != "e-box" || p.Type != wire.SessionExec || p.Nonce == "" ||
		!p.IssuedAt.Equal(start.Add(20*time.Second)) || !p.ExpiresAt.Equal(start.Add(wire.MaxSessionWait)) || keyID != v.SigningKeyID {
		t.Errorf("got %+v by %s", p, keyID)
	}
	if run.IdleSeconds != 1800 || run.LimitSeconds != 60 || v.IdleSeconds != 1800 || v.LimitSeconds != 60 {
		t.Errorf("bounds: %+v, %v, %v", run.SessionBounds, v.IdleSeconds, v.LimitSeconds)
	}
	if h.Aside(claimer("box")) != nil {
		t.Error("it was given out twice")
	}
	event, err := h.store.Events(t.Context(), store.EventQuery{Kind: "session.opened"})
	must(t, err)
	d := event[0].Detail
	if d["program"] != "ls" || d["arguments"] != "1" || len(d["params_sha256"]) != 64 || d["key"] != keyID || d["session"] != v.ID {
		t.Errorf("the event says %v", d)
	}
	if text, _ := json.Marshal(event); strings.Contains(string(text), "token=x") {
		t.Error("an argument is in the log")
	}
	own, err := h.Get(t.Context(), alice(), v.ID)
	must(t, err)
	others, err := h.Get(t.Context(), mallory(), v.ID)
	must(t, err)
	if string(own.Params) != string(v.Params) || string(others.Params) != "null" {
		t.Errorf("who opened it reads the params %s, and others %s", own.Params, others.Params)
	}
}

// TestKeyChangesMeanwhile: the key that is on record for a session is the one that the node sees, also when the gateway signs with another
// one by then.
func TestKeyChangesMeanwhile(t *testing.T) {
	h := newHall(t, "box")
	v, err := h.Open(t.Context(), alice(), session.Ask{Node: "box", Type: wire.SessionExec, Params: params(`{"command":["ls"]}`)})
	must(t, err)
	_, h.key, _ = ed25519.GenerateKey(rand.Reader)
	if signed := h.Aside(claimer("box")); signed == nil || signed.SigningKeyID != v.SigningKeyID {
		t.Errorf("got %+v, and on record is %s", signed, v.SigningKeyID)
	}
}

// TestRefusedAtOnce: what cannot become a session is refused, with what to do next.
func TestRefusedAtOnce(t *testing.T) {
	h := newHall(t, "box", "gone", "quiet", "drained", "twice")
	must(t, h.store.CreateNode(t.Context(), store.Node{ID: "id-new", Name: "new", Tenant: "default",
		State: store.StateReady, CreatedAt: start}, nil))
	h.move("gone", "active", "retired")
	h.move("drained", "active", "drained")
	must(t, h.store.MoveNode(t.Context(), store.Move{NodeID: "id-twice", From: "active", To: "unavailable", At: start,
		AddReasons: []store.Reason{{Reason: wire.ReasonConflict, Since: start}}}))
	must(t, h.store.SaveBeats(t.Context(), []store.Beat{{NodeID: "id-quiet", At: start, RunID: "r", Interval: time.Second}}, start))
	h.clock.Forward(time.Minute)
	forbidding := alice()
	forbidding.May = func(opener string) error { return wire.Refuse(wire.CodeForbidden, "not "+opener, "") }
	ls := `{"command":["ls"]}`
	for _, c := range []struct {
		what, node, kind, params, code string
		who                            session.Caller
	}{
		{"no node", "nope", wire.SessionExec, ls, wire.CodeNotFound, alice()},
		{"retired", "id-gone", wire.SessionExec, ls, wire.CodeIllegalMove, alice()},
		{"not enrolled", "new", wire.SessionExec, ls, wire.CodeIllegalMove, alice()},
		{"stale", "quiet", wire.SessionExec, ls, wire.CodeIllegalMove, alice()},
		{"conflict", "twice", wire.SessionExec, ls, wire.CodeIdentityConflict, alice()},
		{"another tenant", "box", wire.SessionExec, ls, wire.CodeNotFound, session.Caller{Tenant: "other"}},
		{"type", "box", "session.nope", ls, wire.CodeTaskTypeUnknown, alice()},
		{"a task", "box", wire.TaskDiagCollect, ls, wire.CodeTaskTypeUnknown, alice()},
		{"logs", "box", wire.SessionLogs, `{"source":"agent","since":"2026-11-23T12:00:00Z"}`, wire.CodeTaskTypeUnknown, alice()},
		{"scope", "box", wire.SessionExec, ls, wire.CodeForbidden, forbidding},
		{"field", "box", wire.SessionExec, `{"command":["ls"],"shell":true}`, wire.CodeTaskParamsInvalid, alice()},
		{"value", "box", wire.SessionExec, `{"command":[]}`, wire.CodeTaskParamsInvalid, alice()},
		{"bounds", "box", wire.SessionExec, `{"command":["ls"],"idle_seconds":-1}`, wire.CodeTaskParamsInvalid, alice()},
		{"no JSON", "box", wire.SessionExec, `{`, wire.CodeTaskParamsInvalid, alice()},
		{"too long", "box", wire.SessionExec, `{"command":["` + strings.Repeat("x", wire.MaxSessionCommand) + `"]}`, wire.CodeTaskParamsInvalid,
			alice()},
	} {
		if _, err := h.Open(t.Context(), c.who, session.Ask{Node: c.node, Type: c.kind, Params: params(c.params)}); code(err) != c.code {
			t.Errorf("%s: got %v, want %s", c.what, err, c.code)
		}
	}
	if events := h.events(); len(events) > 0 {
		t.Errorf("something was opened: %v", events)
	}
	if _, err := h.Open(t.Context(), alice(), session.Ask{Node: "drained", Type: wire.SessionExec, Params: params(ls)}); err != nil {
		t.Errorf("a drained node is one to look at: %v", err)
	}
}

// document is what an operator signs.
func document(change func(*wire.TaskPayload)) wire.TaskPayload {
	p := wire.TaskPayload{TaskID: wire.NewSessionID(), NodeID: "id-box", Enrolment: "e-box", Type: wire.SessionExec,
		Params: params(`{"command":["ls"]}`), IssuedAt: start, ExpiresAt: start.Add(wire.MaxSessionWait), Nonce: "n"}
	change(&p)
	return p
}

func sealed(t *testing.T, key ed25519.PrivateKey, p wire.TaskPayload) *wire.SignedTask {
	t.Helper()
	raw, err := json.Marshal(p)
	must(t, err)
	signed := sign.SealTask(key, raw)
	return &signed
}

// TestSignedByOperator: a document of an operator's key counts as it is, once, and only if it was meant.
func TestSignedByOperator(t *testing.T) {
	h := newHall(t, "box", "other")
	h.open(session.Config{Limit: time.Hour})
	good := sealed(t, h.operator, document(func(p *wire.TaskPayload) { p.Params = params(`{"command":["ls"],"limit_seconds":7200}`) }))
	v, err := h.Open(t.Context(), alice(), session.Ask{Node: "box", Signed: good})
	must(t, err)
	if got := h.Aside(claimer("box")); got == nil || string(got.Payload) != string(good.Payload) {
		t.Error("the node did not get what was signed")
	}
	if v.LimitSeconds != 3600 || v.SigningKeyID != sign.KeyID(h.operator.Public().(ed25519.PublicKey)) {
		t.Errorf("got %+v: the gateway's limit counts too", v)
	}
	if _, err := h.Open(t.Context(), alice(), session.Ask{Node: "box", Signed: good}); code(err) != wire.CodeAlreadyThere {
		t.Errorf("the same again: %v", err)
	}
	if first, err := h.Get(t.Context(), alice(), v.ID); err != nil || string(first.Params) != string(v.Params) {
		t.Errorf("the first one lives no more: %+v, %v", first, err)
	}
	h.open(session.Config{})
	if _, err := h.Open(t.Context(), alice(), session.Ask{Node: "box", Signed: good}); code(err) != wire.CodeAlreadyThere {
		t.Errorf("the same again after a restart: %v", err)
	}
	_, stranger, _ := ed25519.GenerateKey(nil)
	for what, c := range map[string]struct {
		ask  session.Ask
		code string
	}{
		"a stranger's key": {session.Ask{Node: "box", Signed: sealed(t, stranger, document(func(*wire.TaskPayload) {}))}, wire.CodeBadRequest},
		"another node": {session.Ask{Node: "other", Signed: sealed(t, h.operator, document(func(*wire.TaskPayload) {}))},
			wire.CodeBadRequest},
		"another enrolment": {session.Ask{Node: "box", Signed: sealed(t, h.operator,
			document(func(p *wire.TaskPayload) { p.Enrolment = "e-old" }))}, wire.CodeIllegalMove},
		"expired": {session.Ask{Node: "box", Signed: sealed(t, h.operator,
			document(func(p *wire.TaskPayload) { p.IssuedAt = start.Add(-time.Minute); p.ExpiresAt = start }))}, wire.CodeTaskExpired},
		"good for too long": {session.Ask{Node: "box", Signed: sealed(t, h.operator,
			document(func(p *wire.TaskPayload) { p.ExpiresAt = start.Add(time.Hour) }))}, wire.CodeBadRequest},
		"of the future": {session.Ask{Node: "box", Signed: sealed(t, h.operator, document(func(p *wire.TaskPayload) {
			p.IssuedAt = start.Add(time.Hour)
			p.ExpiresAt = start.Add(time.Hour + time.Second)
		}))}, wire.CodeBadRequest},
		"no nonce": {session.Ask{Node: "box", Signed: sealed(t, h.operator, document(func(p *wire.TaskPayload) { p.Nonce = "" }))},
			wire.CodeBadRequest},
		"a task's id": {session.Ask{Node: "box", Signed: sealed(t, h.operator,
			document(func(p *wire.TaskPayload) { p.TaskID = wire.NewTaskID() }))}, wire.CodeBadRequest},
		"said twice": {session.Ask{Node: "box", Type: wire.SessionExec, Signed: sealed(t, h.operator, document(func(*wire.TaskPayload) {}))},
			wire.CodeBadRequest},
		"a field too many": {session.Ask{Node: "box", Signed: func() *wire.SignedTask {
			s := sign.SealTask(h.operator, []byte(`{"task_id":"s-aaaaaaaaaaaaaaaa","more":1}`))
			return &s
		}()}, wire.CodeBadRequest},
	} {
		if _, err := h.Open(t.Context(), alice(), c.ask); code(err) != c.code {
			t.Errorf("%s: got %v, want %s", what, err, c.code)
		}
	}
}

// TestAboutEveryType: of every type something is shown, and never an argument.
func TestAboutEveryType(t *testing.T) {
	h := newHall(t, "box")
	for kind, c := range map[string]struct{ params, shows string }{
		wire.SessionShell:   {`{"user":"root","command":["/usr/bin/top","secret-1"]}`, "arguments params_sha256 program user"},
		wire.SessionExec:    {`{"command":["/usr/bin/top","secret-1"]}`, "arguments params_sha256 program"},
		wire.SessionForward: {`{"port":22}`, "params_sha256 port"},
		wire.SessionCopy:    {`{"path":"/etc","folder":true}`, "folder params_sha256 path write"},
	} {
		v, err := h.Open(t.Context(), alice(), session.Ask{Node: "box", Type: kind, Params: params(c.params)})
		must(t, err)
		var names []string
		for name, value := range v.About {
			names = append(names, name)
			if strings.Contains(value, "secret") {
				t.Errorf("%s shows %s", kind, value)
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.shows {
			t.Errorf("%s shows %s, want %s", kind, got, c.shows)
		}
	}
	i, err := h.Internal(t.Context(), "box", wire.SessionLogs, wire.LogsParams{Source: wire.LogAgent, Since: start})
	must(t, err)
	must(t, i.Close())
}

// TestMostSessions: accounts, nodes and the gateway have bounds.
func TestMostSessions(t *testing.T) {
	h := newHall(t, "box", "b", "c", "d", "e")
	var last string
	open := func(who session.Caller, node string) string {
		v, err := h.Open(t.Context(), who, session.Ask{Node: node, Type: wire.SessionExec, Params: params(`{"command":["ls"]}`)})
		last = v.ID
		return code(err)
	}
	for range wire.MaxNodeSessions {
		if got := open(alice(), "box"); got != "<nil>" {
			t.Fatal(got)
		}
	}
	ends := last
	if got := open(mallory(), "box"); got != wire.CodeTooManyRequests {
		t.Errorf("one more on the node: %s", got)
	}
	for range 1000 - wire.MaxNodeSessions {
		if got := open(alice(), "b"); got != "<nil>" {
			t.Fatal(got)
		}
	}
	if got := open(alice(), "b"); got != wire.CodeTooManyRequests {
		t.Errorf("one more of the account: %s", got)
	}
	if got := open(mallory(), "b"); got != "<nil>" {
		t.Errorf("of another account: %s", got)
	}
	_, err := h.Kill(t.Context(), alice(), ends, "")
	must(t, err)
	if got := open(alice(), "box"); got != "<nil>" {
		t.Errorf("one of the node and the account has ended: %s", got)
	}
}
