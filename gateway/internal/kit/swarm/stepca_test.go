package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// authorityLike answers like a step-ca. It signs where the provisioner's token is right, and renews where the certificate is its own.
type authorityLike struct {
	t               *testing.T
	key             *ecdsa.PrivateKey // signs certificates, and is the provisioner's too
	certificate     *x509.Certificate
	signed, renewed atomic.Int64
}

func (a *authorityLike) issue(template *x509.Certificate, key any) []byte {
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Minute)
	template.NotAfter = time.Now().Add(time.Hour)
	parent := a.certificate
	if parent == nil {
		parent = template
	}
	return must(x509.CreateCertificate(rand.Reader, template, parent, key, a.key))(a.t)
}

func (a *authorityLike) sign(w http.ResponseWriter, r *http.Request) {
	var q struct{ CSR, OTT string }
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		a.t.Error(err)
	}
	parts := strings.Split(q.OTT, ".")
	signature := must(base64.RawURLEncoding.DecodeString(parts[2]))(a.t)
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	var claims struct{ Iss, Aud, Sub string }
	if err := json.Unmarshal(must(base64.RawURLEncoding.DecodeString(parts[1]))(a.t), &claims); err != nil {
		a.t.Error(err)
	}
	block, _ := pem.Decode([]byte(q.CSR))
	csr := must(x509.ParseCertificateRequest(block.Bytes))(a.t)
	proven := ecdsa.Verify(&a.key.PublicKey, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	if !proven || claims.Iss != "bench" || claims.Aud != "https://"+r.Host+stepSign || claims.Sub != csr.Subject.CommonName ||
		csr.DNSNames[0] != claims.Sub {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	leaf := a.issue(&x509.Certificate{Subject: csr.Subject, DNSNames: csr.DNSNames}, csr.PublicKey)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf}))
	a.signed.Add(1)
	w.WriteHeader(http.StatusCreated)
	w.(http.Flusher).Flush() // the rest comes in chunks, as with a step-ca
	_ = json.NewEncoder(w).Encode(map[string]any{"crt": text, "certChain": []string{text}})
}

func (a *authorityLike) renew(w http.ResponseWriter, r *http.Request) {
	if len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].CheckSignatureFrom(a.certificate) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	a.renewed.Add(1)
	w.WriteHeader(http.StatusCreated)
}

// TestStepCA has certificates signed and renewed, each over the connection that the measurement wants.
func TestStepCA(t *testing.T) {
	a := &authorityLike{t: t, key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	root := a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, &a.key.PublicKey)
	a.certificate = must(x509.ParseCertificate(root))(t)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+stepSign, a.sign)
	mux.HandleFunc("POST "+stepRenew, a.renew)
	server := httptest.NewUnstartedServer(mux)
	server.TLS = &tls.Config{
		ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{{Certificate: [][]byte{root}, PrivateKey: a.key}},
	}
	server.StartTLS()
	defer server.Close()
	path := filepath.Join(t.TempDir(), "provisioner.json")
	text := must(json.Marshal(provisioner{
		Name: "bench", KeyID: "k", Key: must(x509.MarshalPKCS8PrivateKey(a.key))(t),
		Roots: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})),
	}))(t)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, url: server.URL}
	code, report, said := g.swarm("", "-step-ca", path, "-nodes=5", "-conns=2", "-renew")
	if code != exitDone || report["register"].Count != 5 || report["renew"].Count != 5 || a.signed.Load() != 5 || a.renewed.Load() != 5 {
		t.Errorf("exit %d, %+v, signed %d, renewed %d: %s", code, report, a.signed.Load(), a.renewed.Load(), said)
	}
	a.key = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t) // another provisioner's
	code, report, _ = g.swarm("", "-step-ca", path, "-nodes=1")
	if code != exitFailed || report["register"].Refused[codeForeign] != 1 {
		t.Errorf("a refused token: exit %d, %+v", code, report)
	}
	for _, content := range []string{"", "{", "{}"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, said := g.swarm("", "-step-ca", path, "-nodes=1"); code != exitFailed || !strings.Contains(said, path) {
			t.Errorf("%q: exit %d, %q", content, code, said)
		}
	}
}
