package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/wire"
)

// TestTaskWays: over every way to the gateway a task is fetched at once, its output comes while it runs, a cancel reaches it, and its
// result counts. A gateway that stops waits for no node.
func TestTaskWays(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--plain-listen", "127.0.0.1:0", "--trusted-proxy", "127.0.0.1")
	plain := strings.TrimPrefix(h.gateway.await("without TLS: "), "without TLS: ")
	engine := podman(t)
	var waits atomic.Int32
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: plain})
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tasks/wait") {
			waits.Add(1)
			defer waits.Add(-1)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	roots := filepath.Join(h.data, "proxy.pem")
	writePEM(t, roots, proxy.Certificate().Raw)
	env := []string{"SSL_CERT_FILE=" + roots, "CURL_CA_BUNDLE=" + roots, "PATH=" + engine + ":" + os.Getenv("PATH")}
	ways := []way{{"mtls", h.url, "direct", "tls:"}, {"signed", proxy.URL, "direct", `{"content-digest":`},
		{"curl", h.url, "curl", `{"content-digest":`}, {"curl-proxy", proxy.URL, "curl", `{"content-digest":`}}
	for _, w := range ways {
		start(t, "agent "+w.name, append(env, "MUSTER_TOKEN="+h.token()), agentBinary(t), "run", "--gateway", w.url, "--name", w.name,
			"--state", filepath.Join(h.data, "agent-"+w.name), "--transport", w.transport, "--no-gpu") // it reports every 30 s
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			h.until(w.name+" is online", func() bool { return h.online(w.name) })
			w.cancel(t, h, engine)
			w.complete(t, h, engine)
		})
	}
	h.until("the nodes behind the proxy wait for work", func() bool { return waits.Load() == 2 })
	began := time.Now()
	h.gateway.stop()
	if took := time.Since(began); took > shutdownTime/2 {
		t.Errorf("the gateway waited for nodes that wait: it took %s to stop", took)
	} else {
		t.Logf("the gateway stopped within %s", took)
	}
}

// way is a way to the gateway, and how the proof of a result begins that came over it.
type way struct{ name, url, transport, proof string }

// wayTask is what this test reads of a task.
type wayTask struct {
	ID, Status, Proof string
	ClaimedAt         time.Time `json:"claimed_at"`
	CreatedAt         time.Time `json:"created_at"`
	Output            struct{ Head string }
}

func (w way) task(t *testing.T, h *house, args ...string) wayTask {
	t.Helper()
	var got wayTask
	text := h.muster(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v: %v in %s", args, err, text)
	}
	return got
}

// up puts a container there, which takes its time to stop.
func (w way) up(t *testing.T, engine string) {
	t.Helper()
	for _, name := range []string{"up.", "hold."} {
		if err := os.WriteFile(filepath.Join(engine, name+w.name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// cancel ends a task that is at work.
func (w way) cancel(t *testing.T, h *house, engine string) {
	w.up(t, engine)
	id := w.task(t, h, "task", "run", w.name, wire.TaskWorkloadStop, "name="+w.name).ID
	h.until("its output is there while it runs", func() bool {
		got := w.task(t, h, "task", "show", id)
		return got.Status == wire.TaskRunning && got.Output.Head == "podman stops "+w.name+"\n"
	})
	h.muster("task", "cancel", id)
	h.until("the task is canceled", func() bool { return w.task(t, h, "task", "show", id).Status == wire.TaskCanceled })
}

// complete does a task to its end.
func (w way) complete(t *testing.T, h *house, engine string) {
	_ = os.Remove(filepath.Join(engine, "hold."+w.name))
	got := w.task(t, h, "task", "run", w.name, wire.TaskWorkloadStatus, "--wait")
	if got.Status != wire.TaskCompleted || !strings.HasPrefix(got.Proof, w.proof) {
		t.Errorf("got %+v", got)
	}
	if took := got.ClaimedAt.Sub(got.CreatedAt); took > 10*time.Second {
		t.Errorf("the node fetched it after %s: its wait was not ended", took)
	}
}
