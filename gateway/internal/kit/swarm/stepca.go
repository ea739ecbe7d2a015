package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Paths of step-ca's API.
const (
	stepSign  = "/1.0/sign"
	stepRenew = "/1.0/renew"
)

// provisioner is the content of the file of -step-ca: a JWK provisioner, whose key makes the tokens for which step-ca signs.
type provisioner struct {
	Name  string `json:"name"`
	KeyID string `json:"key_id"`
	Key   []byte `json:"key"`   // PKCS #8, of P-256
	Roots string `json:"roots"` // PEM, the step-ca's

	key *ecdsa.PrivateKey
}

func readProvisioner(path string) (provisioner, error) {
	var p provisioner
	text, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(p.Key)
	if err != nil {
		return p, fmt.Errorf("%s: the key: %w", path, err)
	}
	var ok bool
	if p.key, ok = parsed.(*ecdsa.PrivateKey); !ok {
		return p, fmt.Errorf("%s: the key is not an ECDSA key", path)
	}
	return p, nil
}

// playStepCA has a step-ca sign a certificate for each node and renew it once. The requests, the connections and the clock are
// those of a gateway's enrolments and renewals; only the bytes differ.
func (s *swarm) playStepCA(ctx context.Context) error {
	by, err := readProvisioner(s.stepCA)
	if err != nil {
		return err
	}
	if err := s.pin(by.Roots, nil); err != nil {
		return err
	}
	err = s.register(ctx, s.options.nodes, func(n *node) error { return s.writeSigning(n, by) }, (*node).joinStepCA)
	if err != nil || !s.renew {
		return err
	}
	s.connectAll(ctx)
	s.measure(ctx, "renew", false, func(w *worker) {
		w.share(ctx, func(n *node) {
			raw := append(appendHead(nil, s.dialer.host, stepRenew, 0), "\r\n"...)
			w.send(ctx, n, sent{raw: raw})
		})
	})
	s.hangUp()
	return ctx.Err()
}

// writeSigning makes the request to sign, with key, certificate request and one-time token.
func (s *swarm) writeSigning(n *node, by provisioner) (err error) {
	n.name += ".example" // step-ca wants a name in the certificate
	if n.key, err = n.newKey(n.name); err != nil {
		return err
	}
	token, err := by.token(n.name, s.gateway.Scheme+"://"+s.gateway.Host+stepSign)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"csr": n.csr, "ott": token})
	raw := append(appendHead(nil, s.dialer.host, stepSign, len(body)), "\r\n"...)
	n.asks.raw = append(raw, body...)
	return err
}

// token is a one-time token for one name (a JWT, ES256).
func (p provisioner) token(name, audience string) (string, error) {
	var id [16]byte
	rand.Read(id[:])
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": p.Name, "aud": audience, "sub": name, "sans": []string{name}, "jti": hex.EncodeToString(id[:]),
		"iat": now.Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(4 * time.Minute).Unix(),
	})
	if err != nil {
		return "", err
	}
	head, err := json.Marshal(map[string]string{"alg": "ES256", "kid": p.KeyID, "typ": "JWT"})
	if err != nil {
		return "", err
	}
	text := b64url(head) + "." + b64url(claims)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, p.key, sum[:])
	if err != nil {
		return "", err
	}
	var raw [64]byte
	r.FillBytes(raw[:32])
	s.FillBytes(raw[32:])
	return text + "." + b64url(raw[:]), nil
}

func b64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// joinStepCA reads what step-ca answered: the certificates, leaf first.
func (n *node) joinStepCA() error {
	var signed struct {
		Chain []string `json:"certChain"`
	}
	if err := json.Unmarshal(n.answer, &signed); err != nil {
		return fmt.Errorf("the certificate of %s: %w", n.name, err)
	}
	if len(signed.Chain) == 0 {
		return errors.New("step-ca gave no certificate")
	}
	n.direct = true
	return n.adopt(n.key, strings.Join(signed.Chain, ""))
}
