package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
)

// TestASwitchOfProtocolsIsAnAnswer: whoever answers so to no question keeps the connection open, and has no part of the call.
func TestASwitchOfProtocolsIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		pipe := gatewaytest.ServePipe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn)
			close(closed)
		}), nil)
		client, err := transport.New(transport.Config{Gateway: "http://" + gatewaytest.Host, Dial: pipe.Dial})
		if err != nil {
			t.Fatal(err)
		}
		client.Use(gatewaytest.New(t).Identity(t))
		_, err = call(client)
		var unproven *transport.Unproven
		if !errors.As(err, &unproven) || !strings.Contains(err.Error(), "HTTP 101") {
			t.Errorf("error %v", err)
		}
		<-closed
	})
}

// TestLargeHeads: the head of an answer takes no more memory on the direct way than through curl.
func TestLargeHeads(t *testing.T) {
	ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
		size := 0
		g.Tamper = func(_ gatewaytest.Request, r *gatewaytest.Reply) { r.Header["X-Large"] = strings.Repeat("x", size) }
		for _, test := range []struct {
			size int
			fits bool
		}{{48 << 10, true}, {65 << 10, false}} {
			size = test.size
			if _, err := call(client); (err == nil) != test.fits {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
	})
}

// TestDownloadBegunByAnEdge has an edge write the first part to a signed request. Then the gateway's own connection, which proves what
// comes over it, brings the rest: the whole is not proven.
func TestDownloadBegunByAnEdge(t *testing.T) {
	g := gatewaytest.New(t)
	b := &blob{content: noise(64 << 10), tag: `"a"`}
	g.Route = b.route
	edge := gatewaytest.New(t)
	edge.Script = func(gatewaytest.Request) *gatewaytest.Reply {
		head := map[string]string{"Muster-Answer": "forged", "ETag": b.tag}
		return &gatewaytest.Reply{Status: 200, Unproven: true, Cut: 1000, Body: make([]byte, 2000), Header: head}
	}
	public := gatewaytest.NewCA(t, time.Now())
	certificate := public.Server(t, time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 1), gatewaytest.Host)
	network := gatewaytest.ServePipe(t, edge, &certificate)
	client, err := transport.New(transport.Config{
		Gateway: "https://" + gatewaytest.Host, SystemRoots: public.Pool(),
		Dial: func(ctx context.Context, name, address string) (net.Conn, error) {
			return network.Dial(ctx, name, address)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	client.Use(g.Identity(t))
	var got bytes.Buffer
	d := &transport.Download{To: &got, Most: 1 << 20}
	if err := fetch(client, d); err == nil || d.Size() != 1000 {
		t.Fatalf("%d bytes, error %v", d.Size(), err)
	}
	network = gatewaytest.ServePipe(t, g, g.Serving(t))
	for range 2 {
		if _, err := call(client); err != nil {
			t.Fatal(err)
		}
	}
	if client.Mode() != "mtls" {
		t.Fatalf("mode %s", client.Mode())
	}
	if err := fetch(client, d); !errors.Is(err, transport.ErrVoid) {
		t.Errorf("%d bytes, error %v", d.Size(), err)
	}
	got.Reset()
	if err := fetch(client, &transport.Download{To: &got, Most: 1 << 20}); err != nil || !bytes.Equal(got.Bytes(), b.content) {
		t.Errorf("%d bytes, error %v", got.Len(), err)
	}
}
