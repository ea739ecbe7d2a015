// Package stepca lets a running step-ca sign the nodes' certificates, in place of the built-in CA. It was checked with step-ca 0.30
// (smallstep certificates).
//
// The gateway has a provisioner's key, and makes a one-time token for each certificate. The token is a JWT. It names the node, its
// SPIFFE URI as the only alternative name, and the hash of the request for which it is good. The node's request is sent unchanged:
// step-ca takes the names from the token, and a request may name none or the same ones. The gateway checks every part of the answer.
//
// A renewal is a new token for a new request. step-ca's own /renew is not used: it keeps the old key, or wants the node's certificate
// on the connection, and step-ca would decide who may renew. The gateway decides that by its record. For the same reason nothing is
// revoked at step-ca. If an answer is lost, the certificate is on no record, and the gateway refuses it.
package stepca

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/store"
)

// connections is how many connections to step-ca there can be at once. They are kept for the next requests.
const connections = 32

// Settings say which step-ca signs, and as whom the gateway asks.
type Settings struct {
	URL         string `flag:"step-ca-url"`         // https://host[:port]; the host must be among dnsNames in step-ca's ca.json
	RootFile    string `flag:"step-ca-root"`        // PEM file with step-ca's root, or several while it changes
	Provisioner string `flag:"step-ca-provisioner"` // its name
	KeyFile     string `flag:"step-ca-key"`         // the provisioner's private key: an EC P-256 key as plain JWK, or in PEM
	CertFile    string `flag:"step-ca-cert"`        // PEM chain for that key: an X5C provisioner; empty: a JWK provisioner
}

// Config is all that an Issuer works with.
type Config struct {
	Settings
	KeyID       string // of a JWK provisioner's key; empty: as in the JWK, else its thumbprint (RFC 7638), as step makes it
	TrustDomain string // SPIFFE trust domain of the nodes' URIs

	CertTTL time.Duration    // of certificates, authority.MinTTL to MaxTTL; 0: authority.DefaultTTL
	Client  *http.Client     // nil: one that believes the roots of RootFile alone
	Now     func() time.Time // nil: time.Now
	Rand    io.Reader        // for token ids; nil: crypto/rand, which signatures always use
	Logger  *slog.Logger     // nil: slog.Default()
}

// Issuer is an authority.Issuer. It is safe for concurrent use. It reads the key and certificate files again when they change.
type Issuer struct {
	config     Config
	base       *url.URL
	roots      []*x509.Certificate
	pool       *x509.CertPool
	credential *authority.FollowedFiles[*credential]
	serverAuth sync.Once // the warning about certificates that are good for servers too
}

var _ authority.Issuer = (*Issuer)(nil)

// New reads the files. It sends nothing to step-ca, which may be away when the gateway starts. Check does that.
func New(c Config) (*Issuer, error) {
	i := &Issuer{config: withDefaults(c)}
	if c.Provisioner == "" || c.TrustDomain == "" {
		return nil, errors.New("step-ca: give the provisioner's name and the trust domain")
	}
	if err := authority.CheckTTL(i.config.CertTTL); err != nil {
		return nil, err
	}
	var err error
	if i.base, err = parseURL(c.URL); err != nil {
		return nil, err
	}
	if i.roots, i.pool, err = readRoots(c.RootFile); err != nil {
		return nil, err
	}
	if i.credential, err = openCredential(i.config); err != nil {
		return nil, err
	}
	if i.config.Client == nil {
		i.config.Client = newClient(i.pool)
	}
	return i, nil
}

func withDefaults(c Config) Config {
	if c.CertTTL == 0 {
		c.CertTTL = authority.DefaultTTL
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" ||
		u.User != nil {
		return nil, errors.New("step-ca's URL is not https://host or https://host:port, with a host from dnsNames in its ca.json")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

func readRoots(file string) ([]*x509.Certificate, *x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("step-ca's root: %w; step ca root FILE fetches it", err)
	}
	roots, err := parseCertificates(text)
	if err != nil {
		return nil, nil, fmt.Errorf("step-ca's root, file %s: %w; step ca root FILE fetches it", file, err)
	}
	pool := x509.NewCertPool()
	for _, root := range roots {
		if !root.IsCA {
			return nil, nil, fmt.Errorf("step-ca's root, file %s: %q is not a CA's certificate; step ca root FILE fetches the right one", file,
				root.Subject)
		}
		pool.AddCert(root)
	}
	return roots, pool, nil
}

// parseCertificates reads PEM text with one or more certificates and nothing else.
func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it holds a PEM block %.40q, want certificates alone", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("a certificate in it: %w", err)
		}
		out = append(out, certificate)
	}
	if len(out) == 0 {
		return nil, errors.New("there is no certificate in PEM in it")
	}
	return out, nil
}

