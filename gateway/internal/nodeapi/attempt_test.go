package nodeapi_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/nodeapi"
)

// TestEveryRefusalIsProven: where a request names a credential on record, every answer carries a proof by the credential's key.
func TestEveryRefusalIsProven(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(nil)
	good := encode(t, s.application("box", newKey(t)))
	with := func(change func(*wire.RegisterRequest)) []byte {
		q := s.application("box", newKey(t))
		change(&q)
		return encode(t, q)
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	mac := sign.Authorization(c.id, c.key, good)
	for _, refused := range []struct {
		name   string
		body   []byte
		change func(*http.Request)
		status int
		code   string
	}{
		{"the trail's header", good, header("X-Cluster-Token", "hunter2hunter2hunter2"), 400, wire.CodePlaintextSecret},
		{"an API token in a header", good, header("X-Api-Key", "msa_abcdefghijkl_"+strings.Repeat("x", 28)), 403, wire.CodeTLSRequired},
		{"an enrollment token in a header", good, header("X-Other", "mse_abcdefghijkl_"+strings.Repeat("x", 28)), 403, wire.CodeTokenWrongRoute},
		{"a query", good, func(r *http.Request) { r.URL.RawQuery = "token=mse_abcdefghijkl_" + strings.Repeat("x", 28) }, 400,
			wire.CodePlaintextSecret},
		{"a secret in the body", []byte(`{"nonce":"` + newNonce() + `","psk":"hunter2"}`), nil, 400, wire.CodePlaintextSecret},
		{"a wrong MAC", good, header("Authorization", sign.Authorization(c.id, make([]byte, 32), good)), 401, wire.CodeBadMAC},
		{"half a MAC", good, header("Authorization", mac[:len(mac)-9]+`"`), 401, wire.CodeBadAuthorization},
		{"something more in the header", good, header("Authorization", mac+`, realm="x"`), 401, wire.CodeBadAuthorization},
		{"no MAC", good, header("Authorization", `Muster credential="`+c.id+`"`), 401, wire.CodeBadAuthorization},
		{"another header before", good, func(r *http.Request) { r.Header["Authorization"] = []string{"Basic Ym94", mac} }, 401,
			wire.CodeBadAuthorization},
		{"the header twice", good, func(r *http.Request) { r.Header.Add("Authorization", mac) }, 401, wire.CodeBadAuthorization},
		{"no JSON", []byte("name=box"), nil, 400, wire.CodeBadRequest},
		{"a list", []byte("[]"), nil, 400, wire.CodeBadRequest},
		{"nothing", nil, nil, 400, wire.CodeBadRequest},
		{"another content type", []byte("name=box"), header("Content-Type", "text/plain"), 400, wire.CodeBadRequest},
		{"too large", bytes.Repeat([]byte("x"), wire.MaxRegisterBody+1), nil, 413, wire.CodeBodyTooLarge},
		{"turns out too large", bytes.Repeat([]byte("x"), wire.MaxRegisterBody+1), func(r *http.Request) { r.ContentLength = -1 }, 413,
			wire.CodeBodyTooLarge},
		{"a short nonce", with(func(q *wire.RegisterRequest) { q.Nonce = "AAAA" }), nil, 400, wire.CodeBadRequest},
		{"a wrong clock", with(func(q *wire.RegisterRequest) { q.Time = start.Add(time.Hour) }), nil, 401, wire.CodeClockSkew},
		{"another protocol", with(func(q *wire.RegisterRequest) { q.Protocol = 9 }), nil, 400, wire.CodeBadRequest},
		{"a bad name", with(func(q *wire.RegisterRequest) { q.Name = "a b" }), nil, 400, wire.CodeBadName},
		{"a bad CSR", with(func(q *wire.RegisterRequest) { q.CSR = "x" }), nil, 400, wire.CodeBadCSR},
		{"a bad signature beside", good, header("Signature-Input", "muster=("), 401, wire.CodeBadSignature},
		{"GET", good, func(r *http.Request) { r.Method = http.MethodGet }, 403, wire.CodeTokenWrongRoute},
		{"PUT", good, func(r *http.Request) { r.Method = http.MethodPut }, 403, wire.CodeTokenWrongRoute},
		{"no method of HTTP", good, func(r *http.Request) { r.Method = "ENROL" }, 403, wire.CodeTokenWrongRoute},
		{"PUT with a secret", []byte(`{"nonce":"` + newNonce() + `","psk":"hunter2"}`), func(r *http.Request) { r.Method = http.MethodPut }, 403,
			wire.CodeTokenWrongRoute},
	} {
		t.Run(refused.name, func(t *testing.T) {
			one := *s
			one.t = t
			change := []func(*http.Request){}
			if refused.change != nil {
				change = append(change, refused.change)
			}
			one.want(refused.name, one.register(c, refused.body, change...), refused.status, refused.code)
		})
	}
	_, id, err := s.bootstrap.GeneratePSK(t.Context(), operator)
	if err != nil {
		t.Fatal(err)
	}
	known, err := s.bootstrap.Credential(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	s.want("GET with a PSK", s.register(credential{id, known.Key}, good, func(r *http.Request) { r.Method = http.MethodGet }), 405,
		wire.CodeMethodNotAllowed)
	for range 25 { // beyond what one address may fail
		s.register(c, good, header("Authorization", sign.Authorization(c.id, make([]byte, 32), good)))
	}
	a := s.register(c, good, header("Authorization", sign.Authorization(c.id, make([]byte, 32), good)))
	if s.want("too many", a, 429, wire.CodeTooManyRequests); a.header.Get("Retry-After") != "60" {
		t.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
	}
	good = encode(t, s.application("box", newKey(t)))
	if a := s.register(c, good); a.status != http.StatusCreated {
		t.Errorf("after all of that: %d %s", a.status, a.body)
	}
	s.want("the bytes again", s.register(c, good), 401, wire.CodeReplayed)
}

// TestRefusalsOfABrokenBodyAreProven: the refusal of a body that is slow or breaks off is proven too, though nobody can read its nonce.
func TestRefusalsOfABrokenBodyAreProven(t *testing.T) {
	s := newSite(t, nil).impatient()
	c := s.token(nil)
	body := []byte(`{"nonce":"` + newNonce() + `"}`)
	reader, writer := io.Pipe()
	defer writer.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.plain.URL+wire.PathRegister, reader)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", sign.Authorization(c.id, c.key, body))
	a := s.do(http.DefaultClient, r)
	s.want("slow", a, http.StatusRequestTimeout, wire.CodeSlowBody)
	s.proven(c, nil, a)
}

// TestFaultsAreProven: so is the answer after a fault in the gateway, and to a request that its caller or a shutdown ended.
func TestFaultsAreProven(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(nil)
	body := encode(t, s.application("box", newKey(t)))
	request := func(ctx context.Context, method string) *http.Request {
		r := httptest.NewRequestWithContext(ctx, method, wire.PathRegister, bytes.NewReader(body))
		r.Header.Set("Authorization", sign.Authorization(c.id, c.key, body))
		return r
	}
	answered := func(h http.Handler, r *http.Request) answer {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+wire.PathRegister, func(http.ResponseWriter, *http.Request) { panic("at the disco") })
	a := answered(nodeapi.New(s.config).Guard(s.config.Info.Strict(mux), nodeapi.Doors{}), request(t.Context(), http.MethodPost))
	if s.proven(c, body, a); a.status != http.StatusInternalServerError {
		t.Errorf("a panic: %d %s", a.status, a.body)
	}
	if a := answered(s.handler, request(t.Context(), http.MethodHead)); a.status != http.StatusForbidden {
		t.Errorf("HEAD: %d %s", a.status, a.body)
	} else {
		a.body = nil // which is what a client gets
		s.proven(c, body, a)
	}
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	if a := answered(s.handler, request(t.Context(), http.MethodPost)); a.status < 500 { // nobody has the key that would prove it
		t.Errorf("without a database: %d %s", a.status, a.body)
	}
}
