package nodeapi

import (
	"strings"
	"testing"
)

// FuzzGlance compares what is read of an unproven body with what encoding/json reads.
func FuzzGlance(f *testing.F) {
	for _, seed := range []string{
		`{"protocol":1,"name":"box","nonce":"AAAAAAAAAAAAAAAAAAAAAA==","time":"2026-11-21T12:00:00Z","csr":"x","hardware":{"nonce":"b"}}`,
		`{"nonce":"a","Nonce":"b"}`, `{"nonce":"a","nonce":"b"}`, `{"nonce":"a","nonce":null}`, `{"nonce":"\u0061","name":1}`,
		`{"nonce":"a","token":"x"}`, `{"nonce":"a","TOKEN":"x"}`, `{"nonce":"a","cluster_token":null}`, `{"nonce":"a","p\u0073k":"x"}`,
		`{"nonce":"` + strings.Repeat("a", 65) + `"}`, `{"nonce":1}`, `{"nonce":"a"} x`,
		`{"nonce":"a","bootstrap_token":"x"}`, `{"nonce":"a","labels":{"x":"msb_abcdefghijkl_0123456789012345678901.x"}}`,
		`{"nonce":"a","name":"m\u0073b_abcdefghijkl_0123456789012345678901"}`,
		`{"nonce":"a","name":"mse_ab12"}`, `{"nonce":"m\u0073e_abcdefghijkl_0123456789"}`, `{"nonce":"a"`, `[]`, "{\"nonce\":\"\xff\"}", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		nonce, secret := glance(body)
		wantNonce := nonceOf(body)
		wantSecret := carriesSecret(body)
		if nonce != wantNonce || secret != wantSecret {
			t.Errorf("%q: %q, %v; encoding/json: %q, %v", body, nonce, secret, wantNonce, wantSecret)
		}
	})
}
