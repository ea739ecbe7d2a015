package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/pty"
	"muster/gateway/internal/cli/remote"
	"muster/gateway/internal/cli/remote/standin"
	"muster/gateway/internal/client"
)

// house is a stand-in of a gateway on a socket, and the command line that reaches it.
type house struct {
	*testing.T
	gateway *standin.Gateway
	dir     string
	stdin   io.Reader
	screen  int
	env     map[string]string
	signals chan os.Signal
	pause   func(context.Context, time.Duration) error
}

func newHouse(t *testing.T, play func(*standin.Session)) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // a test's own directory can be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	h := &house{T: t, gateway: &standin.Gateway{Play: play}, dir: dir, stdin: strings.NewReader(""), env: map[string]string{"TERM": "xterm"},
		signals: make(chan os.Signal, 4)}
	h.pause = func(ctx context.Context, _ time.Duration) error {
		<-ctx.Done()
		return ctx.Err()
	}
	listener, err := net.Listen("unix", filepath.Join(dir, client.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h.gateway}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-done
		os.RemoveAll(dir)
	})
	return h
}

// safe is a buffer that may be read while a command writes.
type safe struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *safe) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (h *house) environment(args []string, stdout, stderr io.Writer) cli.Env {
	return cli.Env{Args: append([]string{"--data", h.dir}, args...), Getenv: func(name string) string { return h.env[name] }, Stdin: h.stdin,
		Stdout: stdout, Stderr: stderr, Version: "1.2.3", Screen: func() int { return h.screen },
		Interactive: func() bool { return h.screen > 0 }, Pause: h.pause,
		Signals: func() (<-chan os.Signal, func()) { return h.signals, func() {} }}
}

func (h *house) muster(args ...string) (code int, stdout, stderr string) {
	h.Helper()
	var out, errs safe
	code = cli.Run(h.Context(), h.environment(args, &out, &errs), remote.ShellCommands())
	return code, out.String(), errs.String()
}

// speak writes a frame to the operator.
type speak = func(pipe.FrameKind, string)

// program plays a node: it calls body with the command's words, what it reads, and where it writes.
func program(body func(words []string, in <-chan []byte, signal <-chan string, say speak) pipe.Exit) func(*standin.Session) {
	return func(s *standin.Session) {
		var params wire.ExecParams
		_ = json.Unmarshal(s.Ask.Params, &params)
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{User: params.User})
		in := make(chan []byte, 1000)
		signals := make(chan string, 4)
		go func() {
			for frames := pipe.NewFrames(s.Main); ; {
				kind, data, err := frames.Next()
				switch {
				case err != nil:
					return
				case kind == pipe.FrameInput:
					in <- bytes.Clone(data)
				case kind == pipe.FrameInputEnd:
					close(in)
				case kind == pipe.FrameSignal:
					signals <- string(data)
				}
			}
		}()
		exit := body(params.Command, in, signals, func(kind pipe.FrameKind, text string) {
			_ = pipe.WriteFrame(s.Main, kind, []byte(text))
		})
		_ = pipe.WriteJSON(s.Main, pipe.FrameExit, exit)
		_ = s.Main.CloseWrite()
	}
}

// visit is a shell in a terminal of the test's own.
type visit struct {
	*house
	*pty.Pair
	before syscall.Termios
	code   chan int
	errs   safe
}

func (h *house) visit(args ...string) *visit {
	h.Helper()
	pair, err := pty.Open(80, 24)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(pair.Close)
	v := &visit{house: h, Pair: pair, code: make(chan int, 1)}
	if v.before, err = pair.Settings(); err != nil {
		h.Fatal(err)
	}
	h.stdin = pair.Program
	h.screen = 80
	go func() {
		v.code <- cli.Run(h.Context(), h.environment(append([]string{"node", "shell"}, args...), pair.Program, &v.errs), remote.ShellCommands())
	}()
	return v
}

func (v *visit) see(text string) {
	v.Helper()
	for deadline := time.After(time.Minute); ; {
		said, news := v.Said()
		if strings.Contains(said, text) {
			return
		}
		select {
		case <-news:
		case <-deadline:
			v.Fatalf("%q was not shown: %q", text, said)
		}
	}
}

func (v *visit) types(keys string) {
	v.Helper()
	if err := v.Press(keys); err != nil {
		v.Fatal(err)
	}
}

// ends waits for the end, and looks at the terminal that is left behind.
func (v *visit) ends(code int) {
	v.Helper()
	if got := <-v.code; got != code {
		said, _ := v.Said()
		v.Errorf("exit code %d, want %d: %q\n%s", got, code, said, v.errs.String())
	}
	if now, err := v.Settings(); err != nil || now != v.before {
		v.Errorf("the terminal is set to %+v, %v; before: %+v", now, err, v.before)
	}
}
