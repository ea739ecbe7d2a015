package stepca_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/authority/stepca"
	"muster/store"
)

const (
	caURL    = "https://ca.example:9000"
	domain   = "muster-1"
	nodeID   = "n-1"
	nodeURI  = "spiffe://muster-1/node/n-1"
	provider = "nodes"
)

// pair is a certificate and its key.
type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signed gives a certificate for a key; by without a certificate: self-signed.
func signed(t testing.TB, template x509.Certificate, public any, by pair) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent := by.certificate
	if parent == nil {
		parent = &template
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, public, by.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func newCA(t testing.TB, name string, by pair) pair {
	t.Helper()
	key := newKey(t)
	if by.key == nil {
		by.key = key
	}
	now := time.Now()
	return pair{signed(t, x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(90 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, &key.PublicKey, by), key}
}

func newCSR(t testing.TB, template x509.CertificateRequest) *x509.CertificateRequest {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// leafOf is the first certificate of a chain.
func leafOf(t testing.TB, chain string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(chain))
	if block == nil {
		t.Fatalf("no certificate in %q", chain)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

func certificatePEM(c *x509.Certificate) string { return encode("CERTIFICATE", c.Raw) }

func keyPEM(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return encode("PRIVATE KEY", der)
}

// order is a request to sign as it came, with its token taken apart.
type order struct {
	CSR, NotAfter string
	csr           *x509.CertificateRequest
	header        struct {
		Alg, Typ, Kid string
		X5C           []string
	}
	claims struct {
		Iss, Sub, Aud, JTI string
		Sans               []string
		Iat, Nbf, Exp      int64
		Cnf                map[string]string
	}
}

// fakeCA gives answers that a real step-ca cannot be made to give in a test. The laboratory shows that a real one accepts what fakeCA
// accepts.
type fakeCA struct {
	t            testing.TB
	dir          string
	root, issuer pair
	key          *ecdsa.PrivateKey // of the provisioner
	config       stepca.Config
	answer       func(http.ResponseWriter, order)            // nil: sign it
	template     func(*x509.Certificate)                     // changes what is signed
	trip         func(*http.Request) (*http.Response, error) // before the answer; nil answers: go on
	log          *recorder

	mu     sync.Mutex
	orders []order
}

// newFake makes one that is reached without a network.
func newFake(t testing.TB) *fakeCA {
	t.Helper()
	f := &fakeCA{t: t, dir: t.TempDir(), key: newKey(t), root: newCA(t, "root", pair{}), log: &recorder{}}
	f.issuer = newCA(t, "intermediate", f.root)
	f.config = stepca.Config{
		Settings: stepca.Settings{
			URL: caURL, RootFile: f.file("root.pem", certificatePEM(f.root.certificate)), Provisioner: provider,
			KeyFile: f.file("key.pem", keyPEM(t, f.key)),
		},
		TrustDomain: domain, CertTTL: time.Hour,
		Client: &http.Client{Transport: f}, Logger: slog.New(slog.NewTextHandler(f.log, nil)),
	}
	return f
}

// x5c makes the gateway's credential one with a certificate.
func (f *fakeCA) x5c(notAfter time.Time) {
	f.config.CertFile = f.file("cert.pem", certificatePEM(f.signer(notAfter, x509.KeyUsageDigitalSignature, x509.ExtKeyUsageClientAuth)))
}

func (f *fakeCA) signer(notAfter time.Time, use x509.KeyUsage, extended ...x509.ExtKeyUsage) *x509.Certificate {
	return signed(f.t, x509.Certificate{Subject: pkix.Name{CommonName: "gateway"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: notAfter,
		KeyUsage: use, ExtKeyUsage: extended}, &f.key.PublicKey, f.root)
}

func (f *fakeCA) file(name, text string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

func (f *fakeCA) open() *stepca.Issuer {
	f.t.Helper()
	issuer, err := stepca.New(f.config)
	if err != nil {
		f.t.Fatal(err)
	}
	return issuer
}

func (f *fakeCA) issue() (store.Certificate, error) {
	f.t.Helper()
	return f.open().Issue(f.t.Context(), authority.Request{NodeID: nodeID, CSR: newCSR(f.t, x509.CertificateRequest{})})
}

func (f *fakeCA) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.trip != nil {
		if response, err := f.trip(r); response != nil || err != nil {
			return response, err
		}
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Result(), nil
}

func (f *fakeCA) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" {
		_, _ = w.Write([]byte(`{"status":"ok"}`))
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/1.0/sign" || r.Header.Get("Content-Type") != "application/json" {
		f.t.Errorf("request %s %s", r.Method, r.URL)
	}
	o := f.read(r)
	f.mu.Lock()
	f.orders = append(f.orders, o)
	f.mu.Unlock()
	if f.answer != nil {
		f.answer(w, o)
		return
	}
	f.sign(w, o)
}

// read takes an order apart and checks the token's signature.
func (f *fakeCA) read(r *http.Request) (o order) {
	var body struct{ CSR, OTT, NotAfter string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		f.t.Errorf("body: %v", err)
		return o
	}
	o.CSR = body.CSR
	o.NotAfter = body.NotAfter
	if block, _ := pem.Decode([]byte(body.CSR)); block != nil {
		o.csr, _ = x509.ParseCertificateRequest(block.Bytes)
	}
	parts := strings.Split(body.OTT, ".")
	if o.csr == nil || len(parts) != 3 {
		f.t.Errorf("no request or no token: %+v", body)
		return o
	}
	for i, into := range []any{&o.header, &o.claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(raw, into) != nil {
			f.t.Errorf("token part %d: %s", i, raw)
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || len(raw) != 64 || !ecdsa.Verify(&f.key.PublicKey, sum[:], new(big.Int).SetBytes(raw[:32]),
		new(big.Int).SetBytes(raw[32:])) {
		f.t.Errorf("the token's signature is not ES256 by the provisioner's key: %x", raw)
	}
	return o
}

// sign answers as step-ca does.
func (f *fakeCA) sign(w http.ResponseWriter, o order) {
	leaf := certificatePEM(f.leaf(o))
	issuer := certificatePEM(f.issuer.certificate)
	give(w, http.StatusCreated, map[string]any{"crt": leaf, "ca": issuer, "certChain": []string{leaf, issuer}})
}

// leaf is what step-ca makes with its default template and backdating.
func (f *fakeCA) leaf(o order) *x509.Certificate {
	now := time.Now()
	uri, _ := url.Parse(nodeURI)
	template := x509.Certificate{
		Subject: pkix.Name{CommonName: o.claims.Sub}, URIs: []*url.URL{uri}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if f.template != nil {
		f.template(&template)
	}
	var public any = o.csr.PublicKey
	if template.PublicKey != nil {
		public = template.PublicKey
	}
	return signed(f.t, template, public, f.issuer)
}

func (f *fakeCA) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.orders)
}

func give(w http.ResponseWriter, status int, body any) {
	text, _ := json.Marshal(body)
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// refuse is an error in step-ca's form.
func refuse(w http.ResponseWriter, status int, message string) {
	give(w, status, map[string]any{"status": status, "message": message})
}

// recorder is a log that a test reads.
type recorder struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *recorder) count(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), what)
}

// wantError wants an error whose text holds every one of these.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("got no error, want one with %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got error %q, want %q in it", err, part)
		}
	}
}
