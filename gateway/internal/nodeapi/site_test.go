package nodeapi_test

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/httpserver/origin"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/nodeapi"
	"muster/gateway/internal/release"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/session"
	"muster/gateway/internal/task"
	"muster/store"
)

const (
	epoch = "epoch1"
	grace = 72 * time.Hour
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// site is a gateway's node API with everything real behind it, on a TLS and a plain listener.
type site struct {
	t         testing.TB
	clock     *kit.Clock
	store     *store.Store
	ca        *authority.Authority
	fleet     *fleet.Fleet
	bootstrap *bootstrap.Bootstrap
	desk      *task.Service
	sessions  *session.Service
	artifacts *artifact.Registry
	releases  *release.Service
	config    nodeapi.Config
	handler   http.Handler
	tls       *httptest.Server
	plain     *httptest.Server
}

func newSite(t testing.TB, change func(*nodeapi.Config)) *site {
	t.Helper()
	fresh := store.Options{Path: filepath.Join(t.TempDir(), "muster.db"), MasterKey: bytes.Repeat([]byte{7}, 32)}
	return newSiteOn(t, fresh, epoch, start, change)
}

// newSiteOn is a gateway on a database that may be there already.
func newSiteOn(t testing.TB, o store.Options, epoch string, at time.Time, change func(*nodeapi.Config)) *site {
	t.Helper()
	s := &site{t: t, clock: kit.NewClock(at)}
	o.Now = s.clock.Now
	var err error
	if s.store, err = store.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.store.Close() })
	if s.ca, err = authority.Open(t.Context(), authority.Config{Store: s.store, Now: s.clock.Now, TrustDomain: "test"}); err != nil {
		t.Fatal(err)
	}
	if s.fleet, err = fleet.Open(t.Context(), fleet.Config{Store: s.store, Now: s.clock.Now, RenewGrace: grace}); err != nil {
		t.Fatal(err)
	}
	s.bootstrap = bootstrap.New(bootstrap.Config{Store: s.store, Now: s.clock.Now})
	s.desk, err = task.New(t.Context(), task.Config{Store: s.store, Now: s.clock.Now, Sign: s.ca.SignTask, Keys: s.ca.TaskKeys})
	if err != nil {
		t.Fatal(err)
	}
	s.sessions, err = session.New(t.Context(), session.Config{Store: s.store, Now: s.clock.Now, Sign: s.ca.SignTask, Keys: s.ca.TaskKeys,
		Ref: s.fleet.Ref, Ring: s.desk.Ring})
	if err != nil {
		t.Fatal(err)
	}
	s.openReleases()
	c := nodeapi.Config{
		Fleet: s.fleet, Bootstrap: s.bootstrap, Tasks: s.desk, Sessions: s.sessions, Releases: s.releases, Authority: s.ca, Issuer: s.ca,
		Store: s.store, Now: s.clock.Now,
		Info:    &reply.Info{Epoch: epoch, Now: s.clock.Now, Logger: slog.New(slog.DiscardHandler)},
		Address: origin.Resolver{}.Address, Interval: 30 * time.Second, Version: "v1",
	}
	if change != nil {
		change(&c)
	}
	s.config = c
	s.listen()
	s.tls = httptest.NewUnstartedServer(s.handler)
	s.tls.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true}
	s.tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.tls.StartTLS()
	t.Cleanup(s.tls.Close)
	return s
}

