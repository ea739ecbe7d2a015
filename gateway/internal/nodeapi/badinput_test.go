package nodeapi_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

var operator = store.Actor{Name: "operator:socket"}

func (s *site) events(kind string) []store.Event {
	s.t.Helper()
	events, err := s.store.Events(s.t.Context(), store.EventQuery{Kind: kind})
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}

// TestBadRegister: requests whose proof is right, and whose content is refused. None of them uses up the token.
func TestBadRegister(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(nil)
	for _, bad := range []struct {
		name   string
		change func(*wire.RegisterRequest)
		code   string
	}{
		{"another protocol", func(q *wire.RegisterRequest) { q.Protocol = 2 }, wire.CodeBadRequest},
		{"no nonce", func(q *wire.RegisterRequest) { q.Nonce = "" }, wire.CodeBadRequest},
		{"a short nonce", func(q *wire.RegisterRequest) { q.Nonce = "AAAA" }, wire.CodeBadRequest},
		{"a nonce that is not base64", func(q *wire.RegisterRequest) { q.Nonce = "!" + q.Nonce[1:] }, wire.CodeBadRequest},
		{"a nonce of 32 bytes", func(q *wire.RegisterRequest) { q.Nonce = strings.Repeat("A", 43) + "=" }, wire.CodeBadRequest},
		{"no time", func(q *wire.RegisterRequest) { q.Time = time.Time{} }, wire.CodeClockSkew},
		{"no name", func(q *wire.RegisterRequest) { q.Name = "" }, wire.CodeBadName},
		{"control characters in the name", func(q *wire.RegisterRequest) { q.Name = "box\x1b[31m\n" }, wire.CodeBadName},
		{"a NUL in the name", func(q *wire.RegisterRequest) { q.Name = "box\x00" }, wire.CodeBadName},
		{"300 letters", func(q *wire.RegisterRequest) { q.Name = strings.Repeat("n", 300) }, wire.CodeBadName},
		{"a path for a name", func(q *wire.RegisterRequest) { q.Name = "../box" }, wire.CodeBadName},
		{"letters outside ASCII", func(q *wire.RegisterRequest) { q.Name = "knöten" }, wire.CodeBadName},
		{"a label without a key", func(q *wire.RegisterRequest) { q.Labels = map[string]string{"": "x"} }, wire.CodeBadLabel},
		{"a label with a comma", func(q *wire.RegisterRequest) { q.Labels = map[string]string{"a": "x,y"} }, wire.CodeBadLabel},
		{"a label with a line feed", func(q *wire.RegisterRequest) { q.Labels = map[string]string{"a": "x\ny"} }, wire.CodeBadLabel},
		{"a label of 300 letters", func(q *wire.RegisterRequest) { q.Labels = map[string]string{"a": strings.Repeat("x", 300)} },
			wire.CodeBadLabel},
		{"a reserved label", func(q *wire.RegisterRequest) { q.Labels = map[string]string{"tenant": "rival"} }, wire.CodeReservedKey},
		{"65 labels", func(q *wire.RegisterRequest) { q.Labels = manyLabels(65) }, wire.CodeBadLabel},
		{"a provider with a space", func(q *wire.RegisterRequest) { q.Provider = "vast ai" }, wire.CodeBadRequest},
		{"an instance with a quote", func(q *wire.RegisterRequest) { q.InstanceID = `7"` }, wire.CodeBadRequest},
		{"hardware that is no object", func(q *wire.RegisterRequest) { q.Hardware = []byte(`[1]`) }, wire.CodeBadRequest},
		{"hardware nested too deeply", func(q *wire.RegisterRequest) { q.Hardware = nested(17) }, wire.CodeBadRequest},
		{"an agent of 2 KiB", func(q *wire.RegisterRequest) { q.Agent.Version = strings.Repeat("v", 2048) }, wire.CodeBadRequest},
		{"no CSR", func(q *wire.RegisterRequest) { q.CSR = "" }, wire.CodeBadCSR},
	} {
		q := s.application("box", newKey(t))
		bad.change(&q)
		status := http.StatusBadRequest
		if bad.code == wire.CodeClockSkew {
			status = http.StatusUnauthorized
		}
		s.want(bad.name, s.register(c, encode(t, q)), status, bad.code)
	}
	if a := s.register(c, encode(t, s.application("box", newKey(t)))); a.status != http.StatusCreated {
		t.Errorf("the token afterwards: got %d %s, want its use still there", a.status, a.body)
	}
}

