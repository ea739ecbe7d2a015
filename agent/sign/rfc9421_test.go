package sign_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"

	"muster/agent/sign"
)

type rfcVectors struct {
	PublicKey string `json:"public_key"`
	Request   struct {
		Body   string `json:"body"`
		SHA256 string `json:"sha-256"`
		SHA512 string `json:"sha-512"`
	} `json:"request"`
	Response struct {
		Body       string            `json:"body"`
		Components map[string]string `json:"components"`
		Order      []string          `json:"order"`
		Params     string            `json:"params"`
		Base       string            `json:"base"`
		Signature  string            `json:"signature"`
	} `json:"response"`
}

func rfcKey(t *testing.T, text string) *ecdsa.PublicKey {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(*ecdsa.PublicKey)
}

func TestRFC9421ResponseSignature(t *testing.T) {
	var v rfcVectors
	vectors(t, "rfc9421.json", &v)
	key := rfcKey(t, v.PublicKey)
	r := v.Response
	base, err := sign.SignatureBase(r.Order, r.Params, func(name string) (string, bool) {
		value, ok := r.Components[name]
		return value, ok
	})
	if err != nil || string(base) != r.Base {
		t.Fatalf("signature base = %s, %v; want %s", base, err, r.Base)
	}
	signature, err := sign.DictionaryBytes(r.Signature, "sig-b24")
	if err != nil {
		t.Fatal(err)
	}
	if !sign.VerifyP256(key, base, signature) {
		t.Errorf("the signature of B.2.4 does not verify")
	}
	for i := range signature {
		signature[i] ^= 1
		if sign.VerifyP256(key, base, signature) {
			t.Errorf("the signature verifies with byte %d changed", i)
		}
		signature[i] ^= 1
	}
	base[len(base)-2]++
	if sign.VerifyP256(key, base, signature) {
		t.Errorf("the signature verifies over another base")
	}
}

func TestRFC9421ContentDigest(t *testing.T) {
	var v rfcVectors
	vectors(t, "rfc9421.json", &v)
	body := []byte(v.Request.Body)
	if got := sign.ContentDigest(body); got != v.Request.SHA256 {
		t.Errorf("ContentDigest = %s, want %s", got, v.Request.SHA256)
	}
	for _, header := range []string{v.Request.SHA256, v.Request.SHA512 + ", " + v.Request.SHA256,
		v.Request.SHA256 + "," + v.Request.SHA512} {
		if err := sign.VerifyDigest(header, body); err != nil {
			t.Errorf("VerifyDigest(%s) = %v", header, err)
		}
	}
	if err := sign.VerifyDigest(v.Request.SHA512, body); !errors.Is(err, sign.ErrBadProof) {
		t.Errorf("sha-512 alone: error = %v, want ErrBadProof", err)
	}
	for body, header := range map[string]string{v.Request.Body: v.Request.SHA512,
		v.Response.Body: v.Response.Components["content-digest"]} {
		raw, err := sign.DictionaryBytes(header, "sha-512")
		if sum := sha512.Sum512([]byte(body)); err != nil || string(raw) != string(sum[:]) {
			t.Errorf("sha-512 of %s = %x, %v; want %x", body, raw, err, sum)
		}
	}
}

func TestVerifyDigestRefuses(t *testing.T) {
	body := []byte("{}")
	good := sign.ContentDigest(body)
	other := sign.ContentDigest([]byte("[]"))
	for _, header := range []string{
		"", other, good + ", " + other, other + ", " + good, good + ", " + good, "sha-256=::", "sha-256=::, " + good, "sha-256=",
		"SHA" + good[3:],
		good[:len(good)-1], good + ",", good + " x", "," + good, "sha-512" + good[7:], "sha-256=" + good[9:len(good)-1], good + ";x=1",
		good[:20] + "\n" + good[20:], "sha-256=:AAAA:",
	} {
		if err := sign.VerifyDigest(header, body); !errors.Is(err, sign.ErrBadProof) {
			t.Errorf("VerifyDigest(%q) = %v, want ErrBadProof", header, err)
		}
	}
}

func TestOtherKeysThanP256(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sign.SignP256(p384, []byte("x")); err == nil {
		t.Errorf("signing with P-384 gives no error")
	}
	if _, err := sign.SignP256(nil, []byte("x")); err == nil {
		t.Errorf("signing without a key gives no error")
	}
	for name, key := range map[string]*ecdsa.PublicKey{"no key": nil, "P-384": &p384.PublicKey, "empty key": {}} {
		if sign.VerifyP256(key, []byte("x"), make([]byte, 64)) {
			t.Errorf("%s: verified", name)
		}
	}
	good := signingKey(t)
	for name, signature := range map[string][]byte{"none": nil, "zeros": make([]byte, 64), "short": make([]byte, 63),
		"long": make([]byte, 65)} {
		if sign.VerifyP256(&good.PublicKey, []byte("x"), signature) {
			t.Errorf("%s: verified", name)
		}
	}
}

func TestSignatureBaseRefuses(t *testing.T) {
	for name, value := range map[string]func(string) (string, bool){
		"absent":          func(string) (string, bool) { return "", false },
		"line feed":       func(string) (string, bool) { return "a\n\"@path\": /", true },
		"carriage return": func(string) (string, bool) { return "a\r", true },
	} {
		if base, err := sign.SignatureBase([]string{"@path"}, "()", value); !errors.Is(err, sign.ErrMalformed) || base != nil {
			t.Errorf("%s: SignatureBase = %q, %v; want ErrMalformed", name, base, err)
		}
	}
}

// A P-224 signature fits into the 64 bytes, and verifies under its own key.
func TestSmallerCurve(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("x"))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	if sign.VerifyP256(&key.PublicKey, []byte("x"), signature) {
		t.Errorf("a P-224 signature was taken")
	}
}

func TestDictionaryBytes(t *testing.T) {
	for _, tc := range []struct{ header, want string }{
		{"a=:AQ==:", "\x01"}, {"b=:AAAA:, a=:AQ==:", "\x01"}, {"b=:!:, a=:AQ==:", ""}, {"b=1, a=:AQ==:", ""},
		{"", ""}, {"a=::", ""}, {"b=:AQ==:", ""}, {"a=:AQ==:, a=:AQ==:", ""}, {"a=::, a=:AQ==:", ""}, {"a=:AR==:", ""}, {"a=:A:", ""},
		{"a=:AQ==", ""}, {"a", ""},
	} {
		got, err := sign.DictionaryBytes(tc.header, "a")
		if string(got) != tc.want || (err == nil) != (tc.want != "") || err != nil && !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("%q: %q, %v; want %q", tc.header, got, err, tc.want)
		}
	}
}
