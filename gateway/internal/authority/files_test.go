package authority_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/kit"
)

// pair is a certificate and its key in PEM.
type pair struct{ certificate, key []byte }

func newPair(t *testing.T, serial int64, key *ecdsa.PrivateKey) pair {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: start.Add(-day), NotAfter: start.Add(day), DNSNames: []string{"gw.example.com"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}),
	}
}

// folder holds a certificate's two files.
type folder struct {
	t                 *testing.T
	certFile, keyFile string
}

func newFolder(t *testing.T) folder {
	dir := t.TempDir()
	return folder{t, filepath.Join(dir, "gw.crt"), filepath.Join(dir, "gw.key")}
}

// put replaces a file as a careful writer does: the inode changes, whatever the resolution of its times.
func (f folder) put(name string, content []byte) {
	f.t.Helper()
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) putPair(p pair) {
	f.t.Helper()
	f.put(f.certFile, p.certificate)
	f.put(f.keyFile, p.key)
}

func (f folder) open(c *kit.Clock, log *recorder) *authority.Files {
	f.t.Helper()
	files, err := authority.OpenFiles(f.certFile, f.keyFile, c.Now, log.logger())
	if err != nil {
		f.t.Fatal(err)
	}
	return files
}

func serial(t *testing.T, f *authority.Files) int64 {
	t.Helper()
	return served(t, f).Leaf.SerialNumber.Int64()
}

func TestFilesReload(t *testing.T) {
	f := newFolder(t)
	c := newClock()
	log := &recorder{}
	f.putPair(newPair(t, 1, newKey(t)))
	files := f.open(c, log)
	roots := x509.NewCertPool()
	roots.AddCert(served(t, files).Leaf)
	if _, err := handshake(t, files.GetCertificate, &tls.Config{RootCAs: roots, ServerName: "gw.example.com", Time: c.Now}); err != nil {
		t.Error(err)
	}
	pin := files.PinnedPublicKey()
	f.putPair(newPair(t, 2, newKey(t)))
	c.Set(start.Add(999 * time.Millisecond))
	if got := serial(t, files); got != 1 {
		t.Errorf("got serial %d: looked twice in a second", got)
	}
	c.Set(start.Add(time.Second))
	if got := serial(t, files); got != 2 || files.PinnedPublicKey() == pin {
		t.Errorf("got serial %d after a change", got)
	}
	before := served(t, files)
	c.Set(start.Add(time.Hour))
	if served(t, files) != before {
		t.Errorf("read again without a change")
	}
	if got := log.count("reloaded"); got != 1 {
		t.Errorf("got %d lines about reloads, want 1", got)
	}
}

// TestFilesCover: the hosts that the operator's certificate is not for are named.
func TestFilesCover(t *testing.T) {
	f := newFolder(t)
	f.putPair(newPair(t, 1, newKey(t)))
	files := f.open(newClock(), &recorder{})
	if err := files.Cover([]string{"gw.example.com"}); err != nil {
		t.Error(err)
	}
	wantError(t, files.Cover([]string{"gw.example.com", "gw2.example.org", "192.0.2.8"}), "gw2.example.org", "192.0.2.8")
}

