package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"muster/agent/disk"
)

// Files of a directory that keeps a root out of the gateway.
const (
	RootKeyFile         = "root.key" // PKCS#8 PEM, mode 0600
	RootCertificateFile = "root.pem"
)

// NewRootDir makes a root for a trust domain in a directory that has none. It returns its certificate (PEM) for AddRoot. now may be
// nil: time.Now.
func NewRootDir(dir, domain string, now func() time.Time) (string, error) {
	if !validDomain(domain) {
		return "", fmt.Errorf("trust domain %.80q cannot stand in a certificate", domain)
	}
	if now == nil {
		now = time.Now
	}
	value, err := newRoot(domain, now(), rand.Reader)
	if err != nil {
		return "", err
	}
	root, err := parseLevel(value)
	if err != nil {
		return "", err
	}
	return encodeCertificate(root.certificate.Raw), writeRootDir(nil, dir, root)
}

// writeRootDir refuses to replace a root: its key may be the only one.
func writeRootDir(steps disk.Steps, dir string, root level) error {
	if err := steps.MakeFolders(dir, 0o700); err != nil {
		return err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(root.key)
	if err != nil {
		return err
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	if err := writeNew(steps, filepath.Join(dir, RootKeyFile), key, 0o600); err != nil {
		return err
	}
	return writeNew(steps, filepath.Join(dir, RootCertificateFile), []byte(encodeCertificate(root.certificate.Raw)), 0o644)
}

// writeNew writes a new file. An existing file with the same content is accepted: an earlier try stopped after writing it, maybe before its
// name was on the disk.
func writeNew(steps disk.Steps, path string, content []byte, mode os.FileMode) error {
	err := steps.Create(path, mode, content)
	if errors.Is(err, os.ErrExist) {
		if there, failed := os.ReadFile(path); failed == nil && string(there) == string(content) {
			return steps.SyncFolder("the folder of "+filepath.Base(path), filepath.Dir(path))
		}
		return fmt.Errorf("%s is there already and is left as it is; name another directory", path)
	}
	return err
}

// readRootDir reads a root that writeRootDir wrote.
func readRootDir(dir string) (level, error) {
	key, err := os.ReadFile(filepath.Join(dir, RootKeyFile))
	if err != nil {
		return level{}, fmt.Errorf("the root's key: %w", err)
	}
	certificate, err := os.ReadFile(filepath.Join(dir, RootCertificateFile))
	if err != nil {
		return level{}, fmt.Errorf("the root's certificate: %w", err)
	}
	root, err := parseLevel(append(key, certificate...))
	if err != nil {
		return level{}, fmt.Errorf("%s does not hold a root in %s and %s: %w", dir, RootKeyFile, RootCertificateFile, err)
	}
	return root, nil
}

// SignIntermediate signs a request from RequestIntermediate with the root in a directory. It returns the certificate (PEM) for
// InstallIntermediate. now may be nil: time.Now.
func SignIntermediate(dir, request, domain string, now func() time.Time) (string, error) {
	root, err := readRootDir(dir)
	if err != nil {
		return "", err
	}
	if len(root.certificate.URIs) != 1 || root.certificate.URIs[0].String() != "spiffe://"+domain {
		return "", fmt.Errorf("the root in %s is not of this gateway's trust domain %s", dir, domain)
	}
	csr, err := CheckCSR(request, Subject{})
	if err != nil {
		return "", fmt.Errorf("the gateway's request for an intermediate: %w", err)
	}
	if now == nil {
		now = time.Now
	}
	certificate, err := signIntermediate(domain, csr.PublicKey.(*ecdsa.PublicKey), root, now(), rand.Reader)
	if err != nil {
		return "", err
	}
	return encodeCertificate(certificate.Raw), nil
}

// ExportRoot moves the newest root's key from the store to a directory. The certificate stays in the store. The key is on the disk
// there before the store loses it. No gateway may serve the database meanwhile. The caller scrubs the database afterwards, because
// the file still holds the deleted key.
func (a *Authority) ExportRoot(ctx context.Context, dir string) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	roots := a.held.Load().roots
	newest := roots[len(roots)-1]
	root, err := a.rootLevel(ctx, newest)
	if err != nil {
		return err
	}
	if root.key == nil {
		return errors.New("the root's key is kept out of this database already")
	}
	if err := writeRootDir(a.config.Disk, dir, root); err != nil {
		return err
	}
	return a.stripRoot(ctx, newest)
}
