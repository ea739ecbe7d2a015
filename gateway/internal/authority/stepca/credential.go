package stepca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// lookPause is how long a look at the files is good for.
const lookPause = time.Second

// credential is what the gateway proves to step-ca that it may ask.
type credential struct {
	key   *ecdsa.PrivateKey
	keyID string              // of a JWK provisioner
	chain []*x509.Certificate // of an X5C provisioner, leaf first; nil: JWK
}

// expires is when an X5C credential ends, which no certificate may outlive; false: it does not end.
func (c *credential) expires() (time.Time, bool) {
	if c.chain == nil {
		return time.Time{}, false
	}
	return c.chain[0].NotAfter, true
}

// credentialFiles follows the files, so that an X5C certificate may be renewed under a running gateway. What cannot be used
// leaves the last good one in place.
type credentialFiles struct {
	keyFile, certFile, keyID string
	now                      func() time.Time
	logger                   *slog.Logger

	mu      sync.Mutex
	current *credential
	looked  time.Time
	seen    [2]os.FileInfo
	broken  bool // what is there now was not usable, which is in the log
}

func openCredential(c Config) (*credentialFiles, error) {
	f := &credentialFiles{keyFile: c.KeyFile, certFile: c.CertFile, keyID: c.KeyID, now: c.Now, logger: c.Logger}
	f.seen, f.looked = f.stat(), c.Now()
	var err error
	f.current, err = f.read()
	return f, err
}

// get gives the credential in use.
func (f *credentialFiles) get() *credential {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if since := now.Sub(f.looked); since < 0 || since >= lookPause {
		f.looked = now
		f.follow()
	}
	return f.current
}

// follow reads the files when they changed. Broken ones are read again each time: they may have been caught half written.
func (f *credentialFiles) follow() {
	look := f.stat()
	changed := !sameFile(f.seen[0], look[0]) || !sameFile(f.seen[1], look[1])
	if !changed && !f.broken {
		return
	}
	f.seen = look
	next, err := f.read()
	if err != nil {
		if changed || !f.broken {
			f.logger.Error("the new credential for step-ca cannot be used; the last good one stays in use", "error", err)
		}
		f.broken = true
		return
	}
	f.broken, f.current = false, next
	f.logger.Info("credential for step-ca read again", "file", f.keyFile)
}

func (f *credentialFiles) stat() (out [2]os.FileInfo) {
	for i, name := range [...]string{f.keyFile, f.certFile} {
		if info, err := os.Stat(name); err == nil {
			out[i] = info
		}
	}
	return out
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// read gives the credential that the files hold now. Its errors name the file and hold nothing of a key.
func (f *credentialFiles) read() (*credential, error) {
	text, err := os.ReadFile(f.keyFile)
	if err != nil {
		return nil, fmt.Errorf("the provisioner's key: %w", err)
	}
	key, keyID, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("the provisioner's key, file %s: %w", f.keyFile, err)
	}
	if f.keyID != "" {
		keyID = f.keyID
	}
	if f.certFile == "" {
		if keyID == "" {
			keyID, err = thumbprint(&key.PublicKey)
		}
		return &credential{key: key, keyID: keyID}, err
	}
	if text, err = os.ReadFile(f.certFile); err != nil {
		return nil, fmt.Errorf("the X5C certificate: %w", err)
	}
	chain, err := parseCertificates(text)
	if err == nil {
		err = checkSigner(chain[0], key)
	}
	if err != nil {
		return nil, fmt.Errorf("the X5C certificate, file %s: %w", f.certFile, err)
	}
	return &credential{key: key, chain: chain}, nil
}

// checkSigner demands what step-ca demands of a certificate that signs X5C tokens.
func checkSigner(leaf *x509.Certificate, key *ecdsa.PrivateKey) error {
	switch {
	case !key.PublicKey.Equal(leaf.PublicKey):
		return errors.New("it is not the certificate of the provisioner's key; the leaf stands first")
	case leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return errors.New("it is not for digital signatures, which step-ca demands of one that signs tokens")
	case !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return errors.New("it is not for clients (clientAuth), which step-ca demands of one that signs tokens")
	}
	return nil
}

// parseKey reads a P-256 key from a plain JWK, with its id, or from PEM (PKCS#8 or SEC 1). Its errors hold nothing of it.
func parseKey(text []byte) (*ecdsa.PrivateKey, string, error) {
	text = bytes.TrimSpace(text)
	if len(text) > 0 && text[0] == '{' {
		return parseJWK(text)
	}
	if bytes.HasPrefix(text, []byte("eyJ")) {
		return nil, "", errEncryptedJWK
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, "", errors.New("there is neither a JWK nor a private key in PEM in it")
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue // openssl puts EC PARAMETERS first
		}
		key, err := parsePEMKey(block)
		return key, "", err
	}
}

func parsePEMKey(block *pem.Block) (*ecdsa.PrivateKey, error) {
	var key any
	var err error
	switch {
	case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
		return nil, errors.New("it is encrypted with a password: step crypto change-pass FILE --no-password --insecure gives a plain one")
	case block.Type == "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, errors.New("its PEM block holds no private key that can be read")
	}
	p256, ok := key.(*ecdsa.PrivateKey)
	if !ok || p256.Curve != elliptic.P256() {
		return nil, errNotP256
	}
	return p256, nil
}
