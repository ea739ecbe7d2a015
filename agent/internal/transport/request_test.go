package transport_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// TestRequestsOfEveryKind: method, query and body arrive as they were signed.
func TestRequestsOfEveryKind(t *testing.T) {
	large := noise(3 << 20)
	for _, test := range []struct {
		name   string
		q      transport.Request
		method string
		body   []byte
	}{
		{"a question", transport.Request{Path: "/x?a=b%20c&d"}, http.MethodGet, nil},
		{"a word", transport.Request{Path: "/x", Kind: "text/plain", Body: []byte("hello")}, http.MethodPost, []byte("hello")},
		{"nothing", transport.Request{Path: "/x", Kind: "text/plain", Body: nil}, http.MethodPost, nil},
		{"a large body", transport.Request{Path: "/x", Kind: "application/octet-stream", Body: large}, http.MethodPost, large},
	} {
		t.Run(test.name, func(t *testing.T) {
			ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
				g.MaxBody = 4 << 20
				g.Route = func(q gatewaytest.Request) *gatewaytest.Reply {
					return &gatewaytest.Reply{Status: http.StatusNoContent}
				}
				answer, err := client.Do(t.Context(), test.q)
				if err != nil || answer.Status != http.StatusNoContent {
					t.Fatalf("status %d, error %v", answer.Status, err)
				}
				got := g.Requests("/x")
				last := got[len(got)-1]
				if last.Method != test.method || !bytes.Equal(last.Body, test.body) {
					t.Errorf("%s with %d bytes", last.Method, len(last.Body))
				}
				if length := last.Header.Get("Content-Length"); len(test.body) > 0 && length == "" {
					t.Error("the length is not said")
				}
			})
		})
	}
}

// TestLargeAnswersOnlyWhereAskedFor: a call that names no bound of its own has the usual one.
func TestLargeAnswersOnlyWhereAskedFor(t *testing.T) {
	ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
		body := noise(wire.MaxBody + 1)
		g.Route = func(gatewaytest.Request) *gatewaytest.Reply { return &gatewaytest.Reply{Status: 200, Body: body} }
		if _, err := client.Do(t.Context(), transport.Request{Path: "/x"}); err == nil ||
			!strings.Contains(err.Error(), "larger than 1048576 bytes") {
			t.Errorf("error %v", err)
		}
		answer, err := client.Do(t.Context(), transport.Request{Path: "/x", Most: wire.MaxBody + 1})
		if err != nil || !bytes.Equal(answer.Body, body) {
			t.Errorf("%d bytes, error %v", len(answer.Body), err)
		}
	})
}

// TestAnswerInMemory: an answer may be put into the memory of an earlier one. One that has no room there has memory of its own.
func TestAnswerInMemory(t *testing.T) {
	ways(t, func(t *testing.T, g *gatewaytest.Gateway, client *transport.Client) {
		memory := make([]byte, 40<<10)
		for _, size := range []int{0, 1, 30 << 10, 40 << 10, 41 << 10, 400 << 10} {
			body := noise(size)
			g.Route = func(gatewaytest.Request) *gatewaytest.Reply { return &gatewaytest.Reply{Status: 200, Body: body} }
			answer, err := client.Do(t.Context(), transport.Request{Path: "/x", Memory: memory})
			if err != nil || !bytes.Equal(answer.Body, body) {
				t.Fatalf("%d of %d bytes, error %v", len(answer.Body), size, err)
			}
			fits := 0 < size && size < len(memory)-bytes.MinRead
			if fits && client.Mode() != "curl" && &answer.Body[0] != &memory[0] {
				t.Errorf("%d bytes are in memory of their own", size)
			}
		}
	})
}

// TestEachRequestHasItsTime: a long poll may take longer than the client's other calls, and a short one less.
func TestEachRequestHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gatewaytest.New(t)
		client := connect(t, g, nil, nil)
		g.Route = func(gatewaytest.Request) *gatewaytest.Reply {
			time.Sleep(55 * time.Second)
			return &gatewaytest.Reply{Status: 204}
		}
		if _, err := client.Do(t.Context(), transport.Request{Path: "/wait", Timeout: 70 * time.Second}); err != nil {
			t.Error(err)
		}
		for timeout, said := range map[time.Duration]string{0: "within 30s", 5 * time.Second: "within 5s"} {
			_, err := client.Do(t.Context(), transport.Request{Path: "/wait", Timeout: timeout})
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), said) {
				t.Errorf("error %v", err)
			}
		}
		time.Sleep(time.Minute)
	})
}
