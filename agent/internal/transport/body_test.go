package transport_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
)

// TestBodyIsLeftAloneAfterTheCall: the answer comes before all of the body was sent. Its owner may then change it: the race detector would
// tell.
func TestBodyIsLeftAloneAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := gatewaytest.ServePipe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.CopyN(io.Discard, r.Body, 64<<10); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second / 2)
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}), nil)
		client, err := transport.New(transport.Config{Gateway: "http://" + gatewaytest.Host, Dial: pipe.Dial})
		if err != nil {
			t.Fatal(err)
		}
		client.Use(gatewaytest.New(t).Identity(t))
		data := noise(8 << 20)
		if _, err := client.Do(t.Context(), transport.Request{Path: "/x", Kind: "application/octet-stream", Body: data}); err == nil {
			t.Error("no error")
		}
		clear(data)
		time.Sleep(10 * time.Second)
	})
}

// TestCurlLeavesTheBodyAlone has curl end before it has read all.
func TestCurlLeavesTheBodyAlone(t *testing.T) {
	client := curlClient(t, "http://127.0.0.1:1", nil, nil)
	client.Use(gatewaytest.New(t).Identity(t))
	data := noise(8 << 20)
	if _, err := client.Do(t.Context(), transport.Request{Path: "/x", Kind: "application/octet-stream", Body: data}); err == nil {
		t.Error("no error")
	}
	clear(data)
}
