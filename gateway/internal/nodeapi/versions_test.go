package nodeapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
)

// oldVersions are the versions whose agents and databases this gateway serves. README.md in that folder says how they are made.
const oldVersions = "../../../testdata/versions"

// exchange is a request of an old agent and the answer that it got from its own gateway.
type exchange struct {
	At     time.Time
	Method string
	URI    string
	Header map[string]string
	Body   string
	Status int
	Proof  map[string]string
	Answer string
}

// past is what is kept of a version.
type past struct {
	site      *site
	exchanges []exchange
	tokens    map[string]string
}

func readPast(t *testing.T, folder, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder, name))
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// relive opens a version's database in this version, at the time of the recording and with the epoch of that gateway.
func relive(t *testing.T, folder string) *past {
	t.Helper()
	p := &past{}
	readPast(t, folder, "exchanges.json", &p.exchanges)
	readPast(t, folder, "tokens.json", &p.tokens)
	key, err := os.ReadFile(filepath.Join(folder, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	master, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(key)))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "muster.db")
	unpack(t, filepath.Join(folder, "muster.db.gz"), file)
	first := p.exchanges[0]
	p.site = newSiteOn(t, store.Options{Path: file, MasterKey: master}, first.Proof[wire.HeaderEpoch], first.At, nil)
	return p
}

func unpack(t *testing.T, from, to string) {
	t.Helper()
	packed, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err == nil {
		err = os.WriteFile(to, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestVersions sends the recorded requests of old agents, byte for byte, to this gateway with the database of their own one. Each gets
// the status that it got then, a proof that the old agent can check, and an answer that the old agent can read.
func TestVersions(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(oldVersions, "*", "exchanges.json"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no old version: %v", err)
	}
	for _, file := range folders {
		folder := filepath.Dir(file)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			p := relive(t, folder)
			for _, e := range p.exchanges {
				p.again(e)
			}
		})
	}
}

// again sends one request as it was.
func (p *past) again(e exchange) {
	s := p.site
	s.t.Helper()
	s.clock.Set(e.At)
	r := newRequest(s.t, e.Method, s.plain.URL+e.URI, []byte(e.Body))
	for name, value := range e.Header {
		r.Header.Set(name, value)
	}
	a := s.do(http.DefaultClient, r)
	what := e.Method + " " + e.URI
	if a.status != e.Status {
		s.t.Fatalf("%s: got %d %s\nwant %d %s", what, a.status, a.body, e.Status, e.Answer)
	}
	if err := p.proven(e, a); err != nil {
		s.t.Errorf("%s: the old agent does not believe the answer: %v", what, err)
	}
	for _, wrong := range misread([]byte(e.Answer), a.body) {
		s.t.Errorf("%s: %s\nin %s\nwas %s", what, wrong, a.body, e.Answer)
	}
}

// proven checks an answer as the old agent does: with its token, or with the answer key that it has.
func (p *past) proven(e exchange, a answer) error {
	if e.Proof[wire.HeaderProof] == "" {
		signature, err := sign.ParseRequest(&http.Request{Method: e.Method, Header: http.Header{
			"Signature-Input": {e.Header["Signature-Input"]}, "Signature": {e.Header["Signature"]},
			"Content-Digest": {e.Header["Content-Digest"]},
		}})
		if err != nil {
			return err
		}
		key, err := sign.DecodeKey(p.site.answerKey())
		if err != nil {
			return err
		}
		return sign.VerifyAnswer(a.header.Get(wire.HeaderAnswer), key, signature.Nonce, a.status, a.body)
	}
	var q struct{ Nonce string }
	if err := json.Unmarshal([]byte(e.Body), &q); err != nil {
		return err
	}
	token, err := sign.ParseToken(p.tokens["late"])
	if err != nil {
		return err
	}
	key, err := sign.EnrollKey(token.Secret)
	if err != nil {
		return err
	}
	return sign.VerifyWelcome(a.header.Get(wire.HeaderProof), key, q.Nonce, a.status, a.body)
}

// misread says what an old agent would not find, or would misread, in an answer. It knows the members of the answer that it got from its
// own gateway, it ignores others, and encoding/json ignores case.
func misread(was, is []byte) (wrong []string) {
	if len(was) == 0 && len(is) == 0 {
		return nil
	}
	var then, now any
	if err := json.Unmarshal(was, &then); err != nil {
		return []string{err.Error()}
	}
	if err := json.Unmarshal(is, &now); err != nil {
		return []string{err.Error()}
	}
	return differs("the answer", then, now)
}

// fixed are members whose value the old agent knows already. Another value would confuse it.
func fixed(name string) bool {
	switch name {
	case "protocol", "name", "tenant", "state", "generation", "interval_seconds", "gpus_expected", "roots", "trust_key",
		"answer_key", "signing_key_id", "trust", "code", "epoch":
		return true
	}
	return false
}

func differs(where string, then, now any) (wrong []string) {
	if reflect.TypeOf(then) != reflect.TypeOf(now) {
		return []string{fmt.Sprintf("%s is %T, and was %T", where, now, then)}
	}
	old, ok := then.(map[string]any)
	if !ok {
		return nil
	}
	for name, value := range old {
		at := where + "." + name
		got, there := now.(map[string]any)[name]
		switch {
		case !there:
			wrong = append(wrong, at+" is missing")
		case fixed(name) && !reflect.DeepEqual(value, got):
			wrong = append(wrong, fmt.Sprintf("%s is %v, and was %v", at, got, value))
		default:
			wrong = append(wrong, differs(at, value, got)...)
		}
	}
	for name := range now.(map[string]any) {
		for known := range old {
			if name != known && strings.EqualFold(name, known) {
				wrong = append(wrong, fmt.Sprintf("%s.%s would be taken for %s", where, name, known))
			}
		}
	}
	return wrong
}

// TestMisread is a test of the test above.
func TestMisread(t *testing.T) {
	for now, want := range map[string]string{
		`{"state":"active","tasks":3,"new":{}}`: "", `{"state":"active"}`: "missing", `{"state":"active","tasks":"3"}`: "string",
		`{"state":"ready","tasks":0}`: "was active", `{"state":"active","tasks":0,"TASKS":4}`: "taken for", `[]`: "[]interface", `x`: "invalid",
	} {
		got := strings.Join(misread([]byte(`{"state":"active","tasks":1}`), []byte(now)), " ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", now, got, want)
		}
	}
}

