package nodeapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/task"
	"muster/store"
)

// active enrols a node and hears it once.
func (s *site) active(name string) node {
	s.t.Helper()
	n := s.enrol(name)
	s.want("heartbeat", s.beats(n), 200, "ok")
	return n
}

func (s *site) order(n node, kind, params string) store.Task {
	s.t.Helper()
	t, _, err := s.desk.Create(s.t.Context(), "", task.Request{Node: n.id, Type: kind, Params: json.RawMessage(params)},
		store.Actor{Name: "operator:socket"})
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

// wait asks for a task with a signature, and gives its id; "": none.
func (s *site) wait(n node, query string) (answer, string) {
	s.t.Helper()
	r := newRequest(s.t, http.MethodGet, s.plain.URL+wire.TaskWaitPath(n.id)+query, nil)
	nonce, err := n.signer.Sign(r, nil, epoch, s.clock.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	a := s.do(http.DefaultClient, r)
	s.answered(nonce, a)
	return a, s.taskID(a)
}

func (s *site) taskID(a answer) string {
	s.t.Helper()
	if a.status != http.StatusOK {
		return ""
	}
	var signed wire.SignedTask
	if err := sign.DecodeStrict(a.body, &signed); err != nil {
		s.t.Fatal(err)
	}
	payload, _, err := sign.OpenTask(signed, s.ca.TaskKeys())
	if err != nil {
		s.t.Fatal(err)
	}
	return payload.TaskID
}

// TestTaskOverHTTP is a task's life as the node's requests make it, by signature and by certificate.
func TestTaskOverHTTP(t *testing.T) {
	s := newSite(t, nil)
	n := s.active("box")
	if a, _ := s.wait(n, "?seconds=0"); a.status != http.StatusNoContent || len(a.body) != 0 {
		t.Errorf("got %d %q, want an answer without a body", a.status, a.body)
	}
	made := s.order(n, wire.TaskDiagCollect, "")
	var hello wire.HeartbeatAnswer
	if err := json.Unmarshal(s.plainly(n, wire.HeartbeatPath(n.id), beat(2)).body, &hello); err != nil || hello.Tasks != 1 {
		t.Errorf("got %+v, %v, want one task", hello, err)
	}
	if _, got := s.wait(n, "?seconds=55"); got != made.ID {
		t.Fatalf("got %q, want %q", got, made.ID)
	}
	s.want("started", s.plainly(n, wire.TaskStartedPath(made.ID), []byte(`{"started_at":"2026-11-21T12:00:00Z","newer":1}`)), 200, "ok")
	a := s.plainly(n, wire.TaskOutputPath(made.ID), []byte(`{"offset":0,"data":"aGVsbG8="}`))
	if s.want("output", a, 200, "ok"); strings.TrimSpace(string(a.body)) != "{}" {
		t.Errorf("got %s", a.body)
	}
	if _, err := s.desk.Cancel(t.Context(), "", made.ID, store.Actor{Name: "operator:socket"}); err != nil {
		t.Fatal(err)
	}
	pulse := newRequest(t, http.MethodPost, s.tls.URL+wire.TaskOutputPath(made.ID), []byte(`{"offset":5}`))
	if a := s.do(s.direct(&n), pulse); strings.TrimSpace(string(a.body)) != `{"cancel":true}` {
		t.Errorf("got %d %s", a.status, a.body)
	}
	end := []byte(`{"status":"canceled","exit_code":null,"output":{"head":"aGVsbG8=","tail":null,"bytes":5,"truncated":false},` +
		`"started_at":"2026-11-21T12:00:00Z","finished_at":"2026-11-21T12:00:00Z"}`)
	for range 2 {
		s.want("result", s.plainly(n, wire.TaskResultPath(made.ID), end), 200, "ok")
	}
	got, err := s.store.Task(t.Context(), "", made.ID)
	if err != nil || got.Status != wire.TaskCanceled {
		t.Errorf("got %+v, %v", got, err)
	}
	s.proof(got, n, end)
	other := s.active("other")
	s.want("another's result", s.plainly(other, wire.TaskResultPath(made.ID), end), 409, wire.CodeClaimMismatch)
	s.want("no such task", s.plainly(n, wire.TaskResultPath("aaaaaaaaaaaaaaaa"), end), 404, wire.CodeNotFound)
}

// proof wants the record to have the signature of the result with all that the signature covers: with them anybody can check it later.
func (s *site) proof(got store.Task, n node, body []byte) {
	s.t.Helper()
	var kept map[string]string
	if err := json.Unmarshal([]byte(got.Proof), &kept); err != nil {
		s.t.Fatalf("the proof %q: %v", got.Proof, err)
	}
	r := newRequest(s.t, kept["method"], "http://any"+kept["path"], nil)
	for _, name := range []string{"content-digest", "signature-input", "signature"} {
		r.Header.Set(name, kept[name])
	}
	signature, err := sign.ParseRequest(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := signature.Verify(r, &n.signer.Key.PublicKey); err != nil {
		s.t.Error(err)
	}
	sum := sha256.Sum256(body)
	want := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	if kept["content-digest"] != want || got.Digest != hex.EncodeToString(sum[:]) {
		s.t.Errorf("the digests are %s and %s", kept["content-digest"], got.Digest)
	}
}

// TestTaskProofOfCertificate: over TLS with the node's certificate there is no signature, so the fingerprint is what is kept.
func TestTaskProofOfCertificate(t *testing.T) {
	s := newSite(t, nil)
	n := s.active("box")
	made := s.order(n, wire.TaskDiagCollect, "")
	client := s.direct(&n)
	a := s.do(client, newRequest(t, http.MethodGet, s.tls.URL+wire.TaskWaitPath(n.id)+"?seconds=0", nil))
	if got := s.taskID(a); got != made.ID {
		t.Fatalf("got %q", got)
	}
	s.want("result", s.do(client, newRequest(t, http.MethodPost, s.tls.URL+wire.TaskResultPath(made.ID),
		[]byte(`{"status":"failed","exit_code":1,"output":{"bytes":0},"finished_at":"2026-11-21T12:00:00Z"}`))), 200, "ok")
	if got, err := s.store.Task(t.Context(), "", made.ID); err != nil || got.Proof != "tls:"+n.signer.Fingerprint {
		t.Errorf("got %q, %v", got.Proof, err)
	}
}

// TestTaskWaitEnds: a second wait of the node ends the first one, and so does the gateway's end.
func TestTaskWaitEnds(t *testing.T) {
	s := newSite(t, nil)
	n := s.active("box")
	first := s.waits(n)
	for ended := false; !ended; {
		select {
		case a := <-first:
			ended = true
			if a.status != http.StatusNoContent {
				t.Errorf("got %d", a.status)
			}
		default:
			if a, _ := s.wait(n, "?seconds=0"); a.status != http.StatusNoContent {
				t.Fatalf("got %d", a.status)
			}
		}
	}
	second := s.waits(n)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.desk.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if a := <-second; a.status != http.StatusNoContent {
		t.Errorf("got %d", a.status)
	}
	if a, _ := s.wait(n, ""); a.status != http.StatusNoContent {
		t.Errorf("a wait at a gateway that stops: %d", a.status)
	}
}

// waits begins a long wait, and gives its answer when it ends.
func (s *site) waits(n node) <-chan answer {
	ended := make(chan answer, 1)
	go func() {
		a, _ := s.wait(n, "?seconds=55")
		ended <- a
	}()
	return ended
}

// TestTaskRefusals: what the routes do not take.
func TestTaskRefusals(t *testing.T) {
	s := newSite(t, nil)
	n := s.active("box")
	other := s.active("other")
	made := s.order(n, wire.TaskDiagCollect, "")
	for _, query := range []string{"?seconds=56", "?seconds=-1", "?seconds=x", "?seconds=1&seconds=2", "?second=1", "?seconds=1&a=1", "?%zz"} {
		a, _ := s.wait(n, query)
		s.want(query, a, 400, wire.CodeBadRequest)
	}
	foreign := newRequest(t, http.MethodGet, s.plain.URL+wire.TaskWaitPath(n.id), nil)
	if _, err := other.signer.Sign(foreign, nil, epoch, s.clock.Now()); err != nil {
		t.Fatal(err)
	}
	s.want("another node's wait", s.do(http.DefaultClient, foreign), 403, wire.CodeWrongNode)
	s.want("nobody's wait", s.do(http.DefaultClient, newRequest(t, http.MethodGet, s.plain.URL+wire.TaskWaitPath(n.id), nil)), 401,
		wire.CodeNoIdentity)
	head := newRequest(t, http.MethodHead, s.plain.URL+wire.TaskWaitPath(n.id), nil)
	if _, err := n.signer.Sign(head, nil, epoch, s.clock.Now()); err != nil {
		t.Fatal(err)
	}
	if response, err := http.DefaultClient.Do(head); err != nil || response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: got %+v, %v", response, err)
	}
	for path, body := range map[string]string{
		wire.TaskStartedPath(made.ID): `{"started_at":1}`, wire.TaskOutputPath(made.ID): `{"offset":0,"offset":1}`,
		wire.TaskResultPath(made.ID): `{"status":"lost"}`,
	} {
		s.want(path, s.plainly(n, path, []byte(body)), 400, wire.CodeBadRequest)
	}
	for _, path := range []string{wire.TaskStartedPath(made.ID), wire.TaskSecretsPath(made.ID)} {
		s.want("before the claim: "+path, s.plainly(n, path, []byte("{}")), 409, wire.CodeClaimMismatch)
	}
	s.want("too large", s.plainly(n, wire.TaskResultPath(made.ID), make([]byte, wire.MaxBody+1)), 413, wire.CodeBodyTooLarge)
	if got, err := s.store.Task(t.Context(), "", made.ID); err != nil || got.Status != wire.TaskQueued {
		t.Errorf("got %+v, %v", got, err)
	}
}
