package session

import (
	"bytes"
	"strings"
	"testing"

	"muster/agent/pipe"
)

func frame(kind pipe.FrameKind, text string) []byte {
	var out bytes.Buffer
	_ = pipe.WriteFrame(&out, kind, []byte(text))
	return out.Bytes()
}

// TestWatch: what the terminal there shows is shown here until the session ends.
func TestWatch(t *testing.T) {
	g := newGateway(t)
	p := g.onTerminal("session watch " + shell)
	g.frames <- frame(pipe.FrameSize, `{"rows":1,"columns":2}`)
	g.frames <- frame(pipe.FrameOutput, "hello \x1b[1m")
	p.see("hello \x1b[1m")
	g.frames <- frame(pipe.FrameNotice, "left out\x1b[")
	p.see("\r\nleft out\\x1b[\r\n")
	close(g.frames)
	p.see("the session has ended")
	p.ends(0)
}

// TestWatchLeft: a watcher who leaves is gone for the gateway too.
func TestWatchLeft(t *testing.T) {
	g := newGateway(t)
	p := g.onTerminal("session watch " + shell)
	g.frames <- frame(pipe.FrameOutput, "hello")
	p.see("hello")
	if err := p.Press("q"); err != nil {
		t.Fatal(err)
	}
	p.ends(0)
	<-g.gone
}

// TestWatchPiped: --raw needs no terminal. A way that breaks off within a frame is no end of the session.
func TestWatchPiped(t *testing.T) {
	g := newGateway(t)
	g.frames <- frame(pipe.FrameOutput, "hello")
	g.frames <- frame(pipe.FrameNotice, "left out")
	close(g.frames)
	code, out, errs := g.muster("session watch " + shell + " --raw")
	if code != 0 || out != "hello" || errs != "left out\n" {
		t.Errorf("exit %d: %q, %q", code, out, errs)
	}
	g.frames = make(chan []byte, 1)
	g.frames <- frame(pipe.FrameOutput, "hello")[:7]
	close(g.frames)
	if code, _, errs := g.muster("session watch " + shell + " --raw"); code != 1 || !strings.Contains(errs, "broke off") {
		t.Errorf("broken off: exit %d: %s", code, errs)
	}
}
