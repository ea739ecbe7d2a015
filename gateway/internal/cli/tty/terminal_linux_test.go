package tty_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/gateway/internal/cli/pty"
	"muster/gateway/internal/cli/tty"
)

// asProgram makes the test binary be a program with a live picture; asShell one that starts it as a shell does.
const (
	asProgram = "MUSTER_TEST_TTY_PROGRAM"
	asShell   = "MUSTER_TEST_TTY_SHELL"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asShell) != "":
		os.Exit(shell())
	case os.Getenv(asProgram) != "":
		os.Exit(program())
	}
	os.Exit(m.Run())
}

// program shows how many keys were pressed, until q. p makes a goroutine panic, and d makes one draw all the time.
func program() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	t, err := tty.Open(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	defer t.Close()
	for pressed := 0; ; {
		if err := t.Draw([]string{fmt.Sprintf("%d keys on %d columns", pressed, t.Size().Columns)}); err != nil {
			return 4
		}
		select {
		case e := <-t.Events():
			switch {
			case e.End != nil:
				return 5
			case e.Key == 'q', e.Key == tty.Interrupt:
				return 0
			case e.Key == 'p':
				go func() {
					defer t.Guard()
					panic("on purpose")
				}()
			case e.Key == 'm':
				panic("on purpose")
			case e.Key == 'd':
				go func() {
					defer t.Guard()
					for i := 0; t.Draw([]string{fmt.Sprintf("picture %d", i)}) == nil; i++ {
						runtime.Gosched()
					}
				}()
			case e.Key != 0:
				pressed++
			}
		case <-ctx.Done():
			return 6
		}
	}
}

// shell runs the program in the foreground, and says when it stops. SIGUSR1 continues it, and SIGUSR2 asks it to stop.
func shell() int {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1, syscall.SIGUSR2)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), asShell+"=", asProgram+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0}
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 7
	}
	go func() {
		for s := range asked {
			pass := syscall.SIGCONT
			if s == syscall.SIGUSR2 {
				pass = syscall.SIGTSTP
			}
			_ = syscall.Kill(c.Process.Pid, pass)
		}
	}()
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 8
		case status.Exited():
			return status.ExitStatus()
		case status.Stopped():
			fmt.Fprintln(os.Stdout, "the shell sees it stopped")
		default:
			return 9
		}
	}
}

// run is a program on a terminal of its own.
type run struct {
	*testing.T
	*pty.Pair
	cmd    *exec.Cmd
	before syscall.Termios
	done   chan error
}

func start(t *testing.T, kind string) *run {
	t.Helper()
	pair, err := pty.Open(80, 24)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{T: t, Pair: pair, cmd: exec.Command(os.Args[0]), done: make(chan error, 1)}
	if r.before, err = pair.Settings(); err != nil {
		t.Fatal(err)
	}
	r.cmd.Env = append(os.Environ(), kind+"=1")
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = pair.Program, pair.Program, pair.Program
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.done <- r.cmd.Wait() }()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		pair.Close()
	})
	return r
}

// see waits until a text was drawn.
func (r *run) see(text string) {
	r.Helper()
	deadline := time.After(time.Minute)
	for {
		said, news := r.Said()
		if strings.Contains(said, text) {
			return
		}
		select {
		case <-news:
		case <-deadline:
			r.Fatalf("%q was not drawn: %q", text, said)
		}
	}
}

func (r *run) press(keys string) {
	r.Helper()
	if err := r.Press(keys); err != nil {
		r.Fatal(err)
	}
}

// ends waits for the program's end, and looks at what it has left behind.
func (r *run) ends(code int) {
	r.Helper()
	<-r.done
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		said, _ := r.Said()
		r.Errorf("exit code %d, want %d: %q", got, code, said)
	}
	r.asBefore()
}

func (r *run) asBefore() {
	r.Helper()
	const left = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	if now, err := r.Settings(); err != nil || now != r.before {
		r.Errorf("the terminal is set to %+v, %v; before: %+v", now, err, r.before)
	}
	r.see(left)
	if said, _ := r.Said(); strings.LastIndex(said, left) < strings.LastIndex(said, "\x1b[?1049h") {
		r.Errorf("it has not left the other screen: %q", said)
	}
}

