package remote_test

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/pipe"
	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/remote"
	"muster/gateway/internal/cli/remote/standin"
	"muster/gateway/internal/client"
)

// ways are those by which an operator reaches a gateway.
func ways(t *testing.T, routes http.Handler) map[string]client.Target {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // a test's own directory can be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, client.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	socket := &httptest.Server{Listener: listener, Config: &http.Server{Handler: routes}}
	socket.Start()
	t.Cleanup(socket.Close)

	token, err := sign.NewToken(sign.AccountToken, crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	mux.Handle(wire.PrefixAdmin, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token.Reveal() {
			t.Errorf("a request without its token: %s %s", r.Method, r.URL.Path)
		}
		routes.ServeHTTP(w, r)
	}))
	mux.HandleFunc(wire.PathRoots, func(w http.ResponseWriter, _ *http.Request) {
		_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	})
	pin := sha256.Sum256(server.Certificate().RawSubjectPublicKeyInfo)

	origin := httptest.NewServer(mux)
	t.Cleanup(origin.Close)
	behind, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind) }})
	t.Cleanup(proxy.Close)
	bundle := filepath.Join(dir, "proxy.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]client.Target{
		"socket": {DataDir: dir},
		"tls":    {URL: server.URL, Token: token.Reveal(), RootPin: "sha256:" + hex.EncodeToString(pin[:])},
		"proxy":  {URL: proxy.URL, Token: token.Reveal(), CAFile: bundle},
	}
}

func dial(t *testing.T, target client.Target) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.HTTP.CloseIdleConnections() })
	return c
}

// echoes is a node that says Ready and a notice, gives back all input, and exits with 7.
func echoes(s *standin.Session) {
	_ = pipe.WriteFrame(s.Main, pipe.FrameNotice, []byte("this session is recorded"))
	_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{User: "ada"})
	for frames := pipe.NewFrames(s.Main); ; {
		kind, data, err := frames.Next()
		switch {
		case err != nil:
			return
		case kind == pipe.FrameInput:
			_ = pipe.WriteFrame(s.Main, pipe.FrameOutput, data)
		case kind == pipe.FrameInputEnd:
			_ = pipe.WriteJSON(s.Main, pipe.FrameExit, pipe.Exit{Code: 7})
			_ = s.Main.CloseWrite()
			return
		}
	}
}

// TestCarries: some megabytes go to the node and come back byte for byte, by every way.
func TestCarries(t *testing.T) {
	gateway := &standin.Gateway{Play: echoes}
	for name, target := range ways(t, gateway) {
		t.Run(name, func(t *testing.T) {
			ask := api.SessionAsk{Type: wire.SessionExec, Params: json.RawMessage(`{"command":["cat"]}`)}
			s, err := remote.Open(t.Context(), dial(t, target), "gpu-1", ask)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var notices []string
			s.Notice = func(line string) { notices = append(notices, line) }
			ready, err := s.Begin()
			if err != nil || ready.User != "ada" || len(notices) != 1 {
				t.Fatalf("%+v, %v, %q", ready, err, notices)
			}
			sent := random(3<<20 + 5)
			go func() {
				for rest := sent; len(rest) > 0; {
					n := min(len(rest), pipe.MaxFrame)
					_ = s.Send(pipe.FrameInput, rest[:n])
					rest = rest[n:]
				}
				_ = s.Send(pipe.FrameInputEnd, nil)
			}()
			got, exit := collect(t, s)
			if !bytes.Equal(got, sent) || exit.Code != 7 {
				t.Errorf("%d bytes came back of %d, exit %+v", len(got), len(sent), exit)
			}
		})
	}
}

func random(n int) []byte {
	all := make([]byte, n)
	for i := range all {
		all[i] = byte(rand.Uint32())
	}
	return all
}

func collect(t *testing.T, s *remote.Session) ([]byte, pipe.Exit) {
	t.Helper()
	var got []byte
	for {
		kind, data, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if kind == pipe.FrameOutput {
			got = append(got, data...)
		}
		if kind == pipe.FrameExit {
			exit, err := remote.ReadExit(data)
			if err != nil {
				t.Fatal(err)
			}
			return got, exit
		}
	}
}

// TestProxyPage: the page of a proxy whose gateway is away is no last word. The session goes on, and who asked to be told is told once.
func TestProxyPage(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusForbidden, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			gateway := &standin.Gateway{Play: echoes}
			s, err := remote.Open(t.Context(), dial(t, ways(t, gateway)["socket"]), "gpu-1", api.SessionAsk{Type: wire.SessionExec})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			lost := make(chan error, 8)
			s.Trouble = func(err error) { lost <- err }
			if _, err := s.Begin(); err != nil {
				t.Fatal(err)
			}
			gateway.Away(status)
			if err := s.Send(pipe.FrameInput, []byte("still here")); err != nil {
				t.Fatal(err)
			}
			if err := <-lost; err == nil {
				t.Fatal("the way is good before it was bad")
			}
			gateway.Away(0)
			if err := <-lost; err != nil {
				t.Errorf("the way is good, and this is told: %v", err)
			}
			if err := s.Send(pipe.FrameInputEnd, nil); err != nil {
				t.Fatal(err)
			}
			if got, exit := collect(t, s); string(got) != "still here" || exit.Code != 7 {
				t.Errorf("%q, %+v", got, exit)
			}
		})
	}
}