// newClient makes a client that believes only the configured roots, and keeps its connections.
func newClient(roots *x509.CertPool) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	transport.MaxConnsPerHost = connections
	transport.MaxIdleConnsPerHost = connections
	return &http.Client{Transport: transport}
}

// Roots returns the roots of step-ca. The caller must not change them.
func (i *Issuer) Roots() []*x509.Certificate { return i.roots }

// Check asks step-ca for its health. So a wrong URL or root is noticed when the gateway starts.
func (i *Issuer) Check(ctx context.Context) error {
	_, err := i.exchange(ctx, http.MethodGet, "/health", nil, http.StatusOK)
	return i.named(err)
}

// Run logs a warning if step-ca cannot be used when the gateway starts. The gateway works all the same, because enrolled nodes have
// certificates. Then Run waits until ctx ends.
func (i *Issuer) Run(ctx context.Context) error {
	if err := i.Check(ctx); err != nil && ctx.Err() == nil {
		i.config.Logger.Warn("no certificate can be issued at the moment", "error", err)
	}
	<-ctx.Done()
	return nil
}

// Issue lets step-ca certify the request's key for the node. While step-ca is away or has just restarted, it tries again with a fresh
// token, until patience or ctx ends. The chain includes step-ca's root, so that a node that knows only the gateway's roots can check
// it. Errors hold a *wire.ErrorDetail for the node; the reason goes to the log.
func (i *Issuer) Issue(ctx context.Context, r authority.Request) (store.Certificate, error) {
	issued, err := i.issue(ctx, r)
	if err != nil && ctx.Err() == nil {
		i.config.Logger.Warn("step-ca did not certify a node", "node", r.NodeID, "error", err)
	}
	return issued, err
}

func (i *Issuer) issue(ctx context.Context, r authority.Request) (store.Certificate, error) {
	a, err := i.newOrder(r)
	if err != nil {
		return store.Certificate{}, err
	}
	answer, err := i.sign(ctx, a)
	if err != nil {
		return store.Certificate{}, i.named(err)
	}
	issued, err := i.believe(a, answer)
	return issued, i.named(err)
}

// order is what to ask of step-ca for one certificate.
type order struct {
	csr    *x509.CertificateRequest
	nodeID string
	uri    string
	ttl    time.Duration
}

// newOrder checks a request before step-ca gets it. step-ca would refuse these too, but with answers that say less.
func (i *Issuer) newOrder(r authority.Request) (order, error) {
	o := order{csr: r.CSR, nodeID: r.NodeID, ttl: r.TTL}
	if o.ttl == 0 {
		o.ttl = i.config.CertTTL
	}
	if err := authority.CheckTTL(o.ttl); err != nil {
		return o, err
	}
	u := url.URL{Scheme: "spiffe", Host: i.config.TrustDomain, Path: "/node/" + r.NodeID}
	o.uri = u.String()
	if r.NodeID == "" || len(r.NodeID) > wire.MaxNodeID || o.uri != "spiffe://"+i.config.TrustDomain+"/node/"+r.NodeID ||
		strings.ContainsAny(r.NodeID, "/.") {
		return o, fmt.Errorf("node id %.80q cannot stand in a certificate", r.NodeID)
	}
	if r.CSR == nil {
		return o, errors.New("a certificate needs a certificate request")
	}
	if name := r.CSR.Subject.CommonName; name != "" && name != r.NodeID {
		return o, &failure{
			text: fmt.Sprintf("the request's common name %.80q is not the node's id, and step-ca refuses to sign another subject than it asks for",
				name),
			detail: wire.Refuse(wire.CodeBadCSR, "this gateway's certificate authority takes no common name but the node's id",
				"leave the subject of the certificate request empty, as muster-agent does"),

			cause: authority.ErrBadCSR,
		}
	}
	return o, nil
}
