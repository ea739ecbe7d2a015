package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// stepCA is a step-ca in a process of its own, with a JWK provisioner and its usual database, and clients to it.
type stepCA struct {
	*bench
	url    string
	roots  *x509.CertPool
	key    *ecdsa.PrivateKey // the provisioner's
	keyID  string
	client *http.Client
	names  atomic.Int64
}

const stepClients = 64 // as many as the gateway gets

// stepCA starts one, or gives nil where there is no binary.
func (m *bench) stepCA() *stepCA {
	m.Helper()
	path := os.Getenv("MUSTER_STEP_CA")
	if path == "" {
		found, err := exec.LookPath("step-ca")
		if err != nil {
			return nil
		}
		path = found
	}
	ca := &stepCA{bench: m, key: m.newKey(), roots: x509.NewCertPool()}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	m.must(err)
	address := listener.Addr().String()
	listener.Close()
	ca.url = "https://" + address
	process := exec.Command(path, ca.configure(address))
	var output bytes.Buffer
	process.Stdout, process.Stderr = &output, &output
	m.must(process.Start())
	m.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	ca.client = ca.newClient(nil)
	for range 100 {
		if ca.healthy() {
			return ca
		}
		time.Sleep(100 * time.Millisecond)
	}
	m.Fatalf("step-ca at %s did not come up\n%s", path, output.String())
	return nil
}

func (ca *stepCA) healthy() bool {
	response, err := ca.client.Get(ca.url + "/health")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body) // else the connection is not used again
	return err == nil
}

// configure writes a root, an intermediate and ca.json, and gives the latter's path.
func (ca *stepCA) configure(address string) string {
	dir := filepath.Join(ca.dir, "step")
	ca.must(os.MkdirAll(dir, 0o700))
	rootKey, issuerKey := ca.newKey(), ca.newKey()
	root := ca.issue("root", nil, rootKey, rootKey)
	issuer := ca.issue("intermediate", root, issuerKey, rootKey)
	ca.roots.AddCert(root)
	ca.write(dir, "root.crt", "CERTIFICATE", root.Raw)
	ca.write(dir, "issuer.crt", "CERTIFICATE", issuer.Raw)
	der, err := x509.MarshalECPrivateKey(issuerKey)
	ca.must(err)
	ca.write(dir, "issuer.key", "EC PRIVATE KEY", der)
	point, err := ca.key.PublicKey.Bytes()
	ca.must(err)
	x, y := b64url(point[1:33]), b64url(point[33:])
	thumb := sha256.Sum256([]byte(`{"crv":"P-256","kty":"EC","x":"` + x + `","y":"` + y + `"}`)) // RFC 7638
	ca.keyID = b64url(thumb[:])
	config, err := json.Marshal(map[string]any{
		"root": filepath.Join(dir, "root.crt"), "crt": filepath.Join(dir, "issuer.crt"), "key": filepath.Join(dir, "issuer.key"),
		"address": address, "dnsNames": []string{"127.0.0.1"}, "logger": map[string]string{"format": "text"},
		"db": map[string]string{"type": "badgerv2", "dataSource": filepath.Join(dir, "db")},
		"authority": map[string]any{"provisioners": []any{map[string]any{"type": "JWK", "name": "bench", "key": map[string]string{
			"use": "sig", "kty": "EC", "kid": ca.keyID, "crv": "P-256", "alg": "ES256", "x": x, "y": y,
		}}}},
	})
	ca.must(err)
	path := filepath.Join(dir, "ca.json")
	ca.must(os.WriteFile(path, config, 0o600))
	return path
}

func (ca *stepCA) issue(name string, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	ca.must(err)
	certificate, err := x509.ParseCertificate(der)
	ca.must(err)
	return certificate
}

func (ca *stepCA) write(dir, name, kind string, der []byte) {
	ca.must(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (ca *stepCA) newClient(certificate *tls.Certificate) *http.Client {
	config := &tls.Config{RootCAs: ca.roots}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: stepClients}}
}

