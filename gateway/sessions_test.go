package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
)

// TestSessionWays: over every way to the gateway an operator reaches a node: a program's output comes, a shell ends with its status, and a
// session that somebody ends is over for its program too.
func TestSessionWays(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--plain-listen", "127.0.0.1:0", "--trusted-proxy", "127.0.0.1")
	plain := strings.TrimPrefix(h.gateway.await("without TLS: "), "without TLS: ")
	proxy := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: plain}))
	t.Cleanup(proxy.Close)
	roots := filepath.Join(h.data, "proxy.pem")
	writePEM(t, roots, proxy.Certificate().Raw)
	env := []string{"SSL_CERT_FILE=" + roots, "CURL_CA_BUNDLE=" + roots}
	ways := []way{{"mtls", h.url, "direct", ""}, {"signed", proxy.URL, "direct", ""}, {"curl", proxy.URL, "curl", ""}}
	for _, w := range ways {
		start(t, "agent "+w.name, append(env, "MUSTER_TOKEN="+h.token()), agentBinary(t), "run", "--gateway", w.url, "--name", w.name,
			"--state", filepath.Join(h.data, "agent-"+w.name), "--transport", w.transport, "--no-gpu")
	}
	c, err := client.Dial(t.Context(), client.Target{DataDir: h.data})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			h.until(w.name+" is online", func() bool { return h.online(w.name) })
			got, end := h.runSession(t, c, w.name, wire.SessionExec, `{"command":["echo","hello"]}`, "")
			if got != "hello\n" || end.ExitCode == nil || *end.ExitCode != 0 || *end.BytesOut == 0 {
				t.Errorf("echo: %q, %+v", got, end)
			}
			got, end = h.runSession(t, c, w.name, wire.SessionShell, `{"command":["/bin/sh"]}`, "echo $((40+2)); exit 3\n")
			if !strings.Contains(got, "42\r\n") || end.ExitCode == nil || *end.ExitCode != 3 || !end.Recorded {
				t.Errorf("shell: %q, %+v", got, end)
			}
			w.killed(t, h, c)
		})
	}
	h.gateway.stop()
}

// TestSessionHearsAHangUp: nohup(1) has the agent ignore hang-ups. The programs of its sessions do not ignore them.
func TestSessionHearsAHangUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	start(t, "agent", []string{"MUSTER_TOKEN=" + h.token()}, "/usr/bin/nohup", agentBinary(t), "run", "--gateway", h.url, "--name", "one",
		"--state", filepath.Join(h.data, "agent-one"), "--no-gpu")
	c, err := client.Dial(t.Context(), client.Target{DataDir: h.data})
	if err != nil {
		t.Fatal(err)
	}
	h.until("online", func() bool { return h.online("one") })
	got, _ := h.runSession(t, c, "one", wire.SessionExec, `{"command":["grep","SigIgn","/proc/self/status"]}`, "")
	_, mask, _ := strings.Cut(strings.TrimSpace(got), "\t")
	if ignored, err := strconv.ParseUint(mask, 16, 64); err != nil || ignored&1 != 0 {
		t.Errorf("%q, %v", got, err)
	}
}

// killed ends a session whose program would go on for long.
func (w way) killed(t *testing.T, h *house, c *client.Client) {
	s, err := client.Send[api.Session](t.Context(), c, "POST", api.At(api.PathNodeSessions, w.name), api.SessionAsk{Type: wire.SessionExec,
		Params: json.RawMessage(`{"command":["sleep","1000"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	end := pipe.Open(t.Context(), sessionWay{c, w.name, s.ID}, pipe.Main)
	frames := pipe.NewFrames(end)
	if kind, data, err := frames.Next(); err != nil || kind != pipe.FrameReady {
		t.Fatalf("got %c %s, %v", kind, data, err)
	}
	if s, err = client.Send[api.Session](t.Context(), c, "DELETE", api.At(api.PathNodeSession, w.name, s.ID), nil); err != nil ||
		s.Status != api.SessionEnded {
		t.Errorf("got %+v, %v", s, err)
	}
	if _, _, err := frames.Next(); err == nil {
		t.Error("it goes on")
	}
	events := h.muster("events", "--kind", "session.killed", "--node", w.name)
	if !strings.Contains(events, "session.killed") {
		t.Errorf("no event says so:\n%s", events)
	}
}

// runSession opens a session, sends it some input, and reads to its end.
func (h *house) runSession(t *testing.T, c *client.Client, node, kind, params, input string) (output string, s api.Session) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	s, err := client.Send[api.Session](ctx, c, "POST", api.At(api.PathNodeSessions, node), api.SessionAsk{Type: kind,
		Params: json.RawMessage(params)})
	if err != nil {
		t.Fatal(err)
	}
	end := pipe.Open(ctx, sessionWay{c, node, s.ID}, pipe.Main)
	frames := pipe.NewFrames(end)
	for {
		kind, data, err := frames.Next()
		if err != nil {
			t.Fatalf("after %q: %v", output, err)
		}
		switch kind {
		case pipe.FrameReady:
			if input != "" {
				err = pipe.WriteFrame(end, pipe.FrameInput, []byte(input))
			}
		case pipe.FrameOutput, pipe.FrameError:
			output += string(data)
		case pipe.FrameRefused:
			err = errors.New(string(data))
		}
		if err != nil {
			t.Fatal(err)
		}
		if kind == pipe.FrameExit {
			break
		}
	}
	h.until("the session is on record as ended", func() bool { // the operator's end hears of the exit first
		s, err = client.Get[api.Session](ctx, c, api.At(api.PathNodeSession, node, s.ID), nil)
		return err != nil || s.Status == api.SessionEnded
	})
	if err != nil {
		t.Fatal(err)
	}
	return output, s
}

// sessionWay carries pieces of one session over the admin API.
type sessionWay struct {
	*client.Client
	node, id string
}

func (w sessionWay) Send(ctx context.Context, channel int, at int64, p pipe.Piece) (int64, error) {
	return w.SendPiece(ctx, w.node, w.id, channel, at, p)
}

func (w sessionWay) Fetch(ctx context.Context, channel int, at int64, _ []byte) (pipe.Piece, error) {
	return w.FetchPiece(ctx, w.node, w.id, channel, at, wire.PieceWait)
}
