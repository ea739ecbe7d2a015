package sign_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"muster/agent/sign"
)

func BenchmarkSign(b *testing.B) {
	signer := sign.Signer{Key: signingKey(b), Fingerprint: fingerprint}
	body := []byte(strings.Repeat("x", 535))
	r := httptest.NewRequest("POST", "/nodes/n-1/heartbeat", nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := signer.Sign(r, body, epoch, noon); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParse measures a verification without the elliptic curve and without the digest of the body.
func BenchmarkParse(b *testing.B) {
	r, _ := signed(b, signingKey(b))
	b.ReportAllocs()
	for b.Loop() {
		s, err := sign.ParseRequest(r)
		if err != nil || s.Verify(r, nil) == nil { // without a key it stops before the curve
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	key := signingKey(b)
	r, _ := signed(b, key)
	b.ReportAllocs()
	for b.Loop() {
		s, err := sign.ParseRequest(r)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Verify(r, &key.PublicKey); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyDigest(b *testing.B) {
	body := []byte(strings.Repeat("x", 535))
	header := sign.ContentDigest(body)
	b.ReportAllocs()
	for b.Loop() {
		if err := sign.VerifyDigest(header, body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignAnswer(b *testing.B) {
	_, key := edKey(1)
	body := []byte(strings.Repeat("x", 120))
	b.ReportAllocs()
	for b.Loop() {
		sign.SignAnswer(key, "e5.Zk.AAECAwQFBgcICQoLDA0ODw", 200, body)
	}
}
