package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/fleet"
	"muster/store"
)

// States of the node that calls.
const (
	nodeActive     = "active"
	nodeBanned     = "banned"
	nodeRetired    = "retired"
	nodeExpired    = "expired"
	nodeSuperseded = "superseded"
	nodeReenrolled = "enrolled again"
	nodeConflicted = "in conflict"
	nodeUnknown    = "unknown"
)

// identity is a node with its key.
type identity struct {
	id, name string
	chain    string
	der      []byte
	signer   sign.Signer
}

func (i *identity) certificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{i.der}, PrivateKey: i.signer.Key}
}

func keyAndRequest(name string) (*ecdsa.PrivateKey, *x509.CertificateRequest, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		return nil, nil, err
	}
	csr, err := x509.ParseCertificateRequest(der)
	return key, csr, err
}

func identityOf(id, name string, key *ecdsa.PrivateKey, c store.Certificate) *identity {
	block, _ := pem.Decode([]byte(c.Chain))
	sum := sha256.Sum256(block.Bytes)
	return &identity{id: id, name: name, chain: c.Chain, der: block.Bytes,
		signer: sign.Signer{Key: key, Fingerprint: hex.EncodeToString(sum[:])}}
}

// enrol makes a node, or gives the one of this name a new enrolment. change sees the certificate before it is recorded.
func (m *matrix) enrol(name string, change func(*store.Certificate)) *identity {
	m.t.Helper()
	key, csr, err := keyAndRequest(name)
	m.must(err)
	admission, err := m.gateway.fleet.Enrol(m.t.Context(), fleet.Applicant{
		Credential: m.token, Request: &wire.RegisterRequest{Protocol: wire.ProtocolVersion, Name: name}, Address: "127.0.0.1",
		KeyHash: authority.KeyHash(csr.RawSubjectPublicKeyInfo),
		Issue: func(ctx context.Context, id string) (store.Certificate, error) {
			issued, err := m.gateway.issuer.Issue(ctx, authority.Request{NodeID: id, CSR: csr})
			change(&issued)
			return issued, err
		},
	})
	m.must(err)
	return identityOf(admission.Node.ID, name, key, admission.Certificate)
}

// nodeIn makes a node in a state.
func (m *matrix) nodeIn(state string) *identity {
	m.t.Helper()
	ctx := m.t.Context()
	by := store.Actor{Name: "test"}
	name := m.name("node")
	if state == nodeUnknown {
		return m.stranger(name)
	}
	i := m.enrol(name, func(c *store.Certificate) {
		if state == nodeExpired {
			c.NotBefore = c.NotBefore.Add(-48 * time.Hour)
			c.NotAfter = time.Now().Add(-time.Hour)
		}
	})
	var err error
	switch state {
	case nodeBanned:
		_, err = m.gateway.fleet.Apply(ctx, "", i.id, fleet.Ban, by)
	case nodeRetired:
		_, err = m.gateway.fleet.Apply(ctx, "", i.id, fleet.Retire, by)
	case nodeConflicted:
		err = m.gateway.store.MoveNode(ctx, store.Move{NodeID: i.id, From: "enrolled", To: "unavailable", At: time.Now(),
			AddReasons: []store.Reason{{Reason: wire.ReasonConflict}}})
	case nodeReenrolled:
		_, err = m.gateway.fleet.AllowRecovery(ctx, "", i.id, api.RecoveryRequest{}, by)
		if err == nil {
			m.enrol(name, func(*store.Certificate) {})
		}
	case nodeSuperseded:
		err = m.supersede(i)
	}
	m.must(err)
	m.gateway.fleet.Forget(i.id)
	return i
}

// supersede lets a node use its next certificate.
func (m *matrix) supersede(i *identity) error {
	ctx := m.t.Context()
	_, csr, err := keyAndRequest(i.name)
	if err != nil {
		return err
	}
	now, err := m.gateway.fleet.Identity(ctx, i.signer.Fingerprint)
	if err != nil {
		return err
	}
	issued, err := m.gateway.issuer.Issue(ctx, authority.Request{NodeID: i.id, CSR: csr})
	if err != nil {
		return err
	}
	next := fleet.Certificate(store.Node{ID: i.id, EnrolmentID: now.Enrolment}, issued, now.Generation+1)
	if err := m.gateway.fleet.AddCertificate(ctx, now, next, "127.0.0.1"); err != nil {
		return err
	}
	pending, err := m.gateway.fleet.Identity(ctx, next.Fingerprint)
	if err != nil {
		return err
	}
	_, err = m.gateway.fleet.Use(ctx, pending, fleet.ForHeartbeat)
	return err
}

// stranger has a certificate that is not of this gateway.
func (m *matrix) stranger(name string) *identity {
	m.t.Helper()
	key, _, err := keyAndRequest(name)
	m.must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	m.must(err)
	chain := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return identityOf("n-0123456789abcdef", name, key, store.Certificate{Chain: chain})
}
