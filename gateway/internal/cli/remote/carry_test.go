package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/cli/remote/standin"
)

// louder is a node with a server that gives back what it got, in upper case. It refuses the connections of these channels.
func louder(refused ...int) func(*standin.Session) {
	return func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{})
		frames := pipe.NewFrames(s.Main)
		for {
			kind, data, err := frames.Next()
			if err != nil {
				_ = pipe.WriteJSON(s.Main, pipe.FrameExit, pipe.Exit{})
				return
			}
			var asked pipe.Dial
			if kind != pipe.FrameDial || json.Unmarshal(data, &asked) != nil {
				continue
			}
			end := pipe.Open(context.Background(), s, asked.Channel)
			answer := pipe.Dialed{Channel: asked.Channel}
			for _, n := range refused {
				if n == asked.Channel {
					answer.Error = "nothing listens there"
				}
			}
			_ = pipe.WriteJSON(s.Main, pipe.FrameDialed, answer)
			go func() {
				all, _ := io.ReadAll(end)
				_, _ = end.Write(bytes.ToUpper(all))
				_ = end.CloseWrite()
			}()
		}
	}
}

func TestProxy(t *testing.T) {
	h := newTunnels(t, louder())
	question := strings.Repeat("question ", 100_000)
	h.stdin = strings.NewReader(question)
	if got := h.done("node", "proxy", "gpu-1", "22"); got != strings.ToUpper(question) {
		t.Errorf("%d bytes of %d", len(got), len(question))
	}
	var p wire.ForwardParams
	if h.params(&p); p.Port != 22 || p.Host != "" {
		t.Errorf("%+v", p)
	}
	h.stdin = strings.NewReader("x")
	h.done("node", "proxy", "gpu-1", "5432", "--host", "db")
	if h.params(&p); p.Port != 5432 || p.Host != "db" {
		t.Errorf("%+v", p)
	}
}

// TestProxyPatient: the end of the node's side ends the command, also if nobody ends its standard input.
func TestProxyPatient(t *testing.T) {
	h := newTunnels(t, func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{})
		_, _, _ = pipe.NewFrames(s.Main).Next()
		_ = pipe.WriteJSON(s.Main, pipe.FrameDialed, pipe.Dialed{Channel: 1})
		end := pipe.Open(context.Background(), s, 1)
		_, _ = end.Write([]byte("SSH-2.0\r\n"))
		_ = end.CloseWrite()
		_, _ = io.Copy(io.Discard, end)
	})
	open, _ := io.Pipe()
	h.stdin = open
	if got := h.done("node", "proxy", "gpu-1", "22"); got != "SSH-2.0\r\n" {
		t.Errorf("%q", got)
	}
}

func TestProxyFails(t *testing.T) {
	newTunnels(t, louder(1)).fails(1,
		"nothing listens there\n  hint: if the node has no sshd: muster ssh gpu-1 opens a shell", "node", "proxy", "gpu-1", "22")
	over := newTunnels(t, func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{})
		s.End("an operator ended it")
	})
	over.fails(1, "an operator ended it", "node", "proxy", "gpu-1", "22")
	ended := newTunnels(t, func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{})
		_ = pipe.WriteJSON(s.Main, pipe.FrameExit, pipe.Exit{Code: 1, Error: "the agent stops"})
	})
	ended.fails(1, "the agent stops", "node", "proxy", "gpu-1", "22")
	for name, patient := range map[string]io.Reader{"ended": strings.NewReader("x"), "open": endless(t)} {
		revoked := newTunnels(t, func(s *standin.Session) { // while bytes flow
			_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{})
			_, _, _ = pipe.NewFrames(s.Main).Next()
			_ = pipe.WriteJSON(s.Main, pipe.FrameDialed, pipe.Dialed{Channel: 1})
			end := pipe.Open(context.Background(), s, 1)
			_, _ = end.Write([]byte("SSH-2.0\r\n"))
			_, _ = end.Read(make([]byte, 1))
			s.End("its account may not have it any more")
		})
		revoked.stdin = patient
		t.Log("standard input", name)
		revoked.fails(1, "its account may not have it any more", "node", "proxy", "gpu-1", "22")
	}
	h := newTunnels(t, nil)
	h.fails(2, "is not a port", "node", "proxy", "gpu-1", "0")
	h.fails(2, "is not a port", "node", "proxy", "gpu-1", "ssh")
	h.gateway.Refuse = wire.Refuse(wire.CodeNotFound, "there is no node gpu-9", "")
	h.fails(1, "there is no node gpu-9", "node", "proxy", "gpu-9", "22")
}

// endless is an input of one byte that nobody ends.
func endless(t *testing.T) io.Reader {
	t.Helper()
	reader, writer := io.Pipe()
	go func() { _, _ = writer.Write([]byte("x")) }()
	t.Cleanup(func() { writer.Close() })
	return reader
}

