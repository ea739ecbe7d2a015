package transport

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/sign"
)

// TestBodyBeforeItsHead: more of a body than belongs in memory arrives before the head, which says where the body goes.
func TestBodyBeforeItsHead(t *testing.T) {
	into := Download{Digest: strings.Repeat("ab", 32)}
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	proof := sign.SignAnswerDigest(key, "nonce", 200, into.digest())
	for name, test := range map[string]struct {
		heads  []string
		arrive bool
	}{
		"late": {[]string{"HTTP/1.1 200 OK\r\nMuster-", "Answer: " + proof + "\r\n\r\n"}, true},
		"after a proxy": {[]string{
			"HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.1 200 OK\r\nMuster-Answer: " + proof + "\r\n\r\n",
		}, true},
		"without proof":   {[]string{"HTTP/1.1 200 OK\r\n\r\n"}, false},
		"that never came": {nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got bytes.Buffer
			killed := false
			into := into
			into.To = &got
			out := &outgoing{Request: Request{Most: 10, Into: &into}, nonce: "nonce", keys: []ed25519.PublicKey{public}}
			a := &arrival{out: out, kill: func() { killed = true }, news: make(chan struct{}, 1)}
			go func() {
				for _, part := range test.heads {
					time.Sleep(pipeGrace / 4)
					_, _ = head{a}.Write([]byte(part)) // never fails
				}
			}()
			began := time.Now()
			for range 3 {
				if _, err := a.Write([]byte("1234567")); err != nil {
					t.Error(err)
				}
			}
			answer, err := a.end(true)
			switch took := time.Since(began); {
			case test.arrive && (err != nil || killed || answer.Status != 200 || got.Len() != 21):
				t.Errorf("%s: %d bytes, error %v", name, got.Len(), err)
			case !test.arrive && (!errors.Is(err, errTooLarge) || !killed || got.Len() > 0 || took != pipeGrace):
				t.Errorf("%s: %d bytes after %s, error %v", name, got.Len(), took, err)
			}
		})
	}
}
