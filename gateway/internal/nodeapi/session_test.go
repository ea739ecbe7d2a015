package nodeapi_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/session"
	"muster/store"
)

var alice = session.Caller{Actor: store.Actor{Name: "account:alice"}, Account: "msa_alice"}

// open asks a node for a session that runs a program.
func (s *site) open(n node) string {
	s.t.Helper()
	v, err := s.sessions.Open(s.t.Context(), alice, session.Ask{Node: n.id, Type: wire.SessionExec,
		Params: json.RawMessage(`{"command":["ls"]}`)})
	if err != nil {
		s.t.Fatal(err)
	}
	return v.ID
}

// fetch asks with a signature for what the operator has sent.
func (s *site) fetch(n node, path string) answer {
	s.t.Helper()
	r := newRequest(s.t, http.MethodGet, s.plain.URL+path, nil)
	nonce, err := n.signer.Sign(r, nil, epoch, s.clock.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	a := s.do(http.DefaultClient, r)
	s.answered(nonce, a)
	return a
}

// TestWaitFor: a wait says what it takes. One of an older agent takes tasks alone.
func TestWaitFor(t *testing.T) {
	s := newSite(t, nil)
	n := s.active("box")
	id := s.open(n)
	if a, got := s.wait(n, "?seconds=0"); a.status != http.StatusNoContent {
		t.Errorf("an older agent got %d %q", a.status, got)
	}
	if a, _ := s.wait(n, "?seconds=0&for=tasks"); a.status != http.StatusNoContent {
		t.Errorf("for tasks: %d", a.status)
	}
	work := s.order(n, wire.TaskDiagCollect, "")
	if _, got := s.wait(n, "?seconds=55&for=tasks,sessions"); got != id {
		t.Errorf("for both: got %q, want the session %s first", got, id)
	}
	if a, got := s.wait(n, "?seconds=0&for=sessions"); a.status != http.StatusNoContent {
		t.Errorf("for sessions alone it got %d %q", a.status, got)
	}
	told := make(chan answer, 1)
	go func() { told <- s.fetch(n, wire.TaskWaitPath(n.id)+"?seconds=55&for=sessions,report") }()
	var a answer
	for waited := false; !waited && t.Context().Err() == nil; {
		s.desk.Report(n.id) // it may not wait yet
		select {
		case a = <-told:
			waited = true
		case <-time.After(time.Millisecond):
		}
	}
	if a.status != http.StatusOK || string(a.body) != `{"report":true}`+"\n" {
		t.Errorf("news for the next report: %d %q", a.status, a.body)
	}
	if _, got := s.wait(n, "?seconds=55&for=later,sessions,tasks"); got != work.ID {
		t.Errorf("got %q, want the task", got)
	}
	for _, query := range []string{"?for=", "?for=nothing", "?for=tasks&for=tasks", "?seconds=1&other=2", "?seconds=56&for=tasks",
		"?for=%zz"} {
		a, _ := s.wait(n, query)
		s.want(query, a, 400, wire.CodeBadRequest)
	}
}

// TestWaitIsRung: a wait that is under way gets the session as soon as it is asked for.
func TestWaitIsRung(t *testing.T) {
	s := newSite(t, nil)
	n := s.active("box")
	got := make(chan string, 1)
	go func() {
		_, id := s.wait(n, "?seconds=55&for=sessions")
		got <- id
	}()
	began := time.Now()
	id := s.open(n) // before the wait or after it
	if first := <-got; first != id {
		t.Errorf("after %v: got %q, want %q", time.Since(began), first, id)
	}
}

// TestSessionBytes: the node's bytes go both ways, by signature and by certificate, and every answer is proven.
func TestSessionBytes(t *testing.T) {
	s := newSite(t, nil)
	n := s.active("box")
	other := s.active("other")
	id := s.open(n)
	at := wire.SessionChannelPath(id, "0")
	s.want("before it was taken", s.fetch(n, at+"?at=0"), 409, wire.CodeClaimMismatch)
	if _, got := s.wait(n, "?seconds=55&for=sessions"); got != id {
		t.Fatalf("the node got %q", got)
	}
	frame := "o\x00\x00\x00\x02h\xff"
	sent := pipe.Piece{Data: []byte(frame)}
	a := s.plainly(n, at+"?at=0", sent.Body())
	if taken, err := pipe.ReadTaken(a.body); err != nil || taken.Next != 7 {
		t.Errorf("got %d %s, %v", a.status, a.body, err)
	}
	if p, err := s.sessions.Fetch(t.Context(), alice, id, pipe.Main, 0, 0); err != nil || string(p.Data) != frame {
		t.Errorf("the operator got %q, %v", p.Data, err)
	}
	if _, err := s.sessions.Send(t.Context(), alice, id, pipe.Main, 0, pipe.Piece{Data: []byte{0xff, 0xfe}}); err != nil {
		t.Fatal(err)
	}
	a = s.fetch(n, at+"?at=0&wait=20")
	if p, err := pipe.ReadPiece(a.body); a.status != 200 || a.header.Get("Content-Type") != pipe.Kind || err != nil ||
		string(p.Data) != "\xff\xfe" {
		t.Errorf("signed: got %d %s %q, %v", a.status, a.header.Get("Content-Type"), a.body, err)
	}
	a = s.do(s.direct(&n), newRequest(t, http.MethodGet, s.tls.URL+at+"?at=1", nil))
	if p, err := pipe.ReadPiece(a.body); a.status != 200 || err != nil || string(p.Data) != "\xfe" {
		t.Errorf("by certificate: got %d %q, %v", a.status, a.body, err)
	}
	a = s.fetch(n, at+"?at=2")
	if p, err := pipe.ReadPiece(a.body); a.status != 200 || err != nil || len(p.Data) != 0 || p.End {
		t.Errorf("nothing is there: got %d %q, %v", a.status, a.body, err)
	}
	s.want("another node", s.fetch(other, at+"?at=0"), 409, wire.CodeClaimMismatch)
	s.want("no place", s.fetch(n, at), 400, wire.CodeBadRequest)
	s.want("a wait that is too long", s.fetch(n, at+"?at=0&wait=21"), 400, wire.CodeBadRequest)
	s.want("no channel", s.fetch(n, wire.SessionChannelPath(id, "x")+"?at=0"), 400, wire.CodeBadRequest)
	s.want("a negative channel", s.fetch(n, wire.SessionChannelPath(id, "-1")+"?at=0"), 400, wire.CodeBadRequest)
	s.want("no session", s.fetch(n, wire.SessionChannelPath("x", "0")+"?at=0"), 400, wire.CodeBadRequest)
	s.want("an unknown session", s.fetch(n, wire.SessionChannelPath("s-aaaaaaaaaaaaaaaa", "0")+"?at=0"), 410, wire.CodeSessionOver)
	s.want("a gap", s.plainly(n, at+"?at=9", sent.Body()), 409, wire.CodeSessionBroken)
	s.want("no piece", s.plainly(n, at+"?at=7", nil), 400, wire.CodeBadRequest)
	s.want("an unknown mark", s.plainly(n, at+"?at=7", []byte{7}), 400, wire.CodeBadRequest)
	s.want("too much", s.plainly(n, at+"?at=7", make([]byte, pipe.MaxBody+1)), 413, wire.CodeBodyTooLarge)
	head, err := s.direct(&n).Do(newRequest(t, http.MethodHead, s.tls.URL+at+"?at=0", nil))
	if err != nil || head.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: %v, %v", head, err)
	}
	head.Body.Close()
}

// TestSessionRenewal: the first use of a renewed certificate moves the session, and an enrolment anew ends it for the node.
func TestSessionRenewal(t *testing.T) {
	s := newSite(t, nil)
	n := s.active("box")
	id := s.open(n)
	at := wire.SessionChannelPath(id, "0")
	s.wait(n, "?seconds=55&for=sessions")
	next := s.renewed(n)
	s.want("with the old one meanwhile", s.plainly(n, at+"?at=0", pipe.Piece{Data: []byte("a")}.Body()), 200, "ok")
	s.want("with the new one", s.plainly(next, at+"?at=1", pipe.Piece{Data: []byte("b")}.Body()), 200, "ok")
	s.want("with the old one", s.fetch(n, at+"?at=0"), 401, wire.CodeSupersededRetry)
	s.want("with the new one", s.fetch(next, at+"?at=0"), 200, "ok")
	if p, err := s.sessions.Fetch(t.Context(), alice, id, pipe.Main, 0, 0); err != nil || string(p.Data) != "ab" {
		t.Errorf("the operator got %q, %v", p.Data, err)
	}
}
