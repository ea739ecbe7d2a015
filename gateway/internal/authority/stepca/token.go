package stepca

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"time"
)

// tokenLife is how long a one-time token is good for, step's own default.
const tokenLife = 5 * time.Minute

// header is a token's JOSE header (RFC 7515 section 4.1). step-ca finds a JWK provisioner by kid, and an X5C provisioner checks the
// chain.
type header struct {
	Algorithm string   `json:"alg"`
	Type      string   `json:"typ"`
	KeyID     string   `json:"kid,omitempty"`
	Chain     [][]byte `json:"x5c,omitempty"` // DER, in standard base64 as []byte is in JSON
}

// claims are the claims of a token (RFC 7519 section 4.1). step-ca adds sans, and the fingerprint of the request for which the token
// is good.
type claims struct {
	Issuer    string       `json:"iss"`
	Subject   string       `json:"sub"`
	Audience  string       `json:"aud"`
	Names     []string     `json:"sans"`
	IssuedAt  int64        `json:"iat"`
	NotBefore int64        `json:"nbf"`
	Expires   int64        `json:"exp"`
	ID        string       `json:"jti"`
	Confirm   confirmation `json:"cnf"`
}

type confirmation struct {
	Request string `json:"x5rt#S256"`
}

// token makes a one-time token for an order, issued at that moment.
func (i *Issuer) token(o order, c *credential, at time.Time) (string, error) {
	var id [16]byte
	if _, err := io.ReadFull(i.config.Rand, id[:]); err != nil {
		return "", fmt.Errorf("random token id: %w", err)
	}
	sum := sha256.Sum256(o.csr.Raw)
	return signToken(c, claims{
		Issuer: i.config.Provisioner, Subject: o.nodeID, Audience: i.audience(c), Names: []string{o.uri},
		IssuedAt: at.Unix(), NotBefore: at.Unix(), Expires: at.Add(tokenLife).Unix(),
		ID: hex.EncodeToString(id[:]), Confirm: confirmation{base64.RawURLEncoding.EncodeToString(sum[:])},
	})
}

// audience names the route. For an X5C provisioner it also names the provisioner, because such a token has no kid.
func (i *Issuer) audience(c *credential) string {
	u := url.URL{Scheme: i.base.Scheme, Host: i.base.Host, Path: pathSign}
	if c.chain != nil {
		u.Fragment = "x5c/" + i.config.Provisioner
	}
	return u.String()
}

// signToken returns the token in compact form (RFC 7515 section 3.1), signed with ES256 (RFC 7518 section 3.4).
func signToken(c *credential, content claims) (string, error) {
	head := header{Algorithm: "ES256", Type: "JWT", KeyID: c.keyID}
	for _, certificate := range c.chain {
		head.Chain = append(head.Chain, certificate.Raw)
	}
	first, err := json.Marshal(head)
	if err != nil {
		return "", err
	}
	second, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(first) + "." + base64.RawURLEncoding.EncodeToString(second)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, c.key, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	var raw [64]byte
	r.FillBytes(raw[:32])
	s.FillBytes(raw[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(raw[:]), nil
}