func manyLabels(n int) map[string]string {
	labels := map[string]string{}
	for i := range n {
		labels[fmt.Sprintf("l%d", i)] = "x"
	}
	return labels
}

// nested is an object of this many levels.
func nested(levels int) json.RawMessage {
	return json.RawMessage(strings.Repeat(`{"a":`, levels-1) + "{}" + strings.Repeat("}", levels-1))
}

func TestBadCSR(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(nil)
	key := newKey(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	isCA := named("box")
	isCA.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}}
	dns := named("box")
	uri := named("box")
	dns.DNSNames = []string{"gateway.example"}
	uri.URIs = []*url.URL{{Scheme: "spiffe", Host: "test", Path: "/node/n-1"}}
	more := x509.CertificateRequest{Subject: pkix.Name{CommonName: "box", Organization: []string{"root"}}}
	good := newCSR(t, key, named("box"))
	for name, csr := range map[string]string{
		"an RSA key":             newCSR(t, rsaKey, named("box")),
		"an Ed25519 key":         newCSR(t, edKey, named("box")),
		"a P-384 key":            newCSR(t, p384, named("box")),
		"another name":           newCSR(t, key, named("neighbour")),
		"a CA flag":              newCSR(t, key, isCA),
		"a DNS name":             newCSR(t, key, dns),
		"a node's URI":           newCSR(t, key, uri),
		"more than a name":       newCSR(t, key, more),
		"two requests":           good + good,
		"text around it":         "hello\n" + good,
		"another kind of PEM":    strings.ReplaceAll(good, "CERTIFICATE REQUEST", "CERTIFICATE"),
		"a signature that broke": breakBase64(good),
		"nothing PEM":            "hello",
	} {
		q := s.application("box", key)
		q.CSR = csr
		s.want(name, s.register(c, encode(t, q)), http.StatusBadRequest, wire.CodeBadCSR)
	}
}

// breakBase64 changes one character near the end of a PEM block.
func breakBase64(text string) string {
	at := strings.LastIndex(text, "\n-----END") - 12
	other := byte('A')
	if text[at] == other {
		other = 'B'
	}
	return text[:at] + string(other) + text[at+1:]
}

