// Package identity keeps what makes a machine a node: its key, its certificate and what it knows about its gateway.
//
// Key and certificate stand in one file that is replaced atomically, so no crash leaves a pair that does not fit. A key is saved
// before the agent asks for its certificate, and a retry uses the same key: so the gateway recognises the retry. Nothing here ever
// deletes a key that might still be good.
//
// Enrol turns a credential into an identity: one handshake, proven on both sides, in which no secret crosses the wire.
//
// The node makes its key and saves it before it asks. The request carries a MAC over its bytes. The gateway's answer carries a MAC
// over its own bytes and the request's nonce. An answer without a good MAC may come from anybody and changes nothing. After a
// failure or a crash the node asks again with the same key. The gateway knows the key and gives the answer that it recorded.
//
// FollowTrust follows the gateway's trust sets: which roots and which keys a node believes.
//
// Anybody may answer when a node fetches the sets, so only signatures count. The key that a set names signs the next set. The first
// link is the set that the node pinned when it enrolled, and the numbers have no gap. A node that slept through any number of
// rotations therefore reaches the newest set. Nobody can take it back to an older one.
package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// State is the content of identity.json.
type State struct {
	Version    int     `json:"version"` // of this format
	NodeID     string  `json:"node_id,omitempty"`
	Name       string  `json:"name,omitempty"`       // as the gateway said last
	Asked      string  `json:"asked_name,omitempty"` // what this machine would be called by itself, when it enrolled
	Tenant     string  `json:"tenant,omitempty"`
	Enrolment  string  `json:"enrolment,omitempty"` // the gateway's name for this enrolment
	Provider   string  `json:"provider,omitempty"`
	InstanceID string  `json:"instance_id,omitempty"`
	Current    *Pair   `json:"current,omitempty"`  // nil: not enrolled yet
	Previous   *Pair   `json:"previous,omitempty"` // the pair before, for a gateway that forgot the current one
	Pending    string  `json:"pending,omitempty"`  // PKCS#8 PEM of a key that waits for its certificate
	Gateway    Gateway `json:"gateway"`
}

// NameFor returns the name to enrol under again, for a machine that would be called own by itself. The gateway may have given the node
// another name than it asked for, or have renamed it since. That name counts, until the machine is given another name of its own.
func (s State) NameFor(own string) string {
	if s.Current != nil && s.Asked == own && s.Name != "" {
		return s.Name
	}
	return own
}

// Pair is a key with its certificate.
type Pair struct {
	Key         string    `json:"key"`         // PKCS#8 PEM
	Certificate string    `json:"certificate"` // PEM, leaf first
	Generation  int       `json:"generation"`
	IssuedAt    time.Time `json:"issued_at"` // by the gateway's clock; NotBefore lies before it
}

// Gateway is what the node learned about its gateway when it enrolled, all of it proven.
type Gateway struct {
	URL             string          `json:"url"`
	Roots           string          `json:"roots"`       // PEM bundle
	TrustKey        string          `json:"trust_key"`   // base64 Ed25519: signs the next set
	Trust           json.RawMessage `json:"trust"`       // the newest signed set
	AnswerKeys      []string        `json:"answer_keys"` // base64 Ed25519
	GPUsExpected    int             `json:"gpus_expected,omitempty"`
	Channel         string          `json:"channel,omitempty"`
	ChannelSequence int64           `json:"channel_sequence,omitempty"`
	IntervalSeconds int             `json:"interval_seconds,omitempty"`
	Gateways        []string        `json:"gateways,omitempty"`     // URLs of all gateways that lead to this one
	Last            string          `json:"last_gateway,omitempty"` // the one of them where the node was heard last; empty: URL
}

// formatVersion grows when an older agent would misread the file.
const formatVersion = 1

// Secrets returns the private keys in the state, for the code that masks secrets. The PEM BEGIN and END lines are left out.
func (s State) Secrets() []string {
	secrets := []string{keyLines(s.Pending)}
	for _, pair := range []*Pair{s.Current, s.Previous} {
		if pair != nil {
			secrets = append(secrets, keyLines(pair.Key))
		}
	}
	return secrets
}

// keyLines is a PEM block without its first and last line, which are no secrets.
func keyLines(block string) string {
	var kept strings.Builder
	for line := range strings.Lines(block) {
		if !strings.HasPrefix(line, "-----") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// NewKey makes a P-256 key and its PEM form.
func NewKey() (*ecdsa.PrivateKey, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, "", err
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}

// ParseKey reads a P-256 key from PKCS#8 PEM. Its errors never hold any of the text.
func ParseKey(text string) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no PEM private key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("no PKCS#8 private key")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("not a P-256 key")
	}
	return key, nil
}

// CSR asks for a certificate for the key, in PEM. It names nothing: the gateway decides who the node is.
func CSR(key *ecdsa.PrivateKey) (string, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

// TLS returns the pair in the form that crypto/tls takes, with its Leaf.
func (p Pair) TLS() (tls.Certificate, error) {
	key, err := ParseKey(p.Key)
	if err != nil {
		return tls.Certificate{}, err
	}
	chain, err := ParseCertificates(p.Certificate)
	if err != nil {
		return tls.Certificate{}, err
	}
	if !key.PublicKey.Equal(chain[0].PublicKey) {
		return tls.Certificate{}, errors.New("key and certificate do not belong together")
	}
	pair := tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, certificate := range chain {
		pair.Certificate = append(pair.Certificate, certificate.Raw)
	}
	return pair, nil
}

// ParseCertificates reads a PEM bundle of at least one certificate and nothing else.
func ParseCertificates(bundle string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	rest := []byte(bundle)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("a PEM block that is no certificate")
		}
		out = append(out, certificate)
	}
	if len(out) == 0 {
		return nil, errors.New("no PEM certificate")
	}
	return out, nil
}

// pool makes a pool of a bundle.
func pool(bundle string) (*x509.CertPool, error) {
	roots, err := ParseCertificates(bundle)
	if err != nil {
		return nil, fmt.Errorf("root bundle: %w", err)
	}
	out := x509.NewCertPool()
	for _, root := range roots {
		out.AddCert(root)
	}
	return out, nil
}
