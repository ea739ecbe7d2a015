package transport_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
)

// slowFile takes a second for each piece, once it is slow.
type slowFile struct {
	slow          atomic.Bool
	began, inside atomic.Int64
}

func (f *slowFile) ReadAt(data []byte, _ int64) (int, error) {
	f.began.Add(1)
	f.inside.Add(1)
	defer f.inside.Add(-1)
	if f.slow.Load() {
		time.Sleep(time.Second)
	}
	return len(data), nil
}

// TestBodyIsLeftAloneAfterTheCall: the answer comes before all of the body was sent. Its owner may then change or close the file.
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
		file := &slowFile{}
		body, err := transport.Section("application/octet-stream", file, 0, 8<<20)
		if err != nil {
			t.Fatal(err)
		}
		file.slow.Store(true)
		if _, err := client.Do(t.Context(), transport.Request{Path: "/x", Body: body}); err == nil {
			t.Error("no error")
		}
		began := file.began.Load()
		inside := file.inside.Load()
		time.Sleep(10 * time.Second)
		if later := file.began.Load() - began; inside > 0 || later > 0 {
			t.Errorf("%d reads were under way when the call returned, %d began later", inside, later)
		}
	})
}

// TestCurlLeavesTheBodyAlone has curl end before it has read all.
func TestCurlLeavesTheBodyAlone(t *testing.T) {
	client := curlClient(t, "http://127.0.0.1:1", nil, nil)
	client.Use(gatewaytest.New(t).Identity(t))
	file := &slowFile{}
	body, err := transport.Section("application/octet-stream", file, 0, 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	file.slow.Store(true)
	if _, err := client.Do(t.Context(), transport.Request{Path: "/x", Body: body}); err == nil {
		t.Error("no error")
	}
	if inside := file.inside.Load(); inside > 0 {
		t.Errorf("%d reads were under way when the call returned", inside)
	}
}
