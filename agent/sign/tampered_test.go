package sign_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/agent/sign"
)

// swap replaces text in a header, and fails if there is nothing to replace.
func swap(header, from, to string) func(*http.Request) {
	return func(r *http.Request) {
		was := r.Header.Get(header)
		if !strings.Contains(was, from) {
			panic(from + " is not in " + was)
		}
		r.Header.Set(header, strings.Replace(was, from, to, 1))
	}
}

func TestTamperedRequests(t *testing.T) {
	const in, sig, digest = "Signature-Input", "Signature", "Content-Digest"
	other := sign.ContentDigest([]byte(`{"a":2}`))
	for name, change := range map[string]func(*http.Request){
		"method":        func(r *http.Request) { r.Method = "PUT" },
		"method's case": func(r *http.Request) { r.Method = "post" },
		"path":          func(r *http.Request) { r.URL.Path = "/nodes/n-2/heartbeat" },
		"raw path":      func(r *http.Request) { r.URL.RawPath = "/nodes/n%2D1/heartbeat" },
		"query":         func(r *http.Request) { r.URL.RawQuery = "x=2" },
		"no query":      func(r *http.Request) { r.URL.RawQuery = "" },
		"query to path": func(r *http.Request) { r.URL.Path += "?x=1"; r.URL.RawQuery = "" },
		"digest":        swap(digest, sign.ContentDigest([]byte(`{"a":1}`)), other),
		"digest's text": swap(digest, ":", ": "),
		"digest added":  func(r *http.Request) { r.Header.Set(digest, r.Header.Get(digest)+", sha-512=:AAAA:") },
		"body":          func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"a":2}`)) },
		"body and digest": func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(`{"a":2}`))
			r.Header.Set(digest, other)
		},
		"longer body":      func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"a":1} `)) },
		"created":          swap(in, "created=1777896000", "created=1777896001"),
		"created's zeros":  swap(in, "created=", "created=0"),
		"nonce":            swap(in, `nonce="e5`, `nonce="e6`),
		"component order":  swap(in, `"@method" "@path"`, `"@path" "@method"`),
		"spaces":           swap(in, `"@method" "@path"`, `"@method"  "@path"`),
		"parameter spaces": swap(in, `;nonce`, `; nonce`),
		"other signature":  func(r *http.Request) { r.Header.Set(sig, "muster=:"+strings.Repeat("A", 86)+"==:") },
	} {
		key := signingKey(t)
		r, _ := signed(t, key)
		change(r)
		if _, err := judge(r, &key.PublicKey); !errors.Is(err, sign.ErrBadProof) {
			t.Errorf("%s: error = %v, want ErrBadProof", name, err)
		}
	}
	r, _ := signed(t, signingKey(t))
	if _, err := judge(r, &signingKey(t).PublicKey); !errors.Is(err, sign.ErrBadProof) {
		t.Errorf("another key: error = %v, want ErrBadProof", err)
	}
}

func TestUnsignedRequests(t *testing.T) {
	for name, header := range map[string]http.Header{
		"nothing":           {},
		"a signature alone": {"Signature": {`keyId="x",algorithm="rsa-sha256"`}},
		"a foreign one":     {"Signature-Input": {`sig1=("date");created=1;tag="other"`}, "Signature": {"sig1=:AAAA:"}},
		"without a tag":     {"Signature-Input": {`muster=("@method");created=1`}, "Signature": {"muster=:AAAA:"}},
		"our tag a token":   {"Signature-Input": {`muster=("@method");tag=muster`}},
		"our tag's case":    {"Signature-Input": {`muster=("@method");tag="Muster"`}},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header = header
		if s, err := sign.ParseRequest(r); !errors.Is(err, sign.ErrUnsigned) || s != nil {
			t.Errorf("%s: ParseRequest = %v, %v; want ErrUnsigned", name, s, err)
		}
	}
}

func TestForeignSignaturesBeside(t *testing.T) {
	const foreign = `sig1=("@authority" "@query-param";name="Pet" ` +
		`"signature";key="sig0";req);created=1;expires=-2;alg="x\"y";keyid="a,b";tag="other";flag;n=1.5;b=:AAA=:;t=a/b;z=?0`
	for name, change := range map[string]func(*http.Request){
		"before, one line": func(r *http.Request) {
			r.Header.Set("Signature-Input", foreign+","+r.Header.Get("Signature-Input"))
			r.Header.Set("Signature", "sig1=:AAAA:,\t"+r.Header.Get("Signature"))
		},
		"after, own lines": func(r *http.Request) {
			r.Header.Add("Signature-Input", foreign)
			r.Header.Add("Signature", "sig1=:AAAA:")
		},
		"without its signature": func(r *http.Request) { r.Header.Add("Signature-Input", foreign) },
		"outer spaces": func(r *http.Request) {
			r.Header.Set("Signature-Input", r.Header.Get("Signature-Input")+" \t, "+foreign+" ")
		},
	} {
		key := signingKey(t)
		r, _ := signed(t, key)
		change(r)
		before := r.Header.Clone()
		if _, err := judge(r, &key.PublicKey); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if fmt.Sprint(before) != fmt.Sprint(r.Header) {
			t.Errorf("%s: reading the signature changed the headers", name)
		}
	}
}