// forwarded runs the command, and gives where it listens. over waits for its end, and stop is ^C before that.
func forwarded(t *testing.T, h *tunnels, args ...string) (addresses []string, stop, over func() (int, string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	type end struct {
		code   int
		stderr string
	}
	ended := make(chan end, 1)
	go func() {
		code, stderr := h.run(ctx, writer, append([]string{"node", "forward"}, args...)...)
		writer.Close()
		ended <- end{code, stderr}
	}()
	for range args[1:] {
		var address, rest string
		if _, err := fmt.Fscanf(reader, "%s leads to port %s of gpu-1\n", &address, &rest); err != nil {
			cancel()
			t.Fatalf("%v: %+v", err, <-ended)
		}
		addresses = append(addresses, address)
	}
	over = func() (int, string) {
		defer cancel()
		e := <-ended
		return e.code, e.stderr
	}
	return addresses, func() (int, string) { cancel(); return over() }, over
}

func talk(t *testing.T, address, say string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// A connection that the node refuses is cut at any time. So the answer counts, and no error before it.
	_, _ = io.WriteString(conn, say)
	_ = conn.(*net.TCPConn).CloseWrite()
	got, _ := io.ReadAll(conn)
	return string(got)
}

func TestForward(t *testing.T) {
	h := newTunnels(t, louder(2))
	addresses, stop, _ := forwarded(t, h, "gpu-1", "0:8888", "0:22")
	for i, want := range []string{"ONE", "", "THREE"} { // the second is refused, and the others go on
		if got := talk(t, addresses[0], []string{"one", "two", "three"}[i]); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	if got := talk(t, addresses[1], "more"); got != "MORE" {
		t.Errorf("%q", got)
	}
	for _, address := range addresses {
		if !strings.HasPrefix(address, "127.0.0.1:") {
			t.Errorf("it listens on %s", address)
		}
	}
	if code, stderr := stop(); code != 0 || !strings.Contains(stderr, "port 8888: nothing listens there") {
		t.Errorf("%d\n%s", code, stderr)
	}
	if conn, err := net.Dial("tcp", addresses[0]); err == nil {
		conn.Close()
		t.Error("it listens still")
	}
}

// TestForwardRefused: who asks for a connection that the node refuses hears it at once, and not when the node has ended its channel.
func TestForwardRefused(t *testing.T) {
	h := newTunnels(t, func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{})
		for frames := pipe.NewFrames(s.Main); ; {
			kind, data, err := frames.Next()
			if err != nil {
				return
			}
			var asked pipe.Dial
			if kind == pipe.FrameDial && json.Unmarshal(data, &asked) == nil {
				_ = pipe.WriteJSON(s.Main, pipe.FrameDialed, pipe.Dialed{Channel: asked.Channel, Error: "nothing listens there"})
			}
		}
	})
	addresses, stop, _ := forwarded(t, h, "gpu-1", "0:80")
	for range 3 {
		if got := talk(t, addresses[0], "x"); got != "" {
			t.Errorf("%q", got)
		}
	}
	if code, stderr := stop(); code != 0 {
		t.Errorf("%d\n%s", code, stderr)
	}
}

// TestForwardOver: the end of the session ends the command, and says why, once.
func TestForwardOver(t *testing.T) {
	began := make(chan *standin.Session, 1)
	busy := newTunnels(t, func(s *standin.Session) { began <- s; louder()(s) })
	addresses, _, over := forwarded(t, busy, "gpu-1", "0:80")
	for range 5 {
		conn, err := net.Dial("tcp", addresses[0])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	(<-began).End("nothing happened for half an hour")
	if code, stderr := over(); code != 1 || strings.Count(stderr, "nothing happened for half an hour") != 1 {
		t.Errorf("%d\n%s", code, stderr)
	}

	h := newTunnels(t, func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{})
		s.End("nothing happened for half an hour")
	})
	h.fails(1, "nothing happened for half an hour", "node", "forward", "gpu-1", "0:80")
}

// TestForwardPatient: a client that has heard all, and keeps its connection, does not hold the command up.
func TestForwardPatient(t *testing.T) {
	for _, by := range []string{"^C", "its session"} {
		began := make(chan *standin.Session, 1)
		h := newTunnels(t, func(s *standin.Session) {
			began <- s
			_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{})
			frames := pipe.NewFrames(s.Main)
			_, _, _ = frames.Next()
			_ = pipe.WriteJSON(s.Main, pipe.FrameDialed, pipe.Dialed{Channel: 1})
			_ = pipe.Open(context.Background(), s, 1).CloseWrite()
			_, _, _ = frames.Next()
		})
		addresses, stop, over := forwarded(t, h, "gpu-1", "0:80")
		conn, err := net.Dial("tcp", addresses[0])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
			t.Fatalf("%q, %v", got, err)
		}
		s := <-began
		if by == "^C" {
			over = stop
		} else {
			s.End("nothing happened for half an hour")
		}
		if _, stderr := over(); strings.Contains(stderr, "port 80") {
			t.Errorf("ended by %s: %s", by, stderr)
		}
	}
}

func TestForwardTaken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	h := newTunnels(t, nil)
	h.fails(1, "is in use on this machine", "node", "forward", "gpu-1", port+":80")
	h.fails(2, "is not a port", "node", "forward", "gpu-1", "80:http")
	if len(h.gateway.Asked()) > 0 {
		t.Error("the node was asked before")
	}
}
