//go:build real

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/paste"
)

// screenOf is a shell in a terminal that tmux draws. What it shows is kept in bin/top.
type screenOf struct {
	*testing.T
	socket string
	shots  string
}

func newScreen(t *testing.T, env ...string) *screenOf {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatal("tmux is not installed: make test-real installs it")
	}
	shots := filepath.Join("..", "bin", "top")
	if err := os.MkdirAll(shots, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &screenOf{T: t, socket: filepath.Join(t.TempDir(), "tmux"), shots: shots}
	s.tmux(append([]string{"new-session", "-d", "-x", "80", "-y", "24", "env", "-u", "NO_COLOR", "PS1=ready$ ", "LC_ALL=C.UTF-8"},
		append(env, "bash", "--norc", "--noprofile")...)...)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", s.socket, "kill-server").Run() })
	s.see("ready$")
	return s
}

func (s *screenOf) tmux(args ...string) string {
	s.Helper()
	c := exec.Command("tmux", append([]string{"-u", "-S", s.socket, "-f", os.DevNull}, args...)...)
	out, err := c.CombinedOutput()
	if err != nil {
		s.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (s *screenOf) shown() string { return s.tmux("capture-pane", "-p") }

// see waits until the screen shows a text.
func (s *screenOf) see(text string) {
	s.Helper()
	s.until(text, func(shown string) bool { return strings.Contains(shown, text) })
}

// loses waits until it shows it no more.
func (s *screenOf) loses(text string) {
	s.Helper()
	s.until("no "+text, func(shown string) bool { return !strings.Contains(shown, text) })
}

func (s *screenOf) until(what string, so func(string) bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !so(s.shown()); {
		if time.Now().After(deadline) {
			s.Fatalf("the screen does not show %s:\n%s", what, s.shown())
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (s *screenOf) press(keys ...string) {
	s.Helper()
	s.tmux(append([]string{"send-keys"}, keys...)...)
}

// write types a text, character by character.
func (s *screenOf) write(text string) {
	s.Helper()
	s.tmux("send-keys", "-l", text)
}

// shot keeps what is shown: as text, and with its colours.
func (s *screenOf) shot(name string) {
	s.Helper()
	for ending, args := range map[string][]string{".txt": {"capture-pane", "-p"}, ".ansi": {"capture-pane", "-p", "-e"}} {
		if err := os.WriteFile(filepath.Join(s.shots, name+ending), []byte(s.tmux(args...)), 0o644); err != nil {
			s.Fatal(err)
		}
	}
}

// echoes proves that the shell is as it was: it shows what is typed, and runs it.
func (s *screenOf) echoes() {
	s.Helper()
	s.see("ready$")
	s.write("echo it is $((40 + 2))")
	s.see("echo it is $((40 + 2))")
	s.press("Enter")
	s.see("it is 42")
	s.write("clear")
	s.press("Enter")
	s.loses("it is 42")
}

// TestTop drives muster top in tmux as a person would, against a real gateway with agents. Pictures are in bin/top.
func TestTop(t *testing.T) {
	const slow = "2s" // a busy machine does not make a node stale
	h := newHouse(t)
	h.agent("vast-h100-39467543", h.token("--tenant", "platform", "--label", "tier=sovereign", "--label", "price_per_hour=17.60"),
		"--provider", "vast_ai", "--instance-id", "39467543", "--nvidia-smi", smi(t, 8), "--interval", slow)
	h.agent("gpu-2", h.token("--tenant", "research", "--label", "tier=spot"), "--nvidia-smi", smi(t, 2), "--interval", slow)
	last := h.agent("desk", h.token(), "--no-gpu", "--interval", slow)
	for _, name := range []string{"vast-h100-39467543", "gpu-2", "desk"} {
		h.muster("node", "wait", name, "--timeout", "60s")
	}
	s := newScreen(t, asGateway+"=1")
	muster := paste.Quote(os.Args[0]) + " --data " + paste.Quote(h.data)

	s.write(muster + " top --interval 200ms")
	s.press("Enter")
	s.see("3 nodes: 3 online")
	s.see("10/10 seen")
	s.shot("list-80x24")
	s.tmux("resize-window", "-x", "160", "-y", "50")
	s.see("PROVIDER")
	s.shot("list-160x50")
	s.tmux("resize-window", "-x", "240", "-y", "30")
	s.see("FINDING")
	s.shot("list-240x30")
	s.tmux("resize-window", "-x", "60", "-y", "15")
	s.until("fewer columns", func(shown string) bool {
		return strings.Contains(shown, "NAME") && !strings.Contains(shown, "SEEN") && strings.Contains(shown, "q quit")
	})
	s.shot("list-60x15")
	s.tmux("resize-window", "-x", "80", "-y", "24")
	s.press("s")
	s.see("sort tenant")
	s.press("r")
	s.see("sort -tenant")
	s.shot("sorted")
	s.press("?")
	s.see("the GPUs of the chosen node")
	s.shot("help")
	s.press("Escape")
	s.see("q quit")

	s.write("/tier=,")
	s.press("Enter")
	s.see("empty term")
	s.shot("filter-wrong")
	s.write("/")
	s.press("C-u")
	s.write("tier=sovereign")
	s.see("filter: tier=sovereign")
	s.shot("filter-typed")
	s.press("Enter")
	s.see("1 node: 1 online")
	s.loses("desk")
	s.press("Enter")
	s.see("39233/81559 MiB")
	s.shot("detail-80x24")
	s.tmux("resize-window", "-x", "160", "-y", "50")
	s.see("NVIDIA H100 80GB HBM3")
	s.shot("detail-160x50")
	s.press("Escape")
	s.write("/")
	s.press("C-u", "Enter")
	s.see("3 nodes")
	last.stop()
	s.see("1 stale")
	s.shot("stale")

	s.press("C-z")
	s.see("Stopped")
	s.echoes()
	s.write("fg")
	s.press("Enter")
	s.see("3 nodes")
	h.gateway.kill()
	s.see("does not answer")
	s.shot("lost")
	h.open()
	s.loses("does not answer")
	s.see("3 nodes")
	s.press("q")
	s.echoes()

	s.write(muster + " node ls --watch")
	s.press("Enter")
	s.see("q quits")
	s.see("gpu-2")
	s.shot("node-ls-watch")
	h.muster("node", "drain", "gpu-2")
	s.see("drained")
	s.press("C-c")
	s.echoes()
	s.write("TERM=dumb " + muster + " top | cat")
	s.press("Enter")
	s.see("3 nodes")
	s.shot("dumb")
	s.write(muster + " top")
	s.press("Enter")
	s.see("sort name")
	s.see("q quit")
	s.press("q")
	s.echoes()
}