// TestBadBodies are those that cannot be read as JSON, with a right MAC over them.
func TestBadBodies(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(nil)
	good := encode(t, s.application("box", newKey(t)))
	for _, bad := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"nothing", "", 400, wire.CodeBadRequest},
		{"not JSON", "name=box&token=x", 400, wire.CodeBadRequest},
		{"truncated", string(good[:len(good)-1]), 400, wire.CodeBadRequest},
		{"trailing data", string(good) + "{}", 400, wire.CodeBadRequest},
		{"an array", "[" + string(good) + "]", 400, wire.CodeBadRequest},
		{"null", "null", 400, wire.CodeBadRequest},
		{"a number for a name", `{"name":7}`, 400, wire.CodeBadRequest},
		{"bytes that are not UTF-8", strings.Replace(string(good), `"version":"v1"`, "\"version\":\"v\xff\"", 1), 400, wire.CodeBadRequest},
		{"10,000 levels", `{"hardware":` + string(nested(10_000)) + "}", 400, wire.CodeBadRequest},
		{"10,000 levels of arrays", strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), 400, wire.CodeBadRequest},
		{"10,000 levels that never end", strings.Repeat(`{"a":`, 10_000), 400, wire.CodeBadRequest},
		{"a key twice", strings.Replace(string(good), `"name":`, `"name":"other","name":`, 1), 400, wire.CodeBadRequest},
		{"a key in two cases", strings.Replace(string(good), `"name":`, `"NAME":"other","name":`, 1), 400, wire.CodeBadRequest},
		{"a key twice by an escape", strings.Replace(string(good), `"name":`, `"n\u0061me":"other","name":`, 1), 400, wire.CodeBadRequest},
		{"a key twice deep in the hardware", strings.Replace(string(good), `"name":`, `"hardware":{"gpus":[{"index":0,"index":1}]},"name":`, 1),
			400, wire.CodeBadRequest},
		{"a key twice that nobody knows", strings.Replace(string(good), `"name":`, `"x":1,"x":2,"name":`, 1), 400, wire.CodeBadRequest},
		{"just the cap", string(good) + strings.Repeat(" ", wire.MaxRegisterBody-len(good)), 201, "ok"},
		{"one byte over the cap", string(good) + strings.Repeat(" ", wire.MaxRegisterBody+1-len(good)), 413, wire.CodeBodyTooLarge},
	} {
		s.want(bad.name, s.register(c, []byte(bad.body)), bad.status, bad.code)
	}
	later := strings.Replace(string(encode(t, s.application("box2", newKey(t)))), `"name":`, `"of_a_later_version":{"x":1},"name":`, 1)
	s.want("a field of a later version", s.register(s.token(nil), []byte(later)), 201, "ok")
	chunked := func(r *http.Request) { r.ContentLength = -1 } // the length is not known before
	big := []byte(string(good) + strings.Repeat(" ", 10*wire.MaxRegisterBody))
	s.want("over the cap in chunks", s.register(c, big, chunked), 413, wire.CodeBodyTooLarge)
}

