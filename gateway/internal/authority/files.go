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
	"sync"
	"time"
)

// filesPause is how long a look at the files is good for.
const filesPause = time.Second

// Files gives the gateway's TLS certificate from two PEM files and follows their changes. A new pair that cannot be used
// leaves the last good one in place. It is safe for concurrent use; set the fields before the first call.
type Files struct {
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: slog.Default()

	certFile, keyFile string

	mu      sync.Mutex
	current *tls.Certificate
	looked  time.Time
	seen    [2]os.FileInfo // of the pair that was last read, good or not; nil: the file was not there
	broken  bool           // that pair was not usable, which is in the log
}

// OpenFiles reads a certificate (leaf first, then its intermediates) and its key. Its errors name the file.
func OpenFiles(certFile, keyFile string) (*Files, error) {
	f := &Files{certFile: certFile, keyFile: keyFile}
	f.seen = f.stat()
	pair, err := readPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	f.current = pair
	return f, nil
}

// GetCertificate is for tls.Config. It looks at the files at most once a second.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if since := now.Sub(f.looked); since < 0 || since >= filesPause {
		f.looked = now
		f.follow()
	}
	return f.current, nil
}

// PinnedPublicKey is the key of the certificate in use, as curl's --pinnedpubkey takes it.
func (f *Files) PinnedPublicKey() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return pinnedPublicKey(f.current.Leaf)
}

// follow reads the files when they changed. The look comes before the reading, so that a change in between is seen the
// next time. A broken pair is read again each time: it may have been caught half written, with nothing to tell it by.
func (f *Files) follow() {
	look := f.stat()
	changed := !sameFile(f.seen[0], look[0]) || !sameFile(f.seen[1], look[1])
	if !changed && !f.broken {
		return
	}
	f.seen = look
	pair, err := readPair(f.certFile, f.keyFile)
	if err != nil {
		if changed || !f.broken {
			f.logger().Error("the new TLS certificate cannot be used; the last good one stays in use", "err", err)
		}
		f.broken = true
		return
	}
	f.broken, f.current = false, pair
	f.logger().Info("TLS certificate reloaded", "file", f.certFile, "not_after", pair.Leaf.NotAfter)
}

func (f *Files) stat() [2]os.FileInfo {
	var out [2]os.FileInfo
	for i, name := range [...]string{f.certFile, f.keyFile} {
		if info, err := os.Stat(name); err == nil {
			out[i] = info
		}
	}
	return out
}

// sameFile compares inode, size and time of change; a file that was replaced by a rename has another inode.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func (f *Files) now() time.Time {
	if f.Now != nil {
		return f.Now()
	}
	return time.Now()
}

func (f *Files) logger() *slog.Logger {
	if f.Logger != nil {
		return f.Logger
	}
	return slog.Default()
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

// checkCertificateText tells a bad certificate from a bad key, which tls.X509KeyPair leaves open.
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
