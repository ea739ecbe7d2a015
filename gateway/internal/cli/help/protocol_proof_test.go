package help_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/authority"
)

// field gives what stands behind a name in a block of "name   value" lines.
func (p protocol) field(example, name string) string {
	p.t.Helper()
	for line := range strings.Lines(p.example(example)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	p.t.Fatalf("the example %s has no %s", example, name)
	return ""
}

func (p protocol) decode(text []byte, into any) {
	p.t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		p.t.Fatalf("%.80s: %v", text, err)
	}
}

func TestProtocolCredentials(t *testing.T) {
	p := readPage(t)
	for example, name := range map[string]string{"token": "token", "bootstrap-token": "token"} {
		token, err := sign.ParseToken(p.field(example, name))
		if err != nil {
			t.Fatalf("%s: %v", example, err)
		}
		key, err := sign.EnrollKey(token.Secret)
		if err != nil || hex.EncodeToString(key) != p.field(example, "key (hex)") || token.Public() != p.field(example, "credential") {
			t.Errorf("%s: key %x, credential %s, %v", example, key, token.Public(), err)
		}
	}
	psk := p.field("psk", "PSK")
	key, err := sign.PSKKey(psk)
	same := hex.EncodeToString(key) == p.field("psk", "key (hex)") && sign.PSKID(key) == p.field("psk", "credential")
	if err != nil || sign.CheckPSK(psk) != nil || !same {
		t.Errorf("the PSK: key %x, credential %s, %v", key, sign.PSKID(key), err)
	}
}

func (p protocol) tokenKey() []byte {
	p.t.Helper()
	key, err := hex.DecodeString(p.field("token", "key (hex)"))
	if err != nil {
		p.t.Fatal(err)
	}
	return key
}

// TestProtocolRegister reads the request as the gateway does, and its answers as the agent does.
func TestProtocolRegister(t *testing.T) {
	p := readPage(t)
	body := p.example("register-body")
	r := p.request("register-request", body)
	presented, err := sign.ParseAuthorization(r.Header.Get("Authorization"))
	if err != nil || presented.CredentialID != p.field("token", "credential") || presented.Verify(p.tokenKey(), []byte(body)) != nil {
		t.Errorf("the Authorization header of %s: %v", presented.CredentialID, err)
	}
	var q wire.RegisterRequest
	if err := sign.DecodeStrict([]byte(body), &q); err != nil || q.Protocol != wire.ProtocolVersion {
		t.Errorf("the register request: %v", err)
	}
	if err := errors.Join(wire.CheckName(q.Name), wire.CheckLabels(q.Labels), wire.CheckInstance(q.Provider, q.InstanceID)); err != nil {
		t.Errorf("the register request: %v", err)
	}
	if r.URL.Path != wire.PathRegister {
		t.Errorf("the request goes to %s", r.URL.Path)
	}
	csr, err := authority.CheckCSR(q.CSR, authority.Subject{Names: []string{q.Name}})
	if err != nil || !p.nodeKey().PublicKey.Equal(csr.PublicKey) {
		t.Errorf("the CSR: %v", err)
	}
	for _, name := range []string{"welcome-answer", "register-refusal-answer"} {
		answer := p.answer(name + "-body")
		head := p.response(name, answer)
		if err := sign.VerifyWelcome(head.Header.Get(wire.HeaderProof), p.tokenKey(), q.Nonce, head.StatusCode, answer); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var refused wire.Error
	if p.decode(p.answer("register-refusal-answer-body"), &refused); refused.Error.Code != wire.CodeClockSkew || refused.Time == nil {
		t.Errorf("the refusal is %+v", refused)
	}
}

func (p protocol) nodeKey() *ecdsa.PrivateKey {
	p.t.Helper()
	block, _ := pem.Decode([]byte(p.example("node-key")))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		p.t.Fatal(err)
	}
	return key.(*ecdsa.PrivateKey)
}

func (p protocol) welcome() (w wire.Welcome) {
	p.t.Helper()
	p.decode(p.answer("welcome-answer-body"), &w)
	return w
}

// TestProtocolWelcome checks what an agent has to check.
func TestProtocolWelcome(t *testing.T) {
	p := readPage(t)
	w := p.welcome()
	key, err := sign.DecodeKey(w.TrustKey)
	if err != nil {
		t.Fatal(err)
	}
	var sealed sign.Envelope
	p.decode(w.Trust, &sealed)
	payload, err := sealed.Open(key, sign.RoleTrust)
	var set wire.TrustSet
	if err != nil || sign.DecodeStrict(payload, &set) != nil || set.AnswerKeys[0] != w.AnswerKey || set.Roots != w.Roots {
		t.Fatalf("the trust set is not good: %v", err)
	}
	if string(payload) != p.example("trust-payload") || string(w.Trust) != p.example("trust-envelope") || sealed.KeyID != sign.KeyID(key) {
		t.Error("the trust set of section 10 is not the one in the welcome")
	}
	leaf := p.chained(w.Certificate, w.Roots)
	uri := "spiffe://" + set.TrustDomain + "/node/" + w.NodeID
	if !p.nodeKey().PublicKey.Equal(leaf.PublicKey) || len(leaf.URIs) != 1 || leaf.URIs[0].String() != uri {
		t.Errorf("the certificate is for %v", leaf.URIs)
	}
}

