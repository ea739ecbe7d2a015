package transport_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

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
