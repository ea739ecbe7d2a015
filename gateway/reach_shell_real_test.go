//go:build real

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/gateway/internal/paste"
)

// plainShell is a shell with a prompt that is none of this machine's.
const plainShell = ` -- env PS1="node% " bash --norc --noprofile`

func newReachScreen(t *testing.T, env ...string) *screenOf {
	t.Helper()
	s := newScreen(t, append(env, asGateway+"=1")...)
	s.tmux("set-option", "-g", "history-limit", "5000")
	s.shots = filepath.Join("..", "bin", "reach")
	if err := os.MkdirAll(s.shots, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// enter types a line.
func (s *screenOf) enter(line string) {
	s.Helper()
	s.write(line)
	s.press("Enter")
}

// TestReachShell drives a shell on a node in tmux, as a person would: programs with the whole screen, another size, and both ways out.
// Pictures are in bin/reach.
func TestReachShell(t *testing.T) {
	needs(t, "tmux", "vim", "less", "bash")
	h := newHouse(t)
	h.agent("one", h.token(), "--no-gpu", "--interval", calmPace)
	h.until("online", func() bool { return h.online("one") })
	s := newReachScreen(t)
	muster := paste.Quote(os.Args[0]) + " --data " + paste.Quote(h.data)
	dir := t.TempDir()

	s.enter(muster + " node shell one" + plainShell)
	s.see("this session is recorded")
	s.see("\nnode%")
	s.enter("cd " + dir + " && clear")
	s.loses("recorded")
	s.vim(filepath.Join(dir, "note.txt"))
	s.less(filepath.Join(dir, "long.txt"))
	s.resizes()

	s.enter("clear; sleep 1000 & echo $! >job; echo beg''un")
	s.see("begun")
	s.press("Enter")
	s.write("~?")
	s.see("~. leaves")
	s.write("~.")
	s.see("what ran there is ended")
	s.shot("left")
	s.enter("code=$?; clear; echo code $code")
	s.see("code 255")
	job, err := os.ReadFile(filepath.Join(dir, "job"))
	if err != nil {
		t.Fatal(err)
	}
	h.until("the job has ended", func() bool {
		_, err := os.Stat("/proc/" + strings.TrimSpace(string(job)))
		return os.IsNotExist(err)
	})
	s.echoes()

	s.enter(muster + " node shell one")
	s.see("this session is recorded")
	s.enter("exit 3")
	s.see("ready$ ")
	s.until("the end of the shell", func(shown string) bool { return strings.HasSuffix(strings.TrimSpace(shown), "ready$") })
	s.enter("echo code $?")
	s.see("\ncode 3")
	s.echoes()
	h.until("two shells have ended", func() bool {
		return strings.Count(h.muster("events", "--kind", "session.ended", "--node", "one"), "session.ended") == 2
	})
}

// vim edits a new file on the node, and saves it.
func (s *screenOf) vim(file string) {
	s.Helper()
	s.enter("vim -u NONE -N " + filepath.Base(file))
	s.see("[New]")
	s.write("ifirst line")
	s.press("Enter")
	s.write("second line")
	s.press("Escape")
	s.see("second line\n~")
	s.shot("vim")
	s.enter(":1s/first/changed/")
	s.see("changed line")
	s.enter(":wq")
	s.see("node%")
	s.loses("second line") // the screen of before is back
	if got, err := os.ReadFile(file); err != nil || string(got) != "changed line\nsecond line\n" {
		s.Errorf("vim saved %q, %v", got, err)
	}
}

// less pages through a long file on the node.
func (s *screenOf) less(file string) {
	s.Helper()
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "row %d of a long file\n", i+1)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		s.Fatal(err)
	}
	s.enter("less " + filepath.Base(file))
	s.see("row 1 of")
	s.press("Space")
	s.see("row 40 of")
	s.loses("row 1 of")
	s.press("G")
	s.see("row 1000 of")
	s.see("(END)")
	s.shot("less")
	s.press("q")
	s.loses("row 1000 of")
	s.see("node%")
}