// chained verifies a node's certificate and gives it.
func (p protocol) chained(chain, roots string) *x509.Certificate {
	p.t.Helper()
	trusted := x509.NewCertPool()
	between := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(roots))
	block, rest := pem.Decode([]byte(chain))
	between.AppendCertsFromPEM(rest)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots: trusted, Intermediates: between, CurrentTime: leaf.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		p.t.Errorf("the certificate of %s: %v", leaf.Subject, err)
	}
	return leaf
}

// TestProtocolSignatures reads each signed request as the gateway does, and its answer as the agent does.
func TestProtocolSignatures(t *testing.T) {
	p := readPage(t)
	w := p.welcome()
	var renewed wire.RenewAnswer
	p.decode(p.answer("renew-answer-body"), &renewed)
	for name, c := range map[string]struct {
		body, path, chain string
		into              any
	}{
		"heartbeat":   {p.example("heartbeat-body"), wire.HeartbeatPath(w.NodeID), w.Certificate, &wire.HeartbeatAnswer{}},
		"renew":       {p.example("renew-body"), wire.RenewPath(w.NodeID), w.Certificate, &wire.RenewAnswer{}},
		"leave":       {p.example("leave-body"), wire.LeavePath(w.NodeID), w.Certificate, &wire.LeaveAnswer{}},
		"adopt":       {p.example("adopt-body"), wire.AdoptPath(w.NodeID), renewed.Certificate, &wire.AdoptAnswer{}},
		"stale-nonce": {p.example("heartbeat-body"), wire.HeartbeatPath(w.NodeID), w.Certificate, &wire.Error{}},
	} {
		r := p.request(name+"-request", c.body)
		s := p.signature(r, c.body, p.chained(c.chain, w.Roots))
		if r.URL.Path != c.path || r.Method != http.MethodPost {
			t.Errorf("%s goes to %s %s", name, r.Method, r.URL.Path)
		}
		answer := p.answer(name + "-answer-body")
		head := p.response(name+"-answer", answer)
		key := must(sign.DecodeKey(w.AnswerKey))
		if err := sign.VerifyAnswer(head.Header.Get(wire.HeaderAnswer), key, s.Nonce, head.StatusCode, answer); err != nil {
			t.Errorf("%s: the answer: %v", name, err)
		}
		p.decode(answer, c.into)
		if head.Header.Get(wire.HeaderEpoch) != w.Epoch || (s.Epoch == w.Epoch) != (name != "stale-nonce") {
			t.Errorf("%s is of the epoch %s", name, s.Epoch)
		}
	}
}

func (p protocol) signature(r *http.Request, body string, leaf *x509.Certificate) *sign.Signature {
	p.t.Helper()
	s, err := sign.ParseRequest(r)
	if err != nil {
		p.t.Fatalf("%s: %v", r.URL, err)
	}
	sum := sha256.Sum256(leaf.Raw)
	if err := s.Verify(r, leaf.PublicKey.(*ecdsa.PublicKey)); err != nil || s.Fingerprint != hex.EncodeToString(sum[:]) {
		p.t.Errorf("%s: the signature by %s: %v", r.URL, s.Fingerprint, err)
	}
	if err := sign.VerifyDigest(r.Header.Get("Content-Digest"), []byte(body)); err != nil {
		p.t.Errorf("%s: the digest: %v", r.URL, err)
	}
	return s
}

// TestProtocolMessages decodes the bodies of requests, and verifies what is shown as text with what is said to be made of it.
func TestProtocolMessages(t *testing.T) {
	p := readPage(t)
	p.decode([]byte(p.example("heartbeat-body")), &wire.HeartbeatRequest{})
	p.decode([]byte(p.example("adopt-body")), &wire.AdoptRequest{})
	var q wire.RenewRequest
	p.decode([]byte(p.example("renew-body")), &q)
	if _, err := authority.CheckCSR(q.CSR, authority.Subject{}); err != nil {
		t.Errorf("the CSR of the renewal: %v", err)
	}
	w := p.welcome()
	head := p.response("heartbeat-answer", p.answer("heartbeat-answer-body"))
	proof := must(base64Decode(head.Header.Get(wire.HeaderAnswer)))
	if !ed25519.Verify(must(sign.DecodeKey(w.AnswerKey)), []byte(p.example("heartbeat-answer-text")), proof) {
		t.Error("Muster-Answer is not a signature over the text that is shown")
	}
	if !strings.HasSuffix(p.example("trust-encoding"), " "+p.example("trust-payload")[:12]) {
		t.Error("the encoding of the trust set does not go over into its payload")
	}
}
