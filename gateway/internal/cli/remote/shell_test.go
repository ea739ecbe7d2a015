package remote_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/cli/remote/standin"
)

// terminal plays a shell: it echoes keys in brackets, tells sizes, and ends by q. Some keys have it do more.
func terminal(s *standin.Session) {
	_ = pipe.WriteFrame(s.Main, pipe.FrameNotice, []byte("this session is recorded"))
	_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{User: "ada"})
	say := func(text string) { _ = pipe.WriteFrame(s.Main, pipe.FrameOutput, []byte(text)) }
	say("$ ")
	for frames := pipe.NewFrames(s.Main); ; {
		kind, data, err := frames.Next()
		if err != nil {
			return
		}
		switch {
		case kind == pipe.FrameSize:
			var size pipe.Size
			_ = json.Unmarshal(data, &size)
			say(fmt.Sprintf("<%dx%d>", size.Columns, size.Rows))
		case kind == pipe.FrameInput && string(data) == "f":
			say("\x1b[?1049h\x1b[?25lfull")
		case kind == pipe.FrameInput && string(data) == "k":
			s.End("somebody ended it")
		case kind == pipe.FrameInput && string(data) == "q":
			_ = pipe.WriteJSON(s.Main, pipe.FrameExit, pipe.Exit{Code: 3})
			return
		case kind == pipe.FrameInput:
			say(fmt.Sprintf("[%q]", data))
		}
	}
}

// TestShell: the keys go to the node, its output comes back, a line says that it is recorded, and the exit code is the shell's.
func TestShell(t *testing.T) {
	h := newHouse(t, terminal)
	v := h.visit("gpu-1", "--user", "ada")
	v.see("$ ")
	v.see("this session is recorded")
	if now, err := v.Settings(); err != nil || now.Lflag&(syscall.ECHO|syscall.ICANON|syscall.ISIG) != 0 || now.Oflag&syscall.OPOST != 0 {
		t.Errorf("while it runs, the terminal is set to %+v, %v", now, err)
	}
	v.types("\x03")
	v.see(`["\x03"]`)
	v.types("~.") // not behind a new line
	v.see(`.`)
	v.types("\r")
	v.see(`["\r"]`)
	v.types("~~")
	v.see(`["~"]`)
	v.types("\r~?")
	v.see("muster: ~. leaves")
	if err := v.Resize(100, 40); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGWINCH) // the kernel tells the processes of a terminal's own session alone
	v.see("<100x40>")
	v.types("q")
	v.ends(3)
	var params wire.ShellParams
	if err := json.Unmarshal(h.gateway.Asked()[0].Params, &params); err != nil || params.User != "ada" || params.Term != "xterm" ||
		params.Rows != 24 || params.Columns != 80 {
		t.Errorf("asked for %+v, %v", params, err)
	}
}

// TestShellEnds: however it ends, the terminal is as it was, also if a program had changed it.
func TestShellEnds(t *testing.T) {
	for name, c := range map[string]struct {
		code int
		says string
		end  func(*visit)
	}{
		"by itself": {3, "", func(v *visit) { v.types("q") }},
		"left":      {255, "left gpu-1", func(v *visit) { v.types("x\r"); v.see(`["x\r"]`); v.types("~.") }},
		"killed":    {255, "somebody ended it", func(v *visit) { v.types("k") }},
		"SIGTERM":   {255, "signal terminated", func(*visit) { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) }},
		"SIGHUP":    {255, "signal hangup", func(*visit) { _ = syscall.Kill(os.Getpid(), syscall.SIGHUP) }},
	} {
		t.Run(name, func(t *testing.T) {
			v := newHouse(t, terminal).visit("gpu-1")
			v.see("$ ")
			v.types("f")
			v.see("full")
			c.end(v)
			v.ends(c.code)
			v.see("\x1b[?25h\x1b[?1049l")
			if !strings.Contains(v.errs.String(), c.says) {
				t.Errorf("it says %q, want %q", v.errs.String(), c.says)
			}
		})
	}
}

// TestShellBridges: where the way breaks and heals, the session goes on with nothing lost. Over a program that has the whole screen, the
// line stands until the next key, which has the program draw again.
func TestShellBridges(t *testing.T) {
	h := newHouse(t, terminal)
	v := h.visit("gpu-1")
	v.see("$ ")
	h.gateway.Away(http.StatusBadGateway)
	v.types("a")
	v.see("muster: the connection is lost")
	v.types("b")
	h.gateway.Away(0)
	v.see("muster: connected again")
	v.see(`["a"]`) // the line about the connection may stand between the two
	v.see(`["b"]`)
	v.types("f")
	v.see("full")
	v.Forget()
	h.gateway.Away(http.StatusBadGateway)
	v.types("c")
	v.see("\x1b7\x1b[1;1H\x1b[0;7mmuster: the connection is lost")
	h.gateway.Away(0)
	v.see("\x1b[1;1H\x1b[0;7mmuster: connected again")
	v.types("d")
	v.see("<79x24><80x24>")
	v.types("q")
	v.ends(3)
}

// TestShellWaits: a node that takes its time is waited for, and a line says so.
func TestShellWaits(t *testing.T) {
	h := newHouse(t, nil)
	h.pause = func(context.Context, time.Duration) error { return nil }
	v := h.visit("gpu-1")
	for !strings.Contains(v.errs.String(), "waiting for gpu-1; ^C gives up") {
		<-time.After(time.Millisecond)
	}
	h.gateway.EndAll("the node did not take it")
	v.ends(255)
	if !strings.Contains(v.errs.String(), "the node did not take it") {
		t.Errorf("it says %q", v.errs.String())
	}
}

// TestShellNeedsTerminal: without a terminal a program runs as by node exec; for a shell the right command is named.
func TestShellNeedsTerminal(t *testing.T) {
	h := newHouse(t, terminal)
	code, _, stderr := h.muster("node", "shell", "gpu-1")
	if code != 2 || !strings.Contains(stderr, "node exec NAME") {
		t.Errorf("code %d: %s", code, stderr)
	}
	h = newHouse(t, func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{})
		_ = pipe.WriteJSON(s.Main, pipe.FrameExit, pipe.Exit{Code: 3})
		_ = s.Main.CloseWrite()
	})
	code, out, stderr := h.muster("node", "shell", "gpu-1", "--", "hostname")
	if asked := h.gateway.Asked(); code != 3 || len(asked) != 1 || asked[0].Type != wire.SessionExec {
		t.Errorf("code %d: asked for %+v\n%s%s", code, asked, out, stderr)
	}
}
