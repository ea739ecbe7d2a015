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
	"errors"
	"fmt"
	"net"
	"time"

	"muster/agent/sign"
)

// node is one of the nodes that are played. It is for one goroutine at a time.
type node struct {
	name   string
	id     string
	direct bool // over mTLS; else it signs
	key    *ecdsa.PrivateKey
	chain  string // PEM, leaf first
	print  string // the leaf's fingerprint

	runID   string
	counter uint64
	ahead   []ahead  // heartbeats that were signed before the clock started
	conn    *conn    // over mTLS
	from    net.Addr // the address that it connects from over mTLS; nil: the system chooses

	next   *ecdsa.PrivateKey // the key of a renewal
	csr    string            // for key or next, PEM
	asks   sent              // the request to enrol, before the clock starts
	answer []byte            // to an enrolment or a renewal, until the clock has stopped
}

// newRun gives the node a run id, as an agent has one per start.
func (n *node) newRun() {
	var random [8]byte
	rand.Read(random[:])
	n.runID = hex.EncodeToString(random[:])
	n.counter = 0
}

// newKey makes a key and the request to certify it, also for these DNS names.
func (n *node) newKey(dns ...string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := x509.CertificateRequest{Subject: pkix.Name{CommonName: n.name}, DNSNames: dns}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		return nil, err
	}
	n.csr = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	return key, nil
}

// adopt makes a certificate for key the node's identity.
func (n *node) adopt(key *ecdsa.PrivateKey, chain string) error {
	block, _ := pem.Decode([]byte(chain))
	if block == nil {
		return fmt.Errorf("node %s was given no certificate in PEM", n.name)
	}
	sum := sha256.Sum256(block.Bytes)
	n.hangUp()
	n.key = key
	n.chain = chain
	n.print = hex.EncodeToString(sum[:])
	return nil
}

func (n *node) signer() sign.Signer { return sign.Signer{Key: n.key, Fingerprint: n.print} }

func (n *node) hangUp() {
	if n.conn != nil {
		n.conn.Close()
		n.conn = nil
	}
}

// certificate is the node's side of mTLS.
func (n *node) certificate() *tls.Certificate {
	c := &tls.Certificate{PrivateKey: n.key}
	for block, rest := pem.Decode([]byte(n.chain)); block != nil; block, rest = pem.Decode(rest) {
		c.Certificate = append(c.Certificate, block.Bytes)
	}
	return c
}

// connect opens the node's own connection, if there is none. The server's chain to the pinned roots proves every answer on it.
// Without roots the server is not checked: it is a server to compare with.
func (n *node) connect(ctx context.Context, d dialer, roots *x509.CertPool) error {
	if n.conn != nil {
		return nil
	}
	if d.tls == nil {
		return errors.New("a node on mTLS needs https://")
	}
	if roots != nil {
		d.tls = d.tls.Clone()
		d.tls.InsecureSkipVerify = false
		d.tls.RootCAs = roots
	}
	d.from = n.from
	c, err := d.dial(ctx, n.certificate())
	n.conn = c
	return err
}

// connection gives the connection for this node's next request: the node's own over mTLS, else the one that the worker's nodes share.
func (w *worker) connection(ctx context.Context, n *node) (*conn, error) {
	if n.direct {
		roots := w.pinned.roots
		if w.peer {
			roots = nil
		}
		err := n.connect(ctx, w.dialer, roots)
		return n.conn, err
	}
	if w.shared != nil {
		return w.shared, nil
	}
	c, err := w.dialer.dial(ctx, nil)
	w.shared = c
	return c, err
}

func (w *worker) hangUp(n *node) {
	if n.direct {
		n.hangUp()
		return
	}
	if w.shared != nil {
		w.shared.Close()
		w.shared = nil
	}
}

// pause waits for d, or until the run ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