// TestRefusals: what the gateway and the node refuse comes with its code and its words.
func TestRefusals(t *testing.T) {
	gateway := &standin.Gateway{Refuse: &wire.ErrorDetail{Code: wire.CodeNotFound, Message: "there is no node gpu-9", Hint: "muster node ls"}}
	c := dial(t, ways(t, gateway)["socket"])
	var said *wire.ErrorDetail
	if _, err := remote.Open(t.Context(), c, "gpu-9", api.SessionAsk{}); !errors.As(err, &said) || said.Hint != "muster node ls" {
		t.Errorf("got %v", err)
	}
	for name, c := range map[string]struct {
		play  func(*standin.Session)
		wants string
	}{
		"by the node": {func(s *standin.Session) {
			_ = pipe.WriteJSON(s.Main, pipe.FrameRefused, wire.SessionRefused{Code: "policy_forbids", Message: "the policy forbids shells"})
		}, "the policy forbids shells"},
		"by the gateway":    {func(s *standin.Session) { s.End("the node did not take it") }, "the node did not take it"},
		"without a word":    {func(s *standin.Session) { _ = s.Main.CloseWrite() }, "did not say how it went"},
		"a refusal is torn": {func(s *standin.Session) { _ = pipe.WriteFrame(s.Main, pipe.FrameRefused, []byte("{")) }, "does not understand"},
		"an end at once": {func(s *standin.Session) {
			_ = pipe.WriteJSON(s.Main, pipe.FrameExit, pipe.Exit{Code: 126, Error: "exec format error"})
		}, "did not begin the session: exec format error"},
		"ready is torn": {func(s *standin.Session) { _ = pipe.WriteFrame(s.Main, pipe.FrameReady, []byte("{")) }, "does not understand"},
		"a frame is torn": {func(s *standin.Session) {
			_, _ = s.Main.Write([]byte{byte(pipe.FrameOutput), 0, 0, 0, 9, 'x'})
			_ = s.Main.CloseWrite()
		}, "did not say how it went"},
	} {
		t.Run(name, func(t *testing.T) {
			gateway := &standin.Gateway{Play: c.play}
			s, err := remote.Open(t.Context(), dial(t, ways(t, gateway)["socket"]), "gpu-1", api.SessionAsk{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Begin(); err == nil || !strings.Contains(err.Error(), c.wants) {
				t.Errorf("got %v, want %q", err, c.wants)
			}
		})
	}
	if _, err := remote.ReadExit([]byte("{")); err == nil {
		t.Error("a torn exit is read")
	}
}

// TestLeave: the node sees the end of what the operator sends. If it takes nothing more, the gateway is asked to end the session.
func TestLeave(t *testing.T) {
	t.Run("it reads", func(t *testing.T) {
		hung := make(chan error, 1)
		gateway := &standin.Gateway{Play: func(s *standin.Session) {
			_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{})
			_, _, err := pipe.NewFrames(s.Main).Next()
			hung <- err
		}}
		s, err := remote.Open(t.Context(), dial(t, ways(t, gateway)["socket"]), "gpu-1", api.SessionAsk{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Begin(); err != nil {
			t.Fatal(err)
		}
		s.Leave()
		if err := <-hung; !errors.Is(err, io.EOF) {
			t.Errorf("the node got %v", err)
		}
		<-s.Over()
	})
	t.Run("it reads nothing", func(t *testing.T) {
		killed := make(chan struct{})
		gateway := &standin.Gateway{Play: func(s *standin.Session) {
			<-s.Killed
			close(killed)
		}}
		s, err := remote.Open(t.Context(), dial(t, ways(t, gateway)["socket"]), "gpu-1", api.SessionAsk{})
		if err != nil {
			t.Fatal(err)
		}
		for range wire.PipeRoom/pipe.MaxFrame + 2 { // more than the gateway has room for
			if err := s.Send(pipe.FrameInput, make([]byte, pipe.MaxFrame)); err != nil {
				t.Fatal(err)
			}
		}
		s.Leave()
		<-killed
	})
	t.Run("it is over already", func(t *testing.T) {
		opened := make(chan *standin.Session, 1)
		gateway := &standin.Gateway{Play: func(s *standin.Session) { opened <- s }}
		s, err := remote.Open(t.Context(), dial(t, ways(t, gateway)["socket"]), "gpu-1", api.SessionAsk{})
		if err != nil {
			t.Fatal(err)
		}
		there := <-opened
		there.End("the node ended it")
		s.Leave()
		select {
		case <-there.Killed:
			t.Error("the gateway was asked to end what has ended")
		default:
		}
	})
	t.Run("its context has ended", func(t *testing.T) {
		killed := make(chan struct{})
		gateway := &standin.Gateway{Play: func(s *standin.Session) {
			<-s.Killed
			close(killed)
		}}
		ctx, cancel := context.WithCancel(t.Context())
		s, err := remote.Open(ctx, dial(t, ways(t, gateway)["socket"]), "gpu-1", api.SessionAsk{})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		s.Leave()
		<-killed
	})
}

// TestChannels: bytes of another channel go beside the frames.
func TestChannels(t *testing.T) {
	gateway := &standin.Gateway{Play: func(s *standin.Session) {
		end := pipe.Open(context.Background(), s, 3)
		_, _ = io.Copy(end, end)
		_ = end.CloseWrite()
	}}
	s, err := remote.Open(t.Context(), dial(t, ways(t, gateway)["socket"]), "gpu-1", api.SessionAsk{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	end := s.Channel(3)
	if _, err := end.Write([]byte("raw bytes")); err != nil {
		t.Fatal(err)
	}
	if err := end.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(end); err != nil || string(got) != "raw bytes" {
		t.Errorf("%q, %v", got, err)
	}
}
