package nodeapi_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
)

// serve gives what the handler answers, without a connection.
func (s *site) serve(r *http.Request) answer {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	if a.status >= 400 {
		_ = json.Unmarshal(a.body, &a.Error)
	}
	return a
}

// sound checks what holds for every answer, whatever was asked: the gateway had no fault, and a refusal says what to do.
func sound(t *testing.T, a answer) {
	t.Helper()
	if a.status >= 500 || a.status < 200 {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if a.status >= 400 && (a.Error.Error.Code == "" || a.Error.Error.Message == "" || a.Error.Error.Hint == "") {
		t.Errorf("got %d %s, want code, message and hint", a.status, a.body)
	}
}

// FuzzRegister sends bodies whose proof is right: what a holder of a credential can make of one.
func FuzzRegister(f *testing.F) {
	s := newSite(f, nil)
	c := s.token(func(q *api.TokenRequest) { q.Uses = 100_000 })
	good := string(encode(f, s.application("box", newKey(f))))
	f.Add([]byte(good))
	f.Add([]byte(strings.Replace(good, `"box"`, `"b\u0000x"`, 1)))
	f.Add([]byte(strings.Replace(good, `"name"`, `"NAME"`, 1)))
	f.Add([]byte(strings.Replace(good, `"name"`, `"labels":{"tier":"sovereign","state":"x"},"hardware":{"gpus":[{"uuid":"GPU-1"}]},"name"`,
		1)))
	f.Add([]byte(`{"protocol":1,"nonce":"` + newNonce() +
		`","time":"2026-11-21T12:00:00Z","name":"box","csr":"-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----"}`))
	f.Add([]byte(`{"nonce":"\n201\n","time":"0001-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"token":"mse_abcd_x","psk":null}`))
	f.Add([]byte(`{"hardware":` + strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 101)))
	f.Add([]byte("null"))
	f.Add([]byte("{\"name\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, wire.PathRegister, bytes.NewReader(body))
		r.Header.Set("Authorization", sign.Authorization(c.id, c.key, body))
		a := s.serve(r)
		sound(t, a)
		if a.header.Get(wire.HeaderProof) == "" {
			t.Errorf("%d %s is not proven", a.status, a.body)
		}
	})
}

// FuzzAuthorization sends headers that nobody has proven anything with.
func FuzzAuthorization(f *testing.F) {
	s := newSite(f, nil)
	c := s.token(nil)
	f.Add(sign.Authorization(c.id, c.key, []byte("{}")))
	f.Add(`Muster credential="psk-00c0ffee", mac="AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`)
	f.Add(`Muster credential="", mac=""`)
	f.Add("Bearer mse_abcdefghijkl_0123456789012345678901234567")
	f.Add("")
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest(http.MethodPost, wire.PathRegister, strings.NewReader("{}"))
		r.Header["Authorization"] = []string{header}
		a := s.serve(r)
		sound(t, a)
		if a.status < 400 {
			t.Errorf("%q: got %d", header, a.status)
		}
	})
}

// FuzzSignature sends signature headers as anyone on the network can.
func FuzzSignature(f *testing.F) {
	s := newSite(f, nil)
	n := s.enrol("box")
	path := wire.HeartbeatPath(n.id)
	r := newRequest(f, http.MethodPost, "http://gateway"+path, beat(1))
	if _, err := n.signer.Sign(r, beat(1), epoch, s.clock.Now()); err != nil {
		f.Fatal(err)
	}
	if a := s.plainly(n, path, beat(1)); a.status != http.StatusOK {
		f.Fatalf("the seed's like: got %d %s", a.status, a.body)
	}
	const known = "FINGERPRINT" // stands for the node's, which is another one in every process that takes part
	input := strings.Replace(r.Header.Get("Signature-Input"), n.signer.Fingerprint, known, 1)
	signature := r.Header.Get("Signature")
	digest := r.Header.Get("Content-Digest")
	f.Add(input, signature, strings.Replace(digest, "sha-256", "sha-512", 1))
	f.Add(strings.Replace(input, "epoch1", "epoch0", 1), signature, digest)
	f.Add(strings.Replace(input, `"@query" `, "", 1), signature, digest)
	f.Add(strings.Replace(input, known, strings.Repeat("0", 64), 1), signature, digest)
	f.Add(input+", sig1=()", signature+", sig1=:AA==:", digest)
	f.Add("muster=(", "", "")
	f.Add("a;b=?1", "muster=:AA==:", "sha-256=:AA==:")
	f.Fuzz(func(t *testing.T, input, signature, digest string) {
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(beat(2)))
		r.Header["Signature-Input"] = []string{strings.Replace(input, known, n.signer.Fingerprint, 1)}
		r.Header["Signature"] = []string{signature}
		r.Header["Content-Digest"] = []string{digest}
		a := s.serve(r)
		sound(t, a)
		if a.status < 400 {
			t.Errorf("a forged signature: got %d %s", a.status, a.body)
		}
	})
}

// FuzzHeartbeat sends what a taken-over node could: its identity is good, its body is anything. Whatever is accepted can be
// written, and read again as JSON.
func FuzzHeartbeat(f *testing.F) {
	s := newSite(f, nil)
	n := s.enrol("box")
	proof := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf(f, n.chain)}}
	f.Add([]byte(`{"run_id":"run00001","counter":1,"interval_seconds":30,"skew_ms":-12,` +
		`"health":["probe_hung"],"agent":{"version":"1"},"cost":{"rss_kib":1},` +
		`"hardware":{"probe":{"state":"ok"},"gpus":[{"index":0,"uuid":"GPU-1","name":"NVIDIA H100 80GB HBM3","memory_used_mib":null}]}}`))
	f.Add([]byte(`{"run_id":"run00002","counter":18446744073709551615,"interval_seconds":0.0001,"hardware":{ }}`))
	f.Add([]byte(`{"run_id":"run00002","interval_seconds":1,"notices":["\u0000","\ud800"],"hardware":{"gpus":[{"uuid":"\u0000"}]}}`))
	f.Add([]byte(`{"RUN_ID":"run00003","interval_seconds":86400,"hardware":{"a":"}{","b":[[[[]]]]}}`))
	f.Add([]byte(`{"run_id":"run00001","interval_seconds":1e400}`))
	f.Add([]byte("{\"run_id\":\"run00001\",\"interval_seconds\":1,\"cost\":{\"\xc3\x28\":1}}"))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, wire.HeartbeatPath(n.id), bytes.NewReader(body))
		r.TLS = proof
		a := s.serve(r)
		sound(t, a)
		if a.status >= 400 {
			return
		}
		if err := s.fleet.Flush(t.Context()); err != nil {
			t.Errorf("%q was accepted and cannot be written: %v", body, err)
		}
		got, err := s.fleet.Node(t.Context(), "", n.id)
		if err != nil || got.Hardware != "" && !json.Valid([]byte(got.Hardware)) || got.Agent != "" && !json.Valid([]byte(got.Agent)) {
			t.Errorf("%q: got %+v, %v", body, got, err)
		}
	})
}
