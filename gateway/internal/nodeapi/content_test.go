package nodeapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/nodeapi"
)

// shelf is a file that counts how often it was closed.
type shelf struct {
	*bytes.Reader
	closed *atomic.Int32
}

func (s shelf) Close() error {
	s.closed.Add(1)
	return nil
}

const filePath = "/internal/v1/file"

// withFile makes a site with a route whose answer is a file.
func withFile(t *testing.T, content []byte, digest string) (*site, *atomic.Int32) {
	closed := &atomic.Int32{}
	return newSite(t, func(c *nodeapi.Config) {
		c.More = []nodeapi.Route{{Method: "GET", Path: filePath, Proof: nodeapi.Identity, Purpose: fleet.ForAnything,
			Node: func(context.Context, nodeapi.Call) (any, error) {
				return nodeapi.Content{ReadSeekCloser: shelf{bytes.NewReader(content), closed}, Digest: digest}, nil
			}}}
	}), closed
}

// fetchSigned sends a signed GET with more headers, and gives the nonce too.
func (s *site) fetchSigned(n node, path string, header ...string) (answer, string) {
	s.t.Helper()
	r := newRequest(s.t, http.MethodGet, s.plain.URL+path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	nonce, err := n.signer.Sign(r, nil, epoch, s.clock.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return s.do(http.DefaultClient, r), nonce
}

// wholeProven wants a Muster-Answer over the digest of the whole file.
func (s *site) wholeProven(nonce string, a answer, whole []byte) {
	s.t.Helper()
	key, err := sign.DecodeKey(s.answerKey())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := sign.VerifyAnswerDigest(a.header.Get(wire.HeaderAnswer), key, nonce, a.status, sign.ContentDigest(whole)); err != nil {
		s.t.Errorf("the answer %d is not proven: %v", a.status, err)
	}
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// TestContent: a file goes out whole or in the part that was asked for, and the proof covers the whole.
func TestContent(t *testing.T) {
	content := []byte(strings.Repeat("0123456789", 10_000))
	tag := `"` + digestOf(content) + `"`
	s, closed := withFile(t, content, digestOf(content))
	n := s.active("box")
	for _, c := range []struct {
		what   string
		header []string
		status int
		from   int
		to     int
	}{
		{"whole", nil, 200, 0, len(content)},
		{"rest", []string{"Range", "bytes=99990-", "If-Range", tag}, 206, 99_990, len(content)},
		{"middle", []string{"Range", "bytes=5-9"}, 206, 5, 10},
		{"rest of another file", []string{"Range", "bytes=99990-", "If-Range", `"sha256:other"`}, 200, 0, len(content)},
		{"several parts", []string{"Range", "bytes=0-1,5-6"}, 200, 0, len(content)},
		{"two headers", []string{"Range", "bytes=0-1", "Range", "bytes=5-6"}, 200, 0, len(content)},
		{"a cache's question", []string{"If-None-Match", tag}, 200, 0, len(content)},
	} {
		a, nonce := s.fetchSigned(n, filePath, c.header...)
		if a.status != c.status || !bytes.Equal(a.body, content[c.from:c.to]) || a.header.Get("ETag") != tag {
			t.Errorf("%s: got %d with %d bytes, tag %s", c.what, a.status, len(a.body), a.header.Get("ETag"))
		}
		s.wholeProven(nonce, a, content)
	}
	a, nonce := s.fetchSigned(n, filePath, "Range", "bytes=100000-")
	s.want("behind the end", a, 416, wire.CodeBadRange)
	s.answered(nonce, a)
	if got := closed.Load(); got != 8 {
		t.Errorf("the file was closed %d times, want 8", got)
	}
}

// TestContentByCertificate: over the node's own TLS nothing is signed, and a stranger gets nothing.
func TestContentByCertificate(t *testing.T) {
	content := []byte("a program")
	s, _ := withFile(t, content, digestOf(content))
	n := s.active("box")
	a := s.do(s.direct(&n), newRequest(t, http.MethodGet, s.tls.URL+filePath, nil))
	if a.status != 200 || !bytes.Equal(a.body, content) || a.header.Get(wire.HeaderAnswer) != "" {
		t.Errorf("got %d %q, answer %q", a.status, a.body, a.header.Get(wire.HeaderAnswer))
	}
	s.want("nobody", s.do(http.DefaultClient, newRequest(t, http.MethodGet, s.plain.URL+filePath, nil)), 401, wire.CodeNoIdentity)
}

// TestContentWithoutDigest: a file that cannot be proven does not go out.
func TestContentWithoutDigest(t *testing.T) {
	s, closed := withFile(t, []byte("a program"), "sha512:xy")
	n := s.active("box")
	a, nonce := s.fetchSigned(n, filePath)
	if a.status != http.StatusInternalServerError || closed.Load() != 1 {
		t.Errorf("got %d, closed %d times", a.status, closed.Load())
	}
	s.answered(nonce, a)
}
