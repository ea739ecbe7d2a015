// Package gatewaytest is a scripted gateway for the tests of the agent's packages. Its cryptography is real: it checks MACs
// and signatures with muster/agent/sign, issues certificates, and proves its answers, unless a script says otherwise.
package gatewaytest

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// Gateway is one scripted gateway. Tests set its exported fields before they use it. Scripts may set them later too.
type Gateway struct {
	CA       *CA
	Now      func() time.Time // the gateway's clock
	TTL      time.Duration    // of node certificates
	Interval int              // seconds, as wished from nodes
	MaxBody  int64            // bytes of a request's body that are read; 0: wire.MaxBody
	Epoch    string
	// Script answers a request instead of the gateway. If it or its result is nil, the gateway gives the regular answer.
	Script func(Request) *Reply
	// Route answers a node's proven request. If it or its result is nil, the gateway answers as to a heartbeat.
	Route func(Request) *Reply
	// Tamper changes an answer after it was proven.
	Tamper func(Request, *Reply)
	// Welcome changes a welcome before it is proven.
	Welcome func(*wire.Welcome)

	Answer ed25519.PrivateKey
	Trust  ed25519.PrivateKey
	Tasks  []ed25519.PrivateKey // whose public keys the first trust set names for tasks
	Sets   []json.RawMessage    // what GET /trust serves, from number 1 on
	Newest int64                // the number of the newest set in answers to heartbeats

	mu          sync.Mutex
	credentials map[string][]byte
	welcomes    map[string][]byte // recorded answers, by the node's public key
	keys        map[string]*ecdsa.PublicKey
	nonces      map[string]bool
	requests    []Request
	generation  int
}

// Request is one request as it arrived.
type Request struct {
	Method, Path string
	Query        url.Values
	Gone         <-chan struct{} // closed when the client does not wait for the answer any more
	Header       http.Header
	Body         []byte
	Peer         *x509.Certificate // of the client's TLS, nil without
	Signature    *sign.Signature   // nil: unsigned
	At           time.Time         // by the gateway's clock
	Came         time.Time         // by the test's own clock, which no test sets
}

// Reply is an answer. Unless Unproven is set, it gets the proof that fits its request.
type Reply struct {
	Status   int
	Header   map[string]string
	Body     []byte
	Unproven bool
	Hangup   bool   // close the connection instead
	Cut      int    // close it after so many bytes of the body; 0: do not
	Whole    []byte // the whole that the body is a part of, for the proof; nil: the body is all
}

// Refusal returns a reply with this code.
func Refusal(status int, code string) *Reply {
	body, _ := json.Marshal(wire.Error{Error: wire.ErrorDetail{Code: code, Message: "because of " + code, Hint: "do something"}})
	return &Reply{Status: status, Body: body}
}

// NotYet returns the refusal of a name that this machine's own former node still has. That node must be silent for seconds more seconds.
func NotYet(seconds int) *Reply {
	body, _ := json.Marshal(wire.Error{Error: wire.ErrorDetail{
		Code: wire.CodeNameInUse, Message: "node gpu-1 of this instance was heard 3s ago", Hint: "do something", RetrySeconds: seconds,
	}})
	return &Reply{Status: 409, Body: body}
}

// New makes a gateway with a CA of its own.
func New(t testing.TB) *Gateway {
	t.Helper()
	_, answer, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, trust, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Gateway{
		CA: NewCA(t, time.Now()), Now: time.Now, TTL: 24 * time.Hour, Epoch: "epoch1", Answer: answer, Trust: trust,
		credentials: map[string][]byte{}, welcomes: map[string][]byte{}, keys: map[string]*ecdsa.PublicKey{}, nonces: map[string]bool{},
	}
}

// Token makes an enrollment token that the gateway knows.
func (g *Gateway) Token(t testing.TB) string {
	t.Helper()
	token, err := sign.NewToken(sign.EnrollmentToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := sign.EnrollKey(token.Secret)
	if err != nil {
		t.Fatal(err)
	}
	g.learn(token.Public(), key)
	return token.Reveal()
}

// PSK makes the gateway know a pre-shared key.
func (g *Gateway) PSK(t testing.TB, psk string) {
	t.Helper()
	key, err := sign.PSKKey(psk)
	if err != nil {
		t.Fatal(err)
	}
	g.learn(sign.PSKID(key), key)
}

// learn makes a credential known, also while the gateway serves: requests of another process come at any time.
func (g *Gateway) learn(id string, key []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.credentials[id] = key
}

// credential is the key of one that is known; nil: it is not.
func (g *Gateway) credential(id string) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.credentials[id]
}

// Requests returns the requests so far whose path ends with suffix, the oldest first.
func (g *Gateway) Requests(suffix string) []Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Request
	for _, r := range g.requests {
		if strings.HasSuffix(r.Path, suffix) {
			out = append(out, r)
		}
	}
	return out
}

