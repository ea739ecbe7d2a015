package authority

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
)

// Files reads the gateway's TLS certificate from two PEM files, and reads them again when they change. If a new pair cannot be used,
// the last good one stays in use. It is safe for concurrent use.
type Files struct {
	pair *FollowedFiles[*tls.Certificate]
}

// OpenFiles reads a certificate (leaf first, then its intermediates) and its key. Its errors name the file. now nil: time.Now; log
// nil: slog.Default().
func OpenFiles(certFile, keyFile string, now func() time.Time, log *slog.Logger) (*Files, error) {
	pair, err := OpenFollowed(Followed[*tls.Certificate]{
		What: "TLS certificate", Names: []string{certFile, keyFile}, Now: now, Logger: log,
		Read: func() (*tls.Certificate, error) { return readPair(certFile, keyFile) },
		Note: func(c *tls.Certificate) []any { return []any{"not_after", c.Leaf.NotAfter} },
	})
	return &Files{pair}, err
}

// GetCertificate returns the certificate, for tls.Config. It looks at the files at most once a second.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.pair.Current(), nil
}

// PinnedPublicKey returns the key of the certificate in use, as curl's --pinnedpubkey takes it.
func (f *Files) PinnedPublicKey() string { return pinnedPublicKey(f.pair.Current().Leaf) }

// Cover returns an error if the certificate is not for one of these hosts: whoever has it has to say so in a new one.
func (f *Files) Cover(hosts []string) (err error) {
	leaf := f.pair.Current().Leaf
	for _, host := range hosts {
		err = errors.Join(err, leaf.VerifyHostname(host))
	}
	return err
}

func readPair(certFile, keyFile string) (*tls.Certificate, error) {
	certificate, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate: %w", err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("TLS key: %w", err)
	}
	if err := checkCertificateText(certificate); err != nil {
		return nil, fmt.Errorf("TLS certificate file %s: %w", certFile, err)
	}
	if !bytes.Contains(key, []byte("PRIVATE KEY-----")) {
		return nil, fmt.Errorf("TLS key file %s: there is no private key in PEM in it", keyFile)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate file %s with key file %s: %w", certFile, keyFile, err)
	}
	return &pair, nil
}

// checkCertificateText returns an error if the certificate is bad. The error of tls.X509KeyPair does not say whether the certificate
// or the key is bad.
func checkCertificateText(text []byte) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		_, err := x509.ParseCertificate(block.Bytes)
		return err
	}
	if strings.Contains(string(text), "-----BEGIN CERTIFICATE") {
		return errors.New("its PEM block is cut off or damaged")
	}
	return errors.New("there is no certificate in PEM in it")
}