func TestBadHeartbeats(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	path := wire.HeartbeatPath(n.id)
	with := func(fields string) string {
		return `{"run_id":"run00001","counter":1,"interval_seconds":30,"health":[]` + fields + `}`
	}
	for _, bad := range []struct {
		name, body string
		code       string
	}{
		{"nothing", "", wire.CodeBadRequest},
		{"null", "null", wire.CodeBadRequest},
		{"truncated", with("")[:20], wire.CodeBadRequest},
		{"not UTF-8", with(",\"hardware\":{\"kernel\":\"\xff\"}"), wire.CodeBadRequest},
		{"no run", `{"counter":1,"interval_seconds":30}`, wire.CodeBadRequest},
		{"a short run", `{"run_id":"short","interval_seconds":30}`, wire.CodeBadRequest},
		{"a run of 65 letters", `{"run_id":"` + strings.Repeat("r", 65) + `","interval_seconds":30}`, wire.CodeBadRequest},
		{"a run with a space", `{"run_id":"run 00001","interval_seconds":30}`, wire.CodeBadRequest},
		{"no interval", `{"run_id":"run00001"}`, wire.CodeBadRequest},
		{"an interval of more than a day", `{"run_id":"run00001","interval_seconds":86401}`, wire.CodeBadRequest},
		{"an interval below zero", `{"run_id":"run00001","interval_seconds":-1}`, wire.CodeBadRequest},
		{"a counter below zero", `{"run_id":"run00001","interval_seconds":30,"counter":-1}`, wire.CodeBadRequest},
		{"a skew that cannot travel", with(`,"skew_ms":9007199254740993`), wire.CodeBadRequest},
		{"an update of a channel with a blank", with(`,"update":{"channel":"a b","seq":1}`), wire.CodeBadRequest},
		{"an update as a list", with(`,"update":[]`), wire.CodeBadRequest},
		{"an agent that is no object", with(`,"agent":"v1"`), wire.CodeBadRequest},
		{"an agent of 2 KiB", with(`,"agent":{"version":"` + strings.Repeat("v", 2048) + `"}`), wire.CodeBadRequest},
		{"a cost that is no object", with(`,"cost":[]`), wire.CodeBadRequest},
		{"17 notices", with(`,"notices":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 17), ",") + `]`), wire.CodeBadRequest},
		{"9 KiB of notices", with(`,"notices":["` + strings.Repeat("x", 9<<10) + `"]`), wire.CodeBadRequest},
		{"17 reasons", `{"run_id":"run00001","interval_seconds":30,"health":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 17), ",") + `]}`,
			wire.CodeBadRequest},
		{"hardware that is no object", with(`,"hardware":7`), wire.CodeBadRequest},
		{"hardware of 65 KiB", with(`,"hardware":{"kernel":"` + strings.Repeat("x", 65<<10) + `"}`), "ok"},
		{"hardware of 17 levels", with(`,"hardware":` + string(nested(17))), wire.CodeBadRequest},
		{"hardware of 10,000 levels", with(`,"hardware":` + string(nested(10_000))), wire.CodeBadRequest},
		{"a list of 16,384 GPUs", with(`,"hardware":{"gpus":[` + strings.Repeat("0,", 16<<10-1) + `0]}`), "ok"},
		{"a list of 16,385 GPUs", with(`,"hardware":{"gpus":[` + strings.Repeat("0,", 16<<10) + `0]}`), wire.CodeBadRequest},
		{"an end that has no beginning", "]]],,", wire.CodeBadRequest},
		{"more than 1 MiB", with(strings.Repeat(" ", 1<<20)), wire.CodeBodyTooLarge},
		{"hardware of 16 levels", with(`,"hardware":` + string(nested(16))), "ok"},
		{"brackets in a text", with(`,"hardware":{"kernel":"` + strings.Repeat(`[\"{`, 20) + `"}`), "ok"},
		{"no hardware", with(`,"hardware":null,"agent":null,"cost":null`), "ok"},
		{"fields of a later protocol", with(`,"weather":"fine"`), "ok"},
	} {
		status := map[string]int{"ok": 200, wire.CodeBadRequest: 400, wire.CodeBodyTooLarge: 413}[bad.code]
		s.want(bad.name, s.plainly(n, path, []byte(bad.body)), status, bad.code)
	}
}

// TestAnotherNodesPath: a node speaks for itself only, whichever way it proves itself.
func TestAnotherNodesPath(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	other := s.enrol("other")
	for _, path := range []string{wire.HeartbeatPath(other.id), wire.LeavePath(other.id), wire.RenewPath(other.id),
		wire.HeartbeatPath("nobody")} {
		s.want(path, s.plainly(n, path, beat(1)), http.StatusForbidden, wire.CodeWrongNode)
		r := newRequest(t, http.MethodPost, s.tls.URL+path, beat(1))
		s.want(path+" directly", s.do(s.direct(&n), r), http.StatusForbidden, wire.CodeWrongNode)
	}
	if got, err := s.fleet.Node(t.Context(), "", other.id); err != nil || got.State != "enrolled" || got.LastSeen != nil {
		t.Errorf("got %+v, %v, want the other node untouched", got, err)
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	s := newSite(t, nil)
	s.want("an unknown path", s.get("/nodes"), http.StatusNotFound, wire.CodeNotFound)
	a := s.get(wire.PathRegister)
	s.want("a wrong method", a, http.StatusMethodNotAllowed, wire.CodeMethodNotAllowed)
	if a.header.Get("Allow") != http.MethodPost {
		t.Errorf("got Allow %q, want POST", a.header.Get("Allow"))
	}
}

// TestTokenUses: a token for two machines takes two.
func TestTokenUses(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(func(q *api.TokenRequest) { q.Uses = 2 })
	for i, want := range []string{"ok", "ok", wire.CodeTokenUsed} {
		if a := s.register(c, encode(t, s.application(fmt.Sprintf("box%d", i), newKey(t)))); a.code() != want {
			t.Errorf("machine %d: got %d %s, want %s", i, a.status, a.body, want)
		}
	}
}
