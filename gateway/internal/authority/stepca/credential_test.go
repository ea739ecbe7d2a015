package stepca_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/authority/stepca"
)

// The key of RFC 7515 appendix A.3, with the thumbprint that RFC 7638 gives it, worked out with sha256sum and base64.
const (
	rfcKey   = `"crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"`
	rfcD     = `"d":"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"`
	rfcThumb = "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U"
)

func openKey(t *testing.T, text string) (*ecdsa.PrivateKey, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return stepca.ReadKey(path)
}

func TestKeyForms(t *testing.T) {
	jwk := `{"kty":"EC",` + rfcKey + `,` + rfcD
	plain, id, err := openKey(t, jwk+`}`)
	if err != nil || id != rfcThumb {
		t.Fatalf("%v, kid %q, want %q", err, id, rfcThumb)
	}
	pkcs8 := keyPEM(t, plain)
	der, err := x509.MarshalECPrivateKey(plain)
	if err != nil {
		t.Fatal(err)
	}
	sec1 := encode("EC PRIVATE KEY", der)
	for name, test := range map[string]struct{ text, id string }{
		"a JWK with a name":    {jwk + `,"kid":"mine","use":"sig","alg":"ES256"}`, "mine"},
		"blanks around":        {"\n " + jwk + "}\n\n", rfcThumb},
		"PKCS#8":               {pkcs8, rfcThumb},
		"SEC 1":                {sec1, rfcThumb},
		"SEC 1 as openssl has": {encode("EC PARAMETERS", []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}) + sec1, rfcThumb},
	} {
		key, id, err := openKey(t, test.text)
		if err != nil || id != test.id || !key.Equal(plain) {
			t.Errorf("%s: %v, kid %q, want %q", name, err, id, test.id)
		}
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	big, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I"
	for name, test := range map[string]struct{ text, want string }{
		"nothing":          {"", "neither a JWK nor a private key in PEM"},
		"a certificate":    {encode("CERTIFICATE", []byte("x")), "neither a JWK nor a private key in PEM"},
		"a compact JWE":    {"eyJhbGciOiJQQkVTMi1IUzI1NitBMTI4S1cifQ.a.b.c.d", "encrypted with a password"},
		"a JWE in JSON":    {`{"protected":"eyJ","ciphertext":"x"}`, "step crypto jwe decrypt"},
		"an encrypted PEM": {encode("ENCRYPTED PRIVATE KEY", []byte("x")), "step crypto change-pass"},
		"an old encrypted PEM": {"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END EC " +
			"PRIVATE KEY-----\n", "step crypto change-pass"},
		"broken PEM":      {encode("PRIVATE KEY", []byte("x")), "no private key that can be read"},
		"broken SEC 1":    {encode("EC PRIVATE KEY", []byte("x")), "no private key that can be read"},
		"P-384":           {keyPEM(t, big), "not an EC P-256 key"},
		"not JSON":        {`{"kty":`, "not one in JSON"},
		"an RSA JWK":      {`{"kty":"RSA","d":"` + secret + `"}`, "not an EC P-256 key"},
		"a P-384 JWK":     {`{"kty":"EC","crv":"P-384","d":"` + secret + `"}`, "not an EC P-256 key"},
		"a public JWK":    {`{"kty":"EC",` + rfcKey + `}`, "public key"},
		"d is not base64": {`{"kty":"EC",` + rfcKey + `,"d":"` + secret + `="}`, "not base64url"},
		"d is too short":  {`{"kty":"EC",` + rfcKey + `,"d":"c2Vj"}`, "scalar of 32 bytes"},
		"of two keys":     {`{"kty":"EC",` + rfcKey + `,"d":"` + secret + `"}`, "not the public key"},
	} {
		_, _, err := openKey(t, test.text)
		wantError(t, err, test.want)
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error holds the secret: %v", name, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	day := time.Now().Add(24 * time.Hour)
	for name, test := range map[string]struct {
		change func(*fakeCA)
		want   string
	}{
		"no provisioner":    {func(f *fakeCA) { f.config.Provisioner = "" }, "provisioner's name"},
		"no trust domain":   {func(f *fakeCA) { f.config.TrustDomain = "" }, "trust domain"},
		"lifetime":          {func(f *fakeCA) { f.config.CertTTL = time.Second }, "lifetime"},
		"plain HTTP":        {func(f *fakeCA) { f.config.URL = "http://ca.example" }, "https://host"},
		"no URL":            {func(f *fakeCA) { f.config.URL = "" }, "https://host"},
		"a path":            {func(f *fakeCA) { f.config.URL = caURL + "/1.0/sign" }, "https://host"},
		"a password":        {func(f *fakeCA) { f.config.URL = "https://me:secret@ca.example" }, "https://host"},
		"no root":           {func(f *fakeCA) { f.config.RootFile = filepath.Join(f.dir, "none") }, "step ca root"},
		"empty root":        {func(f *fakeCA) { f.file("root.pem", "") }, "no certificate in PEM"},
		"root is a key":     {func(f *fakeCA) { f.file("root.pem", keyPEM(f.t, f.key)) }, "certificates alone"},
		"root is no CA":     {func(f *fakeCA) { f.file("root.pem", certificatePEM(f.signer(day, x509.KeyUsageDigitalSignature))) }, "not a CA's"},
		"no key":            {func(f *fakeCA) { f.config.KeyFile = filepath.Join(f.dir, "none") }, "the provisioner's key"},
		"bad key":           {func(f *fakeCA) { f.file("key.pem", "x") }, "key.pem"},
		"no certificate":    {func(f *fakeCA) { f.config.CertFile = filepath.Join(f.dir, "none") }, "X5C certificate"},
		"empty certificate": {func(f *fakeCA) { f.config.CertFile = f.file("cert.pem", "") }, "no certificate in PEM"},
		"of another key": {func(f *fakeCA) { f.config.CertFile = f.file("cert.pem", certificatePEM(f.issuer.certificate)) },
			"leaf stands first"},
		"not for clients": {func(f *fakeCA) {
			f.config.CertFile = f.file("cert.pem", certificatePEM(f.signer(day, x509.KeyUsageDigitalSignature, x509.ExtKeyUsageServerAuth)))
		}, "clientAuth"},
		"not for signatures": {func(f *fakeCA) {
			f.config.CertFile = f.file("cert.pem", certificatePEM(f.signer(day, x509.KeyUsageKeyAgreement, x509.ExtKeyUsageClientAuth)))
		}, "digital signature"},
	} {
		f := newFake(t)
		test.change(f)
		_, err := stepca.New(f.config)
		wantError(t, err, test.want)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	f := newFake(t)
	if err := f.open().Check(t.Context()); err != nil {
		t.Error(err)
	}
	f.trip = func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 503, Body: http.NoBody, Request: r}, nil
	}
	wantError(t, f.open().Check(t.Context()), "step-ca at "+caURL, "in trouble (503")
}