// TestFilesNoticeEveryChange changes one thing at a time that tells files apart.
func TestFilesNoticeEveryChange(t *testing.T) {
	key := newKey(t)
	cases := map[string]func(f folder, p pair, stamp time.Time){
		"size, in place": func(f folder, p pair, stamp time.Time) {
			f.overwrite(f.certFile, append(p.certificate, '\n'), stamp)
		},
		"time, in place": func(f folder, p pair, stamp time.Time) {
			f.overwrite(f.certFile, p.certificate, stamp.Add(time.Second))
		},
		"inode": func(f folder, p pair, stamp time.Time) {
			f.put(f.certFile, p.certificate)
			f.overwrite(f.certFile, p.certificate, stamp)
		},
		"the key's inode": func(f folder, p pair, stamp time.Time) { f.put(f.keyFile, p.key) },
	}
	for name, change := range cases {
		f := newFolder(t)
		c := newClock()
		log := &recorder{}
		p := newPair(t, 1, key)
		f.putPair(p)
		f.overwrite(f.certFile, p.certificate, start)
		files := f.open(c, log)
		before := served(t, files)
		change(f, p, start)
		c.Set(start.Add(time.Minute))
		if served(t, files) == before {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// overwrite writes in place and sets the time of change.
func (f folder) overwrite(name string, content []byte, stamp time.Time) {
	f.t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Chtimes(name, stamp, stamp); err != nil {
		f.t.Fatal(err)
	}
}

func TestFilesKeepLastGood(t *testing.T) {
	good := newPair(t, 2, newKey(t))
	other := newPair(t, 3, newKey(t))
	cases := map[string]func(f folder){
		"key gone":            func(f folder) { _ = os.Remove(f.keyFile) },
		"certificate gone":    func(f folder) { _ = os.Remove(f.certFile) },
		"half a certificate":  func(f folder) { f.put(f.certFile, good.certificate[:100]) },
		"empty key":           func(f folder) { f.put(f.keyFile, nil) },
		"pair does not match": func(f folder) { f.put(f.keyFile, other.key) },
	}
	for name, harm := range cases {
		f := newFolder(t)
		c := newClock()
		log := &recorder{}
		f.putPair(newPair(t, 1, newKey(t)))
		files := f.open(c, log)
		harm(f)
		for i := range 3 {
			c.Set(start.Add(time.Duration(i+1) * time.Second))
			if got := serial(t, files); got != 1 {
				t.Errorf("%s: got serial %d", name, got)
			}
		}
		if got := log.count("last good one stays"); got != 1 {
			t.Errorf("%s: got %d lines in the log, want 1", name, got)
		}
		f.putPair(good)
		c.Set(start.Add(time.Minute))
		if got := serial(t, files); got != 2 {
			t.Errorf("%s: got serial %d after it was mended", name, got)
		}
	}
}

// TestFilesHalfWritten completes a file in place with the stamp that it had when it was read half written.
func TestFilesHalfWritten(t *testing.T) {
	f := newFolder(t)
	c := newClock()
	log := &recorder{}
	key := newKey(t)
	f.putPair(newPair(t, 1, key))
	files := f.open(c, log)
	next := newPair(t, 2, key).certificate
	f.overwrite(f.certFile, bytes.Repeat([]byte{' '}, len(next)), start)
	c.Set(start.Add(time.Second))
	served(t, files)
	f.overwrite(f.certFile, next, start)
	c.Set(start.Add(2 * time.Second))
	if got := serial(t, files); got != 2 {
		t.Errorf("got serial %d", got)
	}
}

func TestOpenFilesRefuses(t *testing.T) {
	good := newPair(t, 1, newKey(t))
	other := newPair(t, 2, newKey(t))
	damaged := bytes.Replace(good.certificate, []byte("MII"), []byte("!!!"), 1)
	garbage := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	keyGarbage := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})
	cases := map[string]struct {
		p    pair
		want []string
	}{
		"no certificate file": {pair{nil, good.key}, []string{"TLS certificate", "gw.crt"}},
		"no key file":         {pair{good.certificate, nil}, []string{"TLS key", "gw.key"}},
		"empty certificate":   {pair{[]byte{}, good.key}, []string{"gw.crt", "no certificate in PEM"}},
		"files swapped":       {pair{good.key, good.certificate}, []string{"gw.crt", "no certificate in PEM"}},
		"damaged":             {pair{damaged, good.key}, []string{"gw.crt", "cut off or damaged"}},
		"not a certificate":   {pair{garbage, good.key}, []string{"gw.crt", "x509"}},
		"no key in the key":   {pair{good.certificate, good.certificate}, []string{"gw.key", "no private key in PEM"}},
		"not a key":           {pair{good.certificate, keyGarbage}, []string{"gw.crt", "gw.key"}},
		"not together":        {pair{good.certificate, other.key}, []string{"gw.crt", "gw.key", "does not match"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			if c.p.certificate != nil {
				f.put(f.certFile, c.p.certificate)
			}
			if c.p.key != nil {
				f.put(f.keyFile, c.p.key)
			}
			_, err := authority.OpenFiles(f.certFile, f.keyFile, nil, nil)
			wantError(t, err, c.want...)
		})
	}
}

func TestOpenFilesTakesKeyFirst(t *testing.T) {
	p := newPair(t, 1, newKey(t))
	f := newFolder(t)
	both := append(append([]byte("a comment\n"), p.key...), p.certificate...) // one file for both, as some tools write it
	f.put(f.certFile, both)
	if _, err := authority.OpenFiles(f.certFile, f.certFile, nil, nil); err != nil {
		t.Error(err)
	}
}
