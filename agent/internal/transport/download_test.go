package transport_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

const blobPath = "/internal/v1/blob?a=b%20c"

// ways are a client of one gateway for each way that a node's request can take.
func ways(t *testing.T, test func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client)) {
	t.Run("mtls", func(t *testing.T) {
		g := gatewaytest.New(t)
		client := connect(t, g, g.Serving(t), nil)
		for range 2 {
			if _, err := call(client); err != nil {
				t.Fatal(err)
			}
		}
		if client.Mode() != "mtls" {
			t.Fatalf("mode %s", client.Mode())
		}
		test(t, g, client)
	})
	t.Run("signed", func(t *testing.T) {
		g := gatewaytest.New(t)
		test(t, g, connect(t, g, nil, nil))
	})
	t.Run("curl", func(t *testing.T) {
		g := gatewaytest.New(t)
		client := curlClient(t, gatewaytest.Listen(t, g, g.Serving(t)), nil, nil)
		client.Use(g.Identity(t))
		test(t, g, client)
	})
}

// noise is content in which no two places are alike.
func noise(size int) []byte {
	data := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(data) // never fails
	return data
}

// blob serves content by ranges.
type blob struct {
	content []byte
	cuts    []int // after how many bytes each answer breaks off; 0, or none left: it does not
	asked   []string
}

func (b *blob) digest() string {
	sum := sha256.Sum256(b.content)
	return hex.EncodeToString(sum[:])
}

func (b *blob) route(q gatewaytest.Request) *gatewaytest.Reply {
	if !strings.HasSuffix(q.Path, "/blob") {
		return nil
	}
	asked := q.Header.Get("Range")
	b.asked = append(b.asked, asked)
	reply := &gatewaytest.Reply{Status: 200, Body: b.content, Header: map[string]string{}}
	from := 0
	if _, err := fmt.Sscanf(asked, "bytes=%d-", &from); err == nil {
		reply.Status = 206
		reply.Body = b.content[from:]
		reply.Whole = b.content
		reply.Header["Content-Range"] = fmt.Sprintf("bytes %d-%d/%d", from, len(b.content)-1, len(b.content))
	}
	if len(b.cuts) > 0 {
		reply.Cut = b.cuts[0]
		b.cuts = b.cuts[1:]
	}
	return reply
}

func fetch(client *transport.Client, d *transport.Download) error {
	_, err := client.Do(context.Background(), transport.Request{Path: blobPath, Into: d})
	return err
}

// TestDownloadGoesOnWhereItBrokeOff: an answer of 3 MiB breaks off twice, and comes as a whole in between. The certificate is renewed.
func TestDownloadGoesOnWhereItBrokeOff(t *testing.T) {
	ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
		b := &blob{content: noise(3 << 20), cuts: []int{1 << 20, 2 << 20}}
		whole := false
		g.Route = func(q gatewaytest.Request) *gatewaytest.Reply {
			if whole {
				q.Header.Del("Range")
			}
			return b.route(q)
		}
		var got bytes.Buffer
		broken := 0
		for fetch(client, &transport.Download{To: &got, Digest: b.digest(), From: int64(got.Len())}) != nil {
			if broken++; broken > 2 {
				t.Fatal("it does not end")
			}
			whole = broken == 1
			client.Use(g.Identity(t))
		}
		if !bytes.Equal(got.Bytes(), b.content) || broken != 2 {
			t.Errorf("%d bytes after %d breaks", got.Len(), broken)
		}
		if len(b.asked) != 3 || b.asked[0] != "" || b.asked[1] != "" || b.asked[2] == "" {
			t.Errorf("asked for %q", b.asked)
		}
	})
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestDownloadToAFullDisk: the gateway is not what failed.
func TestDownloadToAFullDisk(t *testing.T) {
	ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
		b := &blob{content: noise(64 << 10)}
		g.Route = b.route
		if err := fetch(client, &transport.Download{To: full{}, Digest: b.digest()}); !errors.Is(err, errFull) {
			t.Errorf("error %v", err)
		}
	})
}

// TestDownloadTakesNoOtherAnswers: what is not proven to be this content is not written, nor is a part that was not asked for.
func TestDownloadTakesNoOtherAnswers(t *testing.T) {
	var refusal *transport.Refusal
	var unproven *transport.Unproven
	for name, c := range map[string]struct {
		reply   func(b *blob) *gatewaytest.Reply
		tamper  func(*gatewaytest.Reply)
		as      any
		onlyFor string // the mode in which the connection proves nothing; empty: each
	}{
		"a refusal": {func(*blob) *gatewaytest.Reply { return gatewaytest.Refusal(403, wire.CodeRevoked) }, nil, &refusal, ""},
		"a page": {func(*blob) *gatewaytest.Reply {
			return &gatewaytest.Reply{Status: 200, Body: []byte("welcome to this hotel"), Unproven: true}
		}, nil, &unproven, "signed"},
		"another content": {func(b *blob) *gatewaytest.Reply { return &gatewaytest.Reply{Status: 200, Body: b.content[1:]} }, nil, nil, "signed"},
		"a forged proof": {func(b *blob) *gatewaytest.Reply { return &gatewaytest.Reply{Status: 200, Body: b.content} },
			func(r *gatewaytest.Reply) { r.Header[wire.HeaderAnswer] = "forged" }, &unproven, "signed"},
		"another part": {func(b *blob) *gatewaytest.Reply {
			head := map[string]string{"Content-Range": "bytes 7-99/100"}
			return &gatewaytest.Reply{Status: 206, Body: b.content[7:], Whole: b.content, Header: head}
		}, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
				if c.onlyFor != "" && client.Mode() == "mtls" {
					return
				}
				b := &blob{content: noise(1000)}
				g.Route = func(gatewaytest.Request) *gatewaytest.Reply { return c.reply(b) }
				if c.tamper != nil {
					g.Tamper = func(_ gatewaytest.Request, r *gatewaytest.Reply) { c.tamper(r) }
				}
				var got bytes.Buffer
				err := fetch(client, &transport.Download{To: &got, Digest: b.digest(), From: 5})
				if err == nil || c.as != nil && !errors.As(err, c.as) || got.Len() > 0 {
					t.Errorf("%d bytes, error %v", got.Len(), err)
				}
			})
		})
	}
}
