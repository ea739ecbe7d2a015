package stepca_test

import (
	"crypto/elliptic"
	"testing"

	"muster/gateway/internal/authority/stepca"
)

func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{
		"", "{", "eyJ", `{"kty":"EC",` + rfcKey + `,` + rfcD + `,"kid":"mine"}`, `{"kty":"EC",` + rfcKey + `}`,
		`{"ciphertext":"x"}`, `{"kty":"EC","crv":"P-256","d":"AAAA"}`, keyPEM(f, newKey(f)),
		encode("EC PRIVATE KEY", []byte{0x30, 0}), encode("ENCRYPTED PRIVATE KEY", []byte{0x30, 0}), encode("EC PARAMETERS", nil),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		key, _, err := stepca.ParseKey(text)
		if (key == nil) != (err != nil) || key != nil && key.Curve != elliptic.P256() {
			t.Errorf("%v, %v", key, err)
		}
	})
}

func FuzzParseAnswer(f *testing.F) {
	leaf := certificatePEM(newCA(f, "x", pair{}).certificate)
	for _, seed := range []string{
		"", "{}", `{"certChain":[]}`, `{"certChain":["x",null]}`, `{"crt":"x","ca":"y"}`, `{"certChain":{"a":1}}`, leaf,
		`{"certChain":["-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		chain, err := stepca.ParseAnswer(answer)
		if (len(chain) == 0) != (err != nil) {
			t.Errorf("%d certificates, %v", len(chain), err)
		}
	})
}
