package session_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/internal/session"
)

// begin runs a shell script in front of a terminal of 24 rows and 80 columns.
func begin(t *testing.T, script string) (*session.Terminal, *bufio.Reader, *exec.Cmd) {
	t.Helper()
	terminal, slave, err := session.Open(24, 80)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	program := exec.Command("sh", "-c", script)
	program.Stdin = slave
	program.Stdout = slave
	program.Stderr = slave
	program.SysProcAttr = &syscall.SysProcAttr{}
	session.Attach(program.SysProcAttr)
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	if err := terminal.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return terminal, bufio.NewReader(terminal), program
}

// says asserts the next line.
func says(t *testing.T, from *bufio.Reader, want string) {
	t.Helper()
	line, err := from.ReadString('\n')
	if strings.TrimRight(line, "\r\n") != want || err != nil {
		t.Errorf("it said %q, %v; want %q", line, err, want)
	}
}

// TestTerminal: a program has the terminal as its own, learns of its size, reads what is typed, and its end is the end of the text.
func TestTerminal(t *testing.T) {
	terminal, from, program := begin(t, `trap 'stty size; exit 7' WINCH
		stty -echo; tty | cut -c1-9; stty size; read line; echo "got $line"; while :; do read line; done`)
	says(t, from, "/dev/pts/")
	says(t, from, "24 80")
	if group, err := terminal.Foreground(); group != program.Process.Pid || err != nil {
		t.Errorf("the signals of the keyboard go to %d, %v; want %d", group, err, program.Process.Pid)
	}
	if _, err := io.WriteString(terminal, "one\n"); err != nil {
		t.Error(err)
	}
	says(t, from, "got one")
	if err := terminal.Resize(50, 132); err != nil {
		t.Error(err)
	}
	if _, err := io.WriteString(terminal, "two\n"); err != nil { // a shell looks at its traps between two commands
		t.Error(err)
	}
	says(t, from, "50 132")
	if rest, err := io.ReadAll(from); len(rest) > 0 || err != nil {
		t.Errorf("then %q, %v", rest, err)
	}
	var ended *exec.ExitError
	if err := program.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 7 {
		t.Error(err)
	}
}

// TestHangUp: closing a terminal ends what is in front of it.
func TestHangUp(t *testing.T) {
	terminal, from, program := begin(t, `echo here; read line`)
	says(t, from, "here")
	if err := terminal.Close(); err != nil {
		t.Error(err)
	}
	var ended *exec.ExitError
	if err := program.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGHUP {
		t.Error(err)
	}
	if _, err := terminal.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed terminal takes text: %v", err)
	}
	if err := terminal.Resize(1, 1); err == nil {
		t.Error("a closed terminal takes a size")
	}
}

// TestDeadline: a terminal that says nothing does not hold its reader.
func TestDeadline(t *testing.T) {
	terminal, slave, err := session.Open(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	defer slave.Close()
	if err := terminal.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if n, err := terminal.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d, %v", n, err)
	}
}