// signing is a request to sign, ready to be sent: key, certificate request and token are made before the clock starts.
type signing struct {
	key  *ecdsa.PrivateKey
	body []byte
}

func (ca *stepCA) newSigning() signing {
	name := fmt.Sprintf("node-%d.example", ca.names.Add(1))
	key := ca.newKey()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}, key)
	ca.must(err)
	body, err := json.Marshal(map[string]string{
		"csr": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), "ott": ca.token(name),
	})
	ca.must(err)
	return signing{key, body}
}

// token is a one-time token for one name (a JWT, ES256).
func (ca *stepCA) token(name string) string {
	var id [16]byte
	rand.Read(id[:])
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": "bench", "aud": ca.url + "/1.0/sign", "sub": name, "sans": []string{name}, "jti": hex.EncodeToString(id[:]),
		"iat": now.Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(4 * time.Minute).Unix(),
	})
	ca.must(err)
	text := b64url([]byte(`{"alg":"ES256","kid":"`+ca.keyID+`","typ":"JWT"}`)) + "." + b64url(claims)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, ca.key, sum[:])
	ca.must(err)
	var raw [64]byte
	r.FillBytes(raw[:32])
	s.FillBytes(raw[32:])
	return text + "." + b64url(raw[:])
}

func b64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// round gives how many certificates step-ca signs and how many it renews per second.
func (ca *stepCA) round() (signs, renews float64) {
	waiting := make([]signing, benchEnrols)
	for i := range waiting {
		waiting[i] = ca.newSigning()
	}
	chains := make([]*tls.Certificate, stepClients)
	ca.crowd(func(int) { ca.healthy() }) // opens the connections before the clock starts
	var done atomic.Int64
	started := time.Now()
	ca.crowd(func(client int) {
		for i := client; i < len(waiting); i += stepClients {
			chains[client] = ca.sign(waiting[i], i < stepClients)
			done.Add(1)
		}
	})
	signs = float64(done.Load()) / time.Since(started).Seconds()
	for i := range chains {
		chains[i] = ca.sign(ca.newSigning(), true)
	}
	clients := make([]*http.Client, stepClients)
	ca.crowd(func(client int) { // connect before the clock starts
		clients[client] = ca.newClient(chains[client])
		ca.post(clients[client], "/1.0/renew", nil)
	})
	done.Store(0)
	started = time.Now()
	ca.crowd(func(client int) {
		for time.Since(started) < benchTime {
			ca.post(clients[client], "/1.0/renew", nil)
			done.Add(1)
		}
	})
	renews = float64(done.Load()) / time.Since(started).Seconds()
	for _, c := range clients {
		c.CloseIdleConnections()
	}
	return signs, renews
}

func (ca *stepCA) crowd(work func(client int)) {
	var wait sync.WaitGroup
	for client := range stepClients {
		wait.Go(func() { work(client) })
	}
	wait.Wait()
}

// sign has one certificate made, and reads it where it is wanted.
func (ca *stepCA) sign(s signing, wanted bool) *tls.Certificate {
	answer := ca.post(ca.client, "/1.0/sign", s.body)
	if !wanted {
		return nil
	}
	var signed struct {
		Chain []string `json:"certChain"`
	}
	if err := json.Unmarshal(answer, &signed); err != nil {
		ca.Error(err)
	}
	made := &tls.Certificate{PrivateKey: s.key}
	for _, text := range signed.Chain {
		if block, _ := pem.Decode([]byte(text)); block != nil {
			made.Certificate = append(made.Certificate, block.Bytes)
		}
	}
	return made
}

func (ca *stepCA) post(client *http.Client, path string, body []byte) []byte {
	response, err := client.Post(ca.url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		ca.Error(err)
		return nil
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusCreated {
		ca.Errorf("step-ca: %s: %v %.300s", response.Status, err, answer)
	}
	return answer
}