// ServeHTTP records a request and answers it.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, cmp.Or(g.MaxBody, wire.MaxBody)))
	if err != nil {
		return
	}
	q := Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Gone: r.Context().Done(), Header: r.Header, Body: body,
		At: g.Now(), Came: time.Now()}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		q.Peer = r.TLS.PeerCertificates[0]
	}
	q.Signature, _ = sign.ParseRequest(r)
	g.mu.Lock()
	g.requests = append(g.requests, q)
	g.mu.Unlock()
	var reply *Reply
	if g.Script != nil {
		reply = g.Script(q)
	}
	if reply == nil {
		reply = g.regular(q, r)
	}
	g.send(w, q, reply)
}

func (g *Gateway) send(w http.ResponseWriter, q Request, reply *Reply) {
	if reply.Hangup {
		panic(http.ErrAbortHandler)
	}
	if reply.Header == nil {
		reply.Header = map[string]string{}
	}
	if !reply.Unproven {
		g.prove(q, reply)
	}
	if g.Tamper != nil {
		g.Tamper(q, reply)
	}
	for name, value := range reply.Header {
		w.Header().Set(name, value)
	}
	if reply.Cut > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(reply.Body)))
		w.WriteHeader(reply.Status)
		w.Write(reply.Body[:reply.Cut])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(reply.Status)
	w.Write(reply.Body)
}

func (g *Gateway) prove(q Request, reply *Reply) {
	if q.Path == wire.PathRegister {
		presented, err := sign.ParseAuthorization(q.Header.Get("Authorization"))
		if key := g.credential(presented.CredentialID); err == nil && key != nil {
			var request wire.RegisterRequest
			json.Unmarshal(q.Body, &request)
			reply.Header[wire.HeaderProof] = sign.WelcomeProof(key, request.Nonce, reply.Status, reply.Body)
		}
		return
	}
	if q.Signature != nil {
		Prove(g.Answer, q, reply)
	}
}

// Prove signs a reply to a signed request with this key.
func Prove(key ed25519.PrivateKey, q Request, reply *Reply) {
	proven := reply.Body
	if reply.Whole != nil {
		proven = reply.Whole
	}
	reply.Header[wire.HeaderAnswer] = sign.SignAnswer(key, q.Signature.Nonce, reply.Status, proven)
}

// regular is what a gateway without a script answers.
func (g *Gateway) regular(q Request, r *http.Request) *Reply {
	switch {
	case q.Path == wire.PathRoots:
		return &Reply{Status: 200, Body: []byte(g.CA.RootPEM()), Unproven: true}
	case q.Path == wire.PathTrust:
		return &Reply{Status: 200, Body: g.JSON(200, map[string]any{"sets": g.Sets}).Body, Unproven: true}
	case q.Path == wire.PathRegister:
		return g.register(q, r)
	}
	if refusal := g.identify(q, r); refusal != nil {
		return refusal
	}
	if strings.HasSuffix(q.Path, "/renew") {
		return g.renew(q)
	}
	if g.Route != nil {
		if reply := g.Route(q); reply != nil {
			return reply
		}
	}
	return g.JSON(200, wire.HeartbeatAnswer{IntervalSeconds: g.Interval, State: wire.StateActive, Epoch: g.Epoch, Time: g.Now().UTC(),
		Trust: g.Newest})
}

// JSON returns a reply with this body.
func (g *Gateway) JSON(status int, v any) *Reply {
	body, _ := json.Marshal(v)
	return &Reply{Status: status, Body: body}
}

// identify judges the proof of a node's request.
func (g *Gateway) identify(q Request, r *http.Request) *Reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := q.Signature
	if s == nil {
		if q.Peer == nil {
			return Refusal(401, wire.CodeNoIdentity)
		}
		return g.known(fingerprint(q.Peer))
	}
	if refusal := g.known(s.Fingerprint); refusal != nil {
		return refusal
	}
	now := g.Now().UTC()
	skew := now.Sub(s.Created).Abs()
	switch {
	case skew > wire.SignatureWindow:
		return g.JSON(401, wire.Error{Error: wire.ErrorDetail{Code: wire.CodeClockSkew}, Time: &now, Epoch: g.Epoch})
	case s.Verify(r, g.keys[s.Fingerprint]) != nil:
		return Refusal(401, wire.CodeBadSignature)
	case s.Epoch != g.Epoch:
		return g.JSON(401, wire.Error{Error: wire.ErrorDetail{Code: wire.CodeStaleNonce}, Epoch: g.Epoch})
	case g.nonces[s.Nonce]:
		return Refusal(401, wire.CodeReplayed)
	case sign.VerifyDigest(q.Header.Get("Content-Digest"), q.Body) != nil:
		return Refusal(400, wire.CodeBadDigest)
	}
	g.nonces[s.Nonce] = true
	return nil
}

func (g *Gateway) known(print string) *Reply {
	if g.keys[print] == nil {
		return Refusal(401, wire.CodeUnknownCertificate)
	}
	return nil
}

func fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	return hex.EncodeToString(sum[:])
}
