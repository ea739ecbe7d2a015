package sign_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
)

const (
	fingerprint = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	epoch       = "e5.Zk"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func signingKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// judge is the receiving end in the order that a gateway keeps: form, signature, body.
func judge(r *http.Request, key *ecdsa.PublicKey) (*sign.Signature, error) {
	s, err := sign.ParseRequest(r)
	if err != nil {
		return nil, err
	}
	if err := s.Verify(r, key); err != nil {
		return s, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return s, err
	}
	return s, sign.VerifyDigest(r.Header.Get("Content-Digest"), body)
}

// server answers 204 to a good request and 400 with the reason to any other.
func server(t *testing.T, key *ecdsa.PublicKey) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := judge(r, key); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestSignedRequestsOverHTTP(t *testing.T) {
	key := signingKey(t)
	s := server(t, &key.PublicKey)
	signer := sign.Signer{Key: key, Fingerprint: fingerprint}
	for _, target := range []string{
		"", "/", "?", "/?", "/nodes/n-1/heartbeat", "/a?b=c&d=e", "/a?b=%20c+d;e", "/a%2Fb/c", "/a%2fb", "/%41", "/a%20b", "//a//b",
		"/a/../b/./c",
		"/a;b=c", "/a|b", "/ü/é", "/%C3%BC", "/a?q=ü", "/a?b?c", "/a:b@c", "/a?x=%zz", "/%25", "/a+b", "/a*b'(c)!", "?a", "/a#fragment",
		"/a/",
	} {
		for _, method := range []string{"", "GET", "POST", "purge"} {
			for _, body := range []string{"", `{"a":1}`} {
				r, err := http.NewRequest(method, s.URL+target, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Method = method
				if _, err := signer.Sign(r, []byte(body), epoch, noon); err != nil {
					t.Fatal(err)
				}
				status, text := send(t, s.Client(), r)
				if status != http.StatusNoContent {
					t.Errorf("%s %q with body %q: %d %s", method, target, body, status, text)
				}
			}
		}
	}
}

func send(t *testing.T, client *http.Client, r *http.Request) (int, string) {
	t.Helper()
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// These request lines are written byte by byte, because the net/http client would never write them.
func TestRawRequestLines(t *testing.T) {
	key := signingKey(t)
	s := server(t, &key.PublicKey)
	for _, tc := range []struct {
		line, signed string
		good         bool
	}{
		{"/a", "/a", true}, {"/a?", "/a", true}, {"/a", "/a?", true}, {"http://other.example/a?b", "/a?b", true},
		{"/a?b", "/a", false}, {"/a??", "/a", false}, {"//a", "/a", false}, {"/a/", "/a", false}, {"/a;b", "/a", false},
		{"/b/../a", "/a", false},
		{"/%61", "/a", false}, {"/a%2Fb", "/a/b", false}, {"/a%2fb", "/a%2Fb", false}, {"/a%3Fb", "/a?b", false}, {"/a?%62", "/a?b", false},
		{"/a?b&c", "/a?b;c", false}, {"/a?b=+", "/a?b=%20", false}, {"/a%00", "/a", false}, {"/A", "/a", false}, {"/a#b", "/a", false},
	} {
		r := httptest.NewRequest("POST", tc.signed, nil)
		if _, err := (sign.Signer{Key: key, Fingerprint: fingerprint}).Sign(r, []byte("{}"), epoch, noon); err != nil {
			t.Fatal(err)
		}
		var head bytes.Buffer
		fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n", tc.line)
		if err := r.Header.Write(&head); err != nil {
			t.Fatal(err)
		}
		status := raw(t, s.Listener.Addr().String(), head.String()+"\r\n{}")
		if got := status == http.StatusNoContent; got != tc.good {
			t.Errorf("%s sent as %s: status %d, want good = %v", tc.signed, tc.line, status, tc.good)
		}
	}
}

func raw(t *testing.T, address, text string) int {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

func signed(t testing.TB, key *ecdsa.PrivateKey) (*http.Request, string) {
	t.Helper()
	r := httptest.NewRequest("POST", "/nodes/n-1/heartbeat?x=1", strings.NewReader(`{"a":1}`))
	nonce, err := (sign.Signer{Key: key, Fingerprint: fingerprint}).Sign(r, []byte(`{"a":1}`), epoch, noon)
	if err != nil {
		t.Fatal(err)
	}
	return r, nonce
}

func TestSignatureFields(t *testing.T) {
	key := signingKey(t)
	r, nonce := signed(t, key)
	got, err := judge(r, &key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if got.Fingerprint != fingerprint || got.Nonce != nonce || got.Epoch != epoch || !got.Created.Equal(noon) {
		t.Errorf("ParseRequest = %q %q %q %v", got.Fingerprint, got.Nonce, got.Epoch, got.Created)
	}
	_, again := signed(t, key)
	if again == nonce || len(nonce) != len(epoch)+1+64+22 {
		t.Errorf("nonces %q and %q", nonce, again)
	}
	want := fmt.Sprintf(`muster=("@method" "@path" "@query" "content-digest");created=%d;nonce="%s";keyid="%s";tag="muster"`, noon.Unix(),
		nonce, fingerprint)
	if got := r.Header.Get("Signature-Input"); got != want {
		t.Errorf("Signature-Input = %s, want %s", got, want)
	}
}

// Another signer may name its label as it likes and write components and parameters in any order.
func TestAnyOrderAndLabel(t *testing.T) {
	key := signingKey(t)
	values := map[string]string{"@method": "POST", "@path": "/a%2Fb", "@query": "?", "content-digest": sign.ContentDigest(nil)}
	names := []string{"@method", "@path", "@query", "content-digest"}
	for _, order := range permutations(len(names)) {
		var components []string
		for _, i := range order {
			components = append(components, names[i])
		}
		params := `("` + strings.Join(components, `" "`) + `");tag="muster";keyid="` + fingerprint + `";nonce=".0123456789abcdef";created=0`
		base, err := sign.SignatureBase(components, params, func(name string) (string, bool) { return values[name], true })
		if err != nil {
			t.Fatal(err)
		}
		signature, err := sign.SignP256(key, base)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("POST", "/a%2Fb", nil)
		r.Header.Set("Content-Digest", values["content-digest"])
		r.Header.Set("Signature-Input", "*a-1.b_c="+params)
		r.Header.Set("Signature", "*a-1.b_c=:"+base64Text(signature)+":")
		if s, err := judge(r, &key.PublicKey); err != nil || s.Epoch != "" {
			t.Errorf("order %v: %v", components, err)
		}
	}
}

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var out [][]int
	for _, p := range permutations(n - 1) {
		for at := range n {
			next := append(append(append([]int{}, p[:at]...), n-1), p[at:]...)
			out = append(out, next)
		}
	}
	return out
}

func TestSignRefuses(t *testing.T) {
	key := signingKey(t)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*sign.Signer, *http.Request, *string){
		"no key":           func(s *sign.Signer, _ *http.Request, _ *string) { s.Key = nil },
		"other curve":      func(s *sign.Signer, _ *http.Request, _ *string) { s.Key = p384 },
		"no fingerprint":   func(s *sign.Signer, _ *http.Request, _ *string) { s.Fingerprint = "" },
		"odd fingerprint":  func(s *sign.Signer, _ *http.Request, _ *string) { s.Fingerprint = strings.Repeat(`"`, 64) },
		"epoch injects":    func(_ *sign.Signer, _ *http.Request, e *string) { *e = `x";created=1;y="` },
		"epoch with space": func(_ *sign.Signer, _ *http.Request, e *string) { *e = "a b" },
		"epoch too long":   func(_ *sign.Signer, _ *http.Request, e *string) { *e = strings.Repeat("e", 106) },
		"no URL":           func(_ *sign.Signer, r *http.Request, _ *string) { r.URL = nil },
		"opaque URL":       func(_ *sign.Signer, r *http.Request, _ *string) { r.URL = &url.URL{Opaque: "//x/y"} },
		"line break":       func(_ *sign.Signer, r *http.Request, _ *string) { r.URL.RawQuery = "a\nb" },
	} {
		s := sign.Signer{Key: key, Fingerprint: fingerprint}
		r := httptest.NewRequest("GET", "/", nil)
		e := epoch
		change(&s, r, &e)
		if nonce, err := s.Sign(r, nil, e, noon); err == nil || nonce != "" || r.Header.Get("Signature") != "" {
			t.Errorf("%s: Sign = %q, %v; want an error and no signature", name, nonce, err)
		}
	}
}

func TestSignAgainReplacesTheSignature(t *testing.T) {
	key := signingKey(t)
	r := &http.Request{URL: &url.URL{}, Body: http.NoBody}
	signer := sign.Signer{Key: key, Fingerprint: fingerprint}
	for range 2 {
		nonce, err := signer.Sign(r, nil, strings.Repeat("e", 41), noon)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := judge(r, &key.PublicKey); err != nil || s.Nonce != nonce {
			t.Errorf("judge = %v, %v; want nonce %q", s, err, nonce)
		}
	}
}

// TestNonceOwner: a request that names one identity and carries the nonce of another is refused as malformed. So nobody gets a proven
// answer for a nonce that they saw on its way.
func TestNonceOwner(t *testing.T) {
	key := signingKey(t)
	other := strings.Repeat("0", 64)
	r := httptest.NewRequest("POST", "/nodes/n/heartbeat", nil)
	nonce, err := (sign.Signer{Key: key, Fingerprint: fingerprint}).Sign(r, []byte("{}"), epoch, noon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sign.ParseRequest(r); err != nil {
		t.Fatalf("its own nonce: %v", err)
	}
	in := r.Header.Get("Signature-Input")
	r.Header.Set("Signature-Input", strings.Replace(in, `keyid="`+fingerprint, `keyid="`+other, 1))
	if s, err := sign.ParseRequest(r); !errors.Is(err, sign.ErrMalformed) {
		t.Errorf("the nonce %s with keyid %s: %+v, %v; want ErrMalformed", nonce, other, s, err)
	}
	r.Header.Set("Signature-Input", strings.Replace(in, nonce, epoch+".AAAAAAAAAAAAAAAAAAAAAA", 1))
	if _, err := sign.ParseRequest(r); err != nil {
		t.Errorf("a nonce that names nobody: %v", err)
	}
}
