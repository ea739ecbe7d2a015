package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/gateway/internal/cli/pty"
)

// TestInterruptedQuestion: a question on a terminal ends at once at ^C, or at the signal, and leaves the terminal as it was.
func TestInterruptedQuestion(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*pty.Pair, *os.Process) error{
		"^C":      func(p *pty.Pair, _ *os.Process) error { return p.Press("y\x03") },
		"SIGINT":  func(_ *pty.Pair, muster *os.Process) error { return muster.Signal(os.Interrupt) },
		"SIGTERM": func(_ *pty.Pair, muster *os.Process) error { return muster.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair, err := pty.Open(80, 24)
			if err != nil {
				t.Fatal(err)
			}
			defer pair.Close()
			before, err := pair.Settings()
			if err != nil {
				t.Fatal(err)
			}
			muster := exec.Command(os.Args[0], "ca", "drop-root", "aaaa", "--data", t.TempDir())
			muster.Env = append(cleanEnv(), asGateway+"=1")
			muster.Stdin, muster.Stdout, muster.Stderr = pair.Program, pair.Program, pair.Program
			muster.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0, Pdeathsig: syscall.SIGKILL}
			if err := muster.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- muster.Wait() }()
			defer muster.Process.Kill()
			awaitShown(t, pair, "[y/N] ")
			if err := end(pair, muster.Process); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case <-time.After(patience / 4):
				t.Fatal("it runs on")
			}
			awaitShown(t, pair, "\r\nmuster: interrupted\r\n")
			if now, err := pair.Settings(); err != nil || now != before {
				t.Errorf("the terminal is set to %+v, %v; before: %+v", now, err, before)
			}
			if code := muster.ProcessState.ExitCode(); code != 130 {
				t.Errorf("exit code %d, want that of a ^C", code)
			}
		})
	}
}

// awaitShown waits until a terminal has shown a text.
func awaitShown(t *testing.T, pair *pty.Pair, text string) {
	t.Helper()
	for deadline := time.After(patience); ; {
		said, news := pair.Said()
		if strings.Contains(said, text) {
			return
		}
		select {
		case <-news:
		case <-deadline:
			t.Fatalf("%q was not shown: %q", text, said)
		}
	}
}
