package main

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"muster/gateway/internal/kit/lab"
)

const benchEnrols = 1000 // nodes that enrol and renew in one round

// enrolments compares enrolments and renewals with step-ca's. Both are played by the same client: as many nodes, as many
// connections, the same requests in flight. Neither server writes a line a request.
func (m *bench) enrolments(t *table) {
	const enrolments = "enrolments (MAC, durable batch, certificate)"
	const renewals = "renewals, mTLS"
	ca, err := m.stepCA()
	if err != nil {
		why := "step-ca is not here and cannot be built: " + err.Error()
		t.notRun(enrolments, why)
		t.notRun(renewals, why)
		return
	}
	g := m.serve(filepath.Join(m.dir, "enrol"))
	var enrolled, renewed pairs
	for range benchRounds {
		// Each node sends two heartbeats before it renews. Real nodes have reported for hours by then, so their identity is in memory.
		// The write that an identity's first use takes is not part of a renewal.
		ours := m.play(g, "-nodes", decimal(benchEnrols), "-duration", "1m", "-beats", "2", "-transport", "mtls", "-renew")
		theirs := m.run(nil, "-gateway", "https://"+ca.address, "-step-ca", ca.provisioner, "-nodes", decimal(benchEnrols), "-transport",
			"mtls", "-renew")
		enrolled.add(ours["register"].PerSecond, theirs["register"].PerSecond)
		renewed.add(ours["renew"].PerSecond, theirs["renew"].PerSecond)
	}
	const without = "keys, certificate requests, tokens or MACs, and opening connections, on both sides"
	t.compare(enrolments, "/s", enrolled, "step-ca "+lab.StepCAVersion+" signs (JWK token)", limit{least: 1.2}, without)
	t.compare(renewals, "/s", renewed, "step-ca "+lab.StepCAVersion+" renews", limit{least: 0.7}, without)
	g.end()
	ca.kill()
}

// stepCA is a step-ca in a process of its own, with a JWK provisioner and its usual database.
type stepCA struct {
	*child
	address     string
	provisioner string // path of the file that lets the swarm have certificates signed
	dir         string
}

// stepCA starts one. It is built on first use, which takes a minute or two and the network.
func (m *bench) stepCA() (*stepCA, error) {
	m.Helper()
	path, err := lab.Program(lab.StepCA, lab.StepCAVersion)
	if err != nil {
		return nil, err
	}
	ca := &stepCA{child: &child{bench: m}, address: m.freeAddress(), dir: filepath.Join(m.dir, "step")}
	m.must(os.Mkdir(ca.dir, 0o700))
	ca.child = m.child(nil, nil, path, ca.configure())
	ca.start()
	m.untilReady(ca.child, "https://"+ca.address+"/health")
	return ca, nil
}

// configure writes a root, an intermediate, the provisioner and ca.json, and gives the latter's path. Without a logger there,
// step-ca writes no line a request.
func (ca *stepCA) configure() string {
	rootKey := ca.newKey()
	issuerKey := ca.newKey()
	root := ca.issue("root", nil, rootKey, rootKey)
	issuer := ca.issue("intermediate", root, issuerKey, rootKey)
	ca.writePEM("root.crt", "CERTIFICATE", root.Raw)
	ca.writePEM("issuer.crt", "CERTIFICATE", issuer.Raw)
	der, err := x509.MarshalECPrivateKey(issuerKey)
	ca.must(err)
	ca.writePEM("issuer.key", "EC PRIVATE KEY", der)
	key := ca.writeProvisioner(root)
	return ca.writeJSON("ca.json", map[string]any{
		"root": ca.path("root.crt"), "crt": ca.path("issuer.crt"), "key": ca.path("issuer.key"),
		"address": ca.address, "dnsNames": []string{"127.0.0.1"},
		"db":        map[string]string{"type": "badgerv2", "dataSource": ca.path("db")},
		"authority": map[string]any{"provisioners": []any{map[string]any{"type": "JWK", "name": provisionerName, "key": key}}},
	})
}

const provisionerName = "bench"

// writeProvisioner makes the provisioner's key, writes it for the swarm, and gives its public part as a JWK.
func (ca *stepCA) writeProvisioner(root *x509.Certificate) map[string]string {
	key := ca.newKey()
	point, err := key.PublicKey.Bytes()
	ca.must(err)
	b64 := base64.RawURLEncoding.EncodeToString
	x := b64(point[1:33])
	y := b64(point[33:])
	thumb := sha256.Sum256([]byte(`{"crv":"P-256","kty":"EC","x":"` + x + `","y":"` + y + `"}`)) // RFC 7638
	id := b64(thumb[:])
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ca.must(err)
	ca.provisioner = ca.writeJSON("provisioner.json", map[string]any{
		"name": provisionerName, "key_id": id, "key": private,
		"roots": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw})),
	})
	return map[string]string{"use": "sig", "kty": "EC", "kid": id, "crv": "P-256", "alg": "ES256", "x": x, "y": y}
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

func (ca *stepCA) path(name string) string { return filepath.Join(ca.dir, name) }

func (ca *stepCA) writePEM(name, kind string, der []byte) {
	ca.must(os.WriteFile(ca.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (ca *stepCA) writeJSON(name string, value any) string {
	text, err := json.Marshal(value)
	ca.must(err)
	ca.must(os.WriteFile(ca.path(name), text, 0o600))
	return ca.path(name)
}