// TestLeaves: however the program ends, the terminal is as it was.
func TestLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		code int
		end  func(*run)
	}{
		"q":                    {0, func(r *run) { r.press("q") }},
		"Ctrl-C":               {0, func(r *run) { r.press("\x03") }},
		"SIGTERM":              {6, func(r *run) { _ = r.cmd.Process.Signal(syscall.SIGTERM) }},
		"SIGINT":               {6, func(r *run) { _ = r.cmd.Process.Signal(syscall.SIGINT) }},
		"SIGHUP":               {5, func(r *run) { _ = r.cmd.Process.Signal(syscall.SIGHUP) }},
		"SIGQUIT":              {5, func(r *run) { _ = r.cmd.Process.Signal(syscall.SIGQUIT) }},
		"a panic":              {2, func(r *run) { r.press("m") }},
		"a goroutine's panic":  {2, func(r *run) { r.press("p") }},
		"after other keys too": {0, func(r *run) { r.press("\x1b[Ajjq") }},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, asProgram)
			r.see("0 keys")
			if now, err := r.Settings(); err != nil || now.Lflag&(syscall.ECHO|syscall.ICANON|syscall.ISIG) != 0 {
				t.Errorf("while it runs, the terminal is set to %+v, %v", now, err)
			}
			c.end(r)
			r.ends(c.code)
		})
	}
}

// TestHangsUp: a program whose terminal is gone ends.
func TestHangsUp(t *testing.T) {
	r := start(t, asProgram)
	r.see("0 keys")
	r.HangUp()
	<-r.done
}

// TestResizes: another size is drawn at once, and everything again by Ctrl-L.
func TestResizes(t *testing.T) {
	r := start(t, asProgram)
	r.see("0 keys on 80 columns")
	r.press("x")
	r.see("1 keys on 80 columns")
	if err := r.Resize(160, 50); err != nil { // the kernel tells the program
		t.Fatal(err)
	}
	r.see("1 keys on 160 columns")
	r.Forget()
	r.press("\x0c") // Ctrl-L
	r.see("1 keys on 160 columns")
	r.press("q")
	r.ends(0)
}

// TestStays: where no shell could continue it, Ctrl-Z does not stop it.
func TestStays(t *testing.T) {
	r := start(t, asProgram)
	r.see("0 keys")
	r.press("\x1ax")
	r.see("1 keys")
	r.press("q")
	r.ends(0)
}

// TestSuspends: Ctrl-Z gives the terminal back as it was and stops the program; when it is continued, it draws everything again.
func TestSuspends(t *testing.T) {
	for name, stop := range map[string]func(*run){
		"Ctrl-Z":  func(r *run) { r.press("\x1a") },
		"SIGTSTP": func(r *run) { _ = r.cmd.Process.Signal(syscall.SIGUSR2) },
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, asShell)
			r.see("0 keys")
			r.press("x")
			r.see("1 keys")
			stop(r)
			r.see("the shell sees it stopped")
			r.asBefore()
			r.Forget()
			_ = r.cmd.Process.Signal(syscall.SIGUSR1)
			r.see("1 keys")
			r.press("y")
			r.see("2 keys")
			r.press("q")
			r.ends(0)
		})
	}
}

// TestSuspendsWhileDrawing: nothing is drawn onto the shell's own screen, when the program stops and when it goes on.
func TestSuspendsWhileDrawing(t *testing.T) {
	r := start(t, asShell)
	r.see("0 keys")
	r.press("d")
	r.see("picture 9")
	r.press("\x1a")
	r.see("the shell sees it stopped")
	said, _ := r.Said()
	r.Forget()
	_ = r.cmd.Process.Signal(syscall.SIGUSR1)
	r.see("picture")
	again, _ := r.Said()
	for _, shown := range []string{said[strings.LastIndex(said, "\x1b[?1049l"):], again[:max(strings.Index(again, "\x1b[?1049h"), 0)]} {
		if strings.Contains(shown, "picture") {
			t.Errorf("the shell's screen shows %q", shown)
		}
	}
	r.press("q")
	r.ends(0)
}
