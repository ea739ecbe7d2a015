package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	tag     string
	cuts    []int // after how many bytes each answer breaks off; 0, or none left: it does not
	asked   []string
}

func (b *blob) route(q gatewaytest.Request) *gatewaytest.Reply {
	if !strings.HasSuffix(q.Path, "/blob") {
		return nil
	}
	asked := q.Header.Get("Range")
	b.asked = append(b.asked, asked)
	reply := &gatewaytest.Reply{Status: 200, Body: b.content, Header: map[string]string{"ETag": b.tag}}
	from := 0
	if _, err := fmt.Sscanf(asked, "bytes=%d-", &from); err == nil && q.Header.Get("If-Range") == b.tag {
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

// TestDownloadGoesOnWhereItBrokeOff: an answer of 3 MiB breaks off twice.
func TestDownloadGoesOnWhereItBrokeOff(t *testing.T) {
	ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
		b := &blob{content: noise(3 << 20), tag: `"a"`, cuts: []int{1 << 20, 1 << 20}}
		g.Route = b.route
		var got bytes.Buffer
		d := &transport.Download{To: &got, Most: 3 << 20}
		broken := 0
		for fetch(client, d) != nil {
			if broken++; broken > 2 {
				t.Fatal("it does not end")
			}
		}
		if !bytes.Equal(got.Bytes(), b.content) || d.Size() != 3<<20 || broken != 2 {
			t.Errorf("%d bytes after %d breaks", got.Len(), broken)
		}
		if len(b.asked) != 3 || b.asked[0] != "" || b.asked[1] == "" || b.asked[2] == b.asked[1] {
			t.Errorf("asked for %q", b.asked)
		}
	})
}

// TestDownloadUnderAnotherIdentity: a download goes on after the certificate was renewed.
func TestDownloadUnderAnotherIdentity(t *testing.T) {
	ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
		b := &blob{content: noise(64 << 10), tag: `"a"`, cuts: []int{40 << 10}}
		g.Route = b.route
		var got bytes.Buffer
		d := &transport.Download{To: &got, Most: 1 << 20}
		if fetch(client, d) == nil {
			t.Fatal("it did not break off")
		}
		client.Use(g.Identity(t))
		if err := fetch(client, d); err != nil || !bytes.Equal(got.Bytes(), b.content) {
			t.Errorf("%d bytes, error %v", got.Len(), err)
		}
	})
}

// TestDownloadIsOfNoUse: a download that cannot be proven or written any more ends with ErrVoid, and so does every later call with it.
func TestDownloadIsOfNoUse(t *testing.T) {
	for _, test := range []struct {
		name   string
		most   int64
		tag    string
		then   func(b *blob)
		said   string
		breaks bool // first it breaks off
	}{
		{"too large", 100, `"a"`, nil, "larger than 100 bytes", false},
		{"another content", 1 << 20, `"a"`, func(b *blob) { b.tag = `"b"` }, "another one", true},
		{"a weak tag", 1 << 20, `W/"a"`, nil, "nothing tells", true},
		{"shorter by now", 1 << 20, `"a"`, func(b *blob) { b.content = b.content[:1] }, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
				b := &blob{content: noise(64 << 10), tag: test.tag}
				g.Route = b.route
				d := &transport.Download{To: io.Discard, Most: test.most}
				if test.breaks {
					b.cuts = []int{32 << 10}
					if err := fetch(client, d); err == nil || errors.Is(err, transport.ErrVoid) {
						t.Fatalf("error %v", err)
					}
				}
				if test.then != nil {
					test.then(b)
				}
				if test.name == "shorter by now" {
					g.Route = func(gatewaytest.Request) *gatewaytest.Reply { return gatewaytest.Refusal(416, wire.CodeBadRequest) }
				}
				for range 2 {
					if err := fetch(client, d); !errors.Is(err, transport.ErrVoid) || !strings.Contains(err.Error(), test.said) {
						t.Errorf("error %v", err)
					}
				}
			})
		})
	}
}

// full is a disk without room at first.
type full struct{ writes int }