func (s *site) openReleases() {
	s.t.Helper()
	var err error
	s.artifacts, err = artifact.Open(s.t.Context(), artifact.Config{Folder: s.t.TempDir(), Records: s.store.Records(), Now: s.clock.Now})
	if err != nil {
		s.t.Fatal(err)
	}
	s.releases, err = release.Open(s.t.Context(), release.Config{Store: s.store, Artifacts: s.artifacts, Sign: s.ca.SignRelease,
		Keys: s.ca.ReleaseKeys, Now: s.clock.Now})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.releases.Load(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// listen serves the API on a plain listener.
func (s *site) listen() {
	mux := http.NewServeMux()
	api := nodeapi.New(s.config)
	api.Routes(mux)
	entrance := httpserver.New(httpserver.Config{Limits: httpserver.Limits{Body: cmp.Or(s.config.BodyTime, time.Minute)}})
	s.handler = entrance.Handler(api.Guard(s.config.Info.Strict(mux), nodeapi.Doors{}))
	s.plain = httptest.NewServer(s.handler)
	s.t.Cleanup(s.plain.Close)
}

// impatient is the same gateway on another plain listener, where bodies must arrive at once.
func (s *site) impatient() *site {
	hasty := *s
	hasty.config.BodyTime = 20 * time.Millisecond
	hasty.listen()
	return &hasty
}

// answer is what a request got; code, message, hint, epoch and time are a refusal's.
type answer struct {
	status int
	header http.Header
	body   []byte
	wire.Error
}

func (a answer) code() string {
	if a.status < 400 {
		return "ok"
	}
	return a.Error.Error.Code
}

// do sends a request and reads its answer whole.
func (s *site) do(client *http.Client, r *http.Request) answer {
	s.t.Helper()
	response, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	a := answer{status: response.StatusCode, header: response.Header}
	if a.body, err = io.ReadAll(response.Body); err != nil {
		s.t.Fatal(err)
	}
	if a.status >= 400 {
		if err := json.Unmarshal(a.body, &a.Error); err != nil {
			s.t.Fatalf("a refusal that is not JSON: %s", a.body)
		}
	}
	if want := s.config.Info.Epoch; a.header.Get(wire.HeaderEpoch) != want {
		s.t.Errorf("got epoch %q in the header, want %s", a.header.Get(wire.HeaderEpoch), want)
	}
	return a
}

// want checks a refusal: code, status, and that it says what to do.
func (s *site) want(what string, a answer, status int, code string) {
	s.t.Helper()
	if a.status != status || a.code() != code {
		s.t.Errorf("%s: got %d %s, want %d %s", what, a.status, a.body, status, code)
	}
	if a.status >= 400 && (a.Error.Error.Message == "" || a.Error.Error.Hint == "" || a.Time == nil || !a.Time.Equal(s.clock.Now()) ||
		a.Epoch != epoch) {
		s.t.Errorf("%s: got %s, want message, hint, time and epoch", what, a.body)
	}
}

func newRequest(t testing.TB, method, url string, body []byte) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *site) get(path string, header ...string) answer {
	s.t.Helper()
	r := newRequest(s.t, http.MethodGet, s.plain.URL+path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return s.do(http.DefaultClient, r)
}

// credential is a token or PSK as its holder has it.
type credential struct {
	id  string
	key []byte
}

func (s *site) token(change func(*api.TokenRequest)) credential {
	s.t.Helper()
	q := api.TokenRequest{Tenant: "platform"}
	if change != nil {
		change(&q)
	}
	secret, row, err := s.bootstrap.MintToken(s.t.Context(), q, store.Actor{Name: "operator:socket"})
	if err != nil {
		s.t.Fatal(err)
	}
	key, err := sign.EnrollKey(secret.Secret)
	if err != nil {
		s.t.Fatal(err)
	}
	return credential{row.ID, key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newCSR(t testing.TB, key any, template x509.CertificateRequest) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func named(name string) x509.CertificateRequest {
	return x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}
}

func newNonce() string {
	var random [16]byte
	rand.Read(random[:])
	return base64.StdEncoding.EncodeToString(random[:])
}

// application is a register request for a name with a key.
func (s *site) application(name string, key *ecdsa.PrivateKey) wire.RegisterRequest {
	return wire.RegisterRequest{
		Protocol: wire.ProtocolVersion, Name: name, Nonce: newNonce(), Time: s.clock.Now(), CSR: newCSR(s.t, key, named(name)),
		Agent: wire.AgentInfo{Version: "v1", OS: "linux", Arch: "amd64"},
	}
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// register posts a body with a credential's proof and checks the proof of the answer.
func (s *site) register(c credential, body []byte, change ...func(*http.Request)) answer {
	s.t.Helper()
	r := newRequest(s.t, http.MethodPost, s.plain.URL+wire.PathRegister, body)
	r.Header.Set("Authorization", sign.Authorization(c.id, c.key, body))
	for _, f := range change {
		f(r)
	}
	a := s.do(http.DefaultClient, r)
	s.proven(c, body, a)
	return a
}

// proven wants a Muster-Proof that fits the credential, the request's nonce and the answer.
func (s *site) proven(c credential, body []byte, a answer) {
	s.t.Helper()
	var q struct {
		Nonce string `json:"nonce"`
	}
	if json.Unmarshal(body, &q) != nil || len(body) > wire.MaxRegisterBody {
		q.Nonce = ""
	}
	if err := sign.VerifyWelcome(a.header.Get(wire.HeaderProof), c.key, q.Nonce, a.status, a.body); err != nil {
		s.t.Errorf("the answer %d %s is not proven: %v", a.status, a.body, err)
	}
}

// node is an enrolled machine.
type node struct {
	id     string
	name   string
	signer sign.Signer
	chain  string
}

func (s *site) welcome(a answer) wire.Welcome {
	s.t.Helper()
	var w wire.Welcome
	if a.status >= 400 || json.Unmarshal(a.body, &w) != nil {
		s.t.Fatalf("got %d %s, want a welcome", a.status, a.body)
	}
	return w
}

func (s *site) enrol(name string) node {
	s.t.Helper()
	key := newKey(s.t)
	w := s.welcome(s.register(s.token(nil), encode(s.t, s.application(name, key))))
	return node{id: w.NodeID, name: name, chain: w.Certificate, signer: sign.Signer{Key: key, Fingerprint: fingerprint(s.t, w.Certificate)}}
}

func leaf(t testing.TB, chain string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(chain))
	if block == nil {
		t.Fatalf("no certificate in %q", chain)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func fingerprint(t testing.TB, chain string) string {
	t.Helper()
	sum := sha256.Sum256(leaf(t, chain).Raw)
	return hex.EncodeToString(sum[:])
}

// direct is a client that shows the node's certificate to the TLS listener; nil shows none.
func (s *site) direct(n *node) *http.Client {
	s.t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool()}
	c.RootCAs.AddCert(s.tls.Certificate())
	if n != nil {
		c.Certificates = []tls.Certificate{{Certificate: [][]byte{leaf(s.t, n.chain).Raw}, PrivateKey: n.signer.Key}}
	}
	transport := &http.Transport{TLSClientConfig: c}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// signed sends a node's signed request and checks the proof of the answer. What tamper does, it does after the signature.
func (s *site) signed(client *http.Client, base string, n node, path string, body []byte, tamper ...func(*http.Request)) answer {
	s.t.Helper()
	r := newRequest(s.t, http.MethodPost, base+path, body)
	nonce, err := n.signer.Sign(r, body, epoch, s.clock.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range tamper {
		f(r)
	}
	a := s.do(client, r)
	s.answered(nonce, a)
	return a
}

// answered wants a Muster-Answer that fits the request's nonce and the answer.
func (s *site) answered(nonce string, a answer) {
	s.t.Helper()
	key, err := sign.DecodeKey(s.answerKey())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := sign.VerifyAnswer(a.header.Get(wire.HeaderAnswer), key, nonce, a.status, a.body); err != nil {
		s.t.Errorf("the answer %d %s is not proven: %v", a.status, a.body, err)
	}
}

// answerKey is the one that the signed trust set names.
func (s *site) answerKey() string {
	s.t.Helper()
	payload, err := s.ca.TrustSets()[0].Open(s.ca.TrustKey(), sign.RoleTrust)
	var set wire.TrustSet
	if err != nil || sign.DecodeStrict(payload, &set) != nil {
		s.t.Fatal("no trust set")
	}
	return set.AnswerKeys[0]
}

// plainly sends a signed request to the plain listener.
func (s *site) plainly(n node, path string, body []byte, tamper ...func(*http.Request)) answer {
	s.t.Helper()
	return s.signed(http.DefaultClient, s.plain.URL, n, path, body, tamper...)
}

func beat(counter int) []byte {
	return []byte(strings.Replace(`{"run_id":"run00001","counter":N,"interval_seconds":30,"health":[]}`, "N", string(rune('0'+counter)), 1))
}