// resizes makes the window another one, twice. Its size takes a way of its own to the node, so a loop waits for it.
func (s *screenOf) resizes() {
	s.Helper()
	for _, size := range [][2]string{{"30", "100"}, {"17", "71"}} {
		s.tmux("resize-window", "-x", size[1], "-y", size[0])
		s.enter("clear; until [ $(stty size | tr -d ' ') = " + size[0] + size[1] + " ]; do sleep 0.1; done; stty size")
		s.see(size[0] + " " + size[1] + "\n")
	}
	s.tmux("resize-window", "-x", "80", "-y", "24")
}

// TestReachCut: the way of the person and that of the node are cut in the middle of a shell, for some seconds. Everything that was typed
// and shown meanwhile arrives once, in its order.
func TestReachCut(t *testing.T) {
	needs(t, "tmux", "bash", "seq")
	h := newHouse(t)
	account := h.operator("ada", "--scope", "sessions:shell")
	c, err := client.Dial(t.Context(), client.Target{DataDir: h.data})
	if err != nil {
		t.Fatal(err)
	}
	about, err := client.Get[api.Gateway](t.Context(), c, api.PathGateway, nil)
	if err != nil {
		t.Fatal(err)
	}
	cutter := newCutter(t, strings.TrimPrefix(h.url, "https://"))
	h.url = "https://" + cutter.listener.Addr().String()
	h.agent("one", h.token(), "--no-gpu", "--interval", calmPace)
	h.until("online", func() bool { return h.online("one") })
	s := newReachScreen(t, "MUSTER_API_TOKEN="+account)
	s.enter(paste.Quote(os.Args[0]) + " --url " + h.url + " --root-pin " + about.RootPin + " node shell one" + plainShell)
	s.see("\nnode%")
	s.enter("stty -echo; clear")
	s.loses("recorded")
	s.enter("for i in $(seq 1 300); do echo row-$i; sleep 0.03; done; read line; echo got \"$line\"; PS1='over% '")
	s.see("row-20\n")
	cutter.cut(true)
	s.see("the connection is lost and is tried again for a minute")
	s.write("typed while nothing ")
	s.shot("cut")
	s.enter("went through")
	cutter.cut(false)
	s.see("connected again; nothing was lost")
	s.see("got typed while nothing went through")
	s.shot("again")
	var rows []string
	for line := range strings.Lines(s.tmux("capture-pane", "-p", "-S", "-")) {
		if row, found := strings.CutPrefix(strings.TrimSpace(line), "row-"); found {
			rows = append(rows, row)
		}
	}
	for i := range 300 {
		if i >= len(rows) || rows[i] != fmt.Sprint(i+1) || len(rows) > 300 {
			t.Fatalf("%d rows, and from the %dth on they are not as they were written: %v", len(rows), i+1, rows[min(i, len(rows)):])
		}
	}
	s.enter("exit 5")
	s.see("ready$")
	s.enter("code=$?; clear; echo code $code")
	s.see("code 5")
}

// operator makes an account, and gives its token.
func (h *house) operator(name string, more ...string) string {
	h.t.Helper()
	return newScraper(h).account(name, more...)
}

// cutter carries connections to the gateway, until it is cut: then it breaks all of them, and those that come.
type cutter struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	off  bool
	open map[net.Conn]bool
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: listener, to: to, open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		listener.Close()
		c.cut(true)
	})
	go c.serve()
	return c
}

func (c *cutter) serve() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		go c.carry(conn)
	}
}

func (c *cutter) carry(conn net.Conn) {
	defer conn.Close()
	onward, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer onward.Close()
	if !c.enter(conn) {
		return
	}
	defer c.exit(conn)
	go func() {
		_, _ = io.Copy(onward, conn)
		onward.Close()
	}()
	_, _ = io.Copy(conn, onward)
}

func (c *cutter) enter(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.off {
		c.open[conn] = true
	}
	return !c.off
}

func (c *cutter) exit(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

func (c *cutter) cut(off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
	for conn := range c.open {
		conn.Close()
	}
}