func (f *full) Write(data []byte) (int, error) {
	if f.writes++; f.writes == 1 {
		return 0, errors.New("no space left on device")
	}
	return len(data), nil
}

func TestDownloadToAFullDisk(t *testing.T) {
	ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
		g.Route = (&blob{content: noise(64 << 10), tag: `"a"`}).route
		d := &transport.Download{To: &full{}, Most: 1 << 20}
		for range 2 {
			if err := fetch(client, d); !errors.Is(err, transport.ErrVoid) || !strings.Contains(err.Error(), "no space left") {
				t.Errorf("error %v", err)
			}
		}
	})
}

// TestDownloadProvenAsAWhole changes one byte of the first part. Then the parts together are not the content that the gateway proves.
func TestDownloadProvenAsAWhole(t *testing.T) {
	signed := func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
		b := &blob{content: noise(64 << 10), tag: `"a"`, cuts: []int{32 << 10}}
		g.Route = b.route
		g.Tamper = func(q gatewaytest.Request, r *gatewaytest.Reply) {
			if r.Cut > 0 {
				r.Body = bytes.Clone(r.Body)
				r.Body[7]++
			}
		}
		d := &transport.Download{To: io.Discard, Most: 1 << 20}
		if err := fetch(client, d); err == nil || errors.Is(err, transport.ErrVoid) {
			t.Fatalf("error %v", err)
		}
		err := fetch(client, d)
		var unproven *transport.Unproven
		if !errors.As(err, &unproven) || !errors.Is(err, transport.ErrVoid) {
			t.Errorf("error %v", err)
		}
	}
	ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
		if client.Mode() != "mtls" { // there the connection proves each part
			signed(t, g, client)
		}
	})
}

// TestDownloadTakesNoOtherAnswers: a page without a proof and a refusal are not written, and the download can go on.
func TestDownloadTakesNoOtherAnswers(t *testing.T) {
	ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
		b := &blob{content: noise(64 << 10), tag: `"a"`, cuts: []int{32 << 10}}
		var got bytes.Buffer
		d := &transport.Download{To: &got, Most: 1 << 20}
		g.Route = b.route
		if fetch(client, d) == nil {
			t.Fatal("it did not break off")
		}
		g.Route = func(gatewaytest.Request) *gatewaytest.Reply { return gatewaytest.Refusal(403, wire.CodeRevoked) }
		var refusal *transport.Refusal
		if err := fetch(client, d); !errors.As(err, &refusal) || errors.Is(err, transport.ErrVoid) {
			t.Errorf("error %v", err)
		}
		if client.Mode() != "mtls" {
			g.Route = func(gatewaytest.Request) *gatewaytest.Reply {
				return &gatewaytest.Reply{Status: 200, Body: []byte("welcome to this hotel"), Unproven: true}
			}
			var unproven *transport.Unproven
			if err := fetch(client, d); !errors.As(err, &unproven) || errors.Is(err, transport.ErrVoid) {
				t.Errorf("error %v", err)
			}
		}
		g.Route = b.route
		if err := fetch(client, d); err != nil || !bytes.Equal(got.Bytes(), b.content) {
			t.Errorf("%d bytes, error %v", got.Len(), err)
		}
	})
}

// TestDownloadOfPieces: a server may send less than the rest. Then the next call asks for what is missing.
func TestDownloadOfPieces(t *testing.T) {
	ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
		b := &blob{content: noise(64 << 10), tag: `"a"`, cuts: []int{1}}
		g.Route = func(q gatewaytest.Request) *gatewaytest.Reply {
			reply := b.route(q)
			if reply != nil && reply.Status == 206 {
				reply.Body = reply.Body[:min(len(reply.Body), 30<<10)]
			}
			return reply
		}
		var got bytes.Buffer
		d := &transport.Download{To: &got, Most: 1 << 20}
		tries := 1
		for fetch(client, d) != nil && tries < 10 {
			tries++
		}
		if tries != 4 || !bytes.Equal(got.Bytes(), b.content) {
			t.Errorf("%d bytes after %d tries", got.Len(), tries)
		}
	})
}