// TestNewerAgents: an agent of a later version says more than this gateway knows. It is served as if it had not. Only an agent
// of a later protocol is refused when it joins, because this gateway may misread it, and is told what to do.
func TestNewerAgents(t *testing.T) {
	s := newSite(t, nil)
	key := newKey(t)
	token := s.token(nil)
	more := func(body []byte) []byte {
		return bytes.Replace(body, []byte("{"), []byte(`{"later":{"deep":[1,{"x":null}]},"also":"text",`), 1)
	}
	q := s.application("newer", key)
	q.Protocol = wire.ProtocolVersion + 1
	refused := s.register(token, more(encode(t, q)))
	s.want("a later protocol", refused, http.StatusBadRequest, wire.CodeBadRequest)
	if text := string(refused.body); !strings.Contains(text, "protocol") || !strings.Contains(text, "GET /agent") {
		t.Errorf("the refusal does not say what to do: %s", text)
	}
	q.Protocol = wire.ProtocolVersion
	q.Nonce = newNonce()
	w := s.welcome(s.register(token, more(encode(t, q))))
	n := node{id: w.NodeID, name: "newer", chain: w.Certificate, signer: sign.Signer{Key: key, Fingerprint: fingerprint(t, w.Certificate)}}
	for i, update := range []string{
		`{"channel":"stable","seq":7,"phase":"rehearsing","code":"moon_phase","about":8,"release":"sha256:` +
			strings.Repeat("ab", 32) + `","later":[1]}`,
		`{"channel":"stable","seq":9223372036854775807,"later":{"x":1}}`, `{}`,
	} {
		body := strings.Replace(string(beat(i+1)), "{", `{"update":`+update+`,"health_later":["x"],`, 1)
		a := s.plainly(n, wire.HeartbeatPath(n.id), more([]byte(body)))
		s.want("heartbeat with "+update, a, http.StatusOK, "ok")
	}
	waited, _ := s.wait(n, "?seconds=0")
	s.want("a task's wait", waited, http.StatusNoContent, "ok")
}