// TestCredentialIsFollowed changes the key under a running gateway, first for the worse.
func TestCredentialIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		start := time.Now()
		issuer := f.open()
		ask := func() string {
			t.Helper()
			time.Sleep(2 * time.Second) // of the bubble
			if _, err := issuer.Issue(t.Context(), authority.Request{NodeID: nodeID, CSR: newCSR(t, x509.CertificateRequest{})}); err != nil {
				t.Fatal(err)
			}
			return f.orders[len(f.orders)-1].header.Kid
		}
		first := ask()
		f.file("key.pem", "half a k")
		for range 2 {
			if ask() != first || f.log.count("cannot be used") != 1 {
				t.Errorf("a broken file: log %s", f.log.text.String())
			}
		}
		f.keep("key.pem", strings.Repeat("x", 240), start)
		if ask() != first || f.log.count("cannot be used") != 2 {
			t.Errorf("another broken file: log %s", f.log.text.String())
		}
		f.key = newKey(t)
		f.keep("key.pem", (keyPEM(t, f.key) + strings.Repeat("\n", 240))[:240], start)
		second := ask()
		if second == first || ask() != second || f.log.count("reloaded") != 1 {
			t.Errorf("mended within the file system's clock tick: kid %s, log %s", second, f.log.text.String())
		}
		if err := os.Remove(f.config.KeyFile); err != nil {
			t.Fatal(err)
		}
		if ask() != second || f.log.count("cannot be used") != 3 {
			t.Errorf("no file: log %s", f.log.text.String())
		}
		f.key = newKey(t)
		f.file("key.pem", keyPEM(t, f.key))
		if third := ask(); third == second || f.log.count("reloaded") != 2 {
			t.Errorf("a new key: kid %s, log %s", third, f.log.text.String())
		}
	})
}

// keep writes a file in place with that time of change.
func (f *fakeCA) keep(name, text string, at time.Time) {
	f.t.Helper()
	if err := os.Chtimes(f.file(name, text), at, at); err != nil {
		f.t.Fatal(err)
	}
}

func TestKeyID(t *testing.T) {
	f := newFake(t)
	f.config.KeyID = "given"
	if _, err := f.issue(); err != nil || f.orders[0].header.Kid != "given" {
		t.Errorf("%v, %+v", err, f.orders)
	}
}
