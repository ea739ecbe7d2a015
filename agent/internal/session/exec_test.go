package session_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
)

func kill(t *testing.T, pid string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(number, syscall.SIGKILL); err != nil {
		t.Errorf("process %s: %v", pid, err)
	}
}

// TestExec: arguments arrive as they are, the three streams stay apart, and the end of the program is told as it was.
func TestExec(t *testing.T) {
	d := newDesk(t)
	script := d.home + "/not-a-program"
	if err := os.WriteFile(script, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"garbage": "garbage\n", "orphan": "#!/no/such/shell\n"} {
		if err := os.WriteFile(d.home+"/"+name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		command, input string
		out, err       string
		exit           pipe.Exit
	}{
		{`["printf","%s|","a b","$HOME","; id"]`, "", "a b|$HOME|; id|", "", pipe.Exit{}},
		{`["sh","-c","echo out; echo err >&2; exit 9"]`, "", "out\n", "err\n", pipe.Exit{Code: 9}},
		{`["cat"]`, "typed", "typed", "", pipe.Exit{}},
		{`["sh","-c","kill -9 $$"]`, "", "", "", pipe.Exit{Code: 137, Signal: "KILL"}},
		{`["sh","-c","kill -SEGV $$"]`, "", "", "", pipe.Exit{Code: 139, Signal: "SEGV"}},
		{`["true"]`, strings.Repeat("nobody reads this", 20_000), "", "", pipe.Exit{}},
		{`["sh","-c","test -t 0 || test -n \"$TERM\" || pwd"]`, "", d.home + "\n", "", pipe.Exit{}},
		{`["no-such-program"]`, "", "", "", pipe.Exit{Code: 127, Error: "the node has no program"}},
		{`["./no-such-file"]`, "", "", "", pipe.Exit{Code: 127, Error: "the node has no program"}},
		{`["./not-a-program"]`, "", "", "", pipe.Exit{Code: 126, Error: "permission to be run"}},
		{`["/"]`, "", "", "", pipe.Exit{Code: 126, Error: "no file"}},
		{`["./garbage"]`, "", "", "", pipe.Exit{Code: 126, Error: "exec format error"}},
		{`["./orphan"]`, "", "", "", pipe.Exit{Code: 126, Error: "what it needs to run is not there"}},
	} {
		o := d.open(wire.SessionExec, `{"command":`+c.command+`}`)
		go func() {
			for text := c.input; text != ""; {
				n := min(len(text), pipe.MaxFrame)
				_ = pipe.WriteFrame(o.main, pipe.FrameInput, []byte(text[:n]))
				text = text[n:]
			}
			_ = pipe.WriteFrame(o.main, pipe.FrameInputEnd, nil)
		}()
		o.ready()
		out, exit := o.exit()
		said := exit.Error
		exit.Error = ""
		want := c.exit
		want.Error = ""
		if out != c.out || o.errors.String() != c.err || exit != want || !strings.Contains(said, c.exit.Error) {
			t.Errorf("%s: %q, %q, %+v %q", c.command, out, o.errors.String(), exit, said)
		}
	}
}

// TestExecSignal: a signal reaches the program and all that it has started.
func TestExecSignal(t *testing.T) {
	d := newDesk(t)
	o := d.open(wire.SessionExec, `{"command":["sh","-c","sleep 600 & echo $!; wait"]}`)
	o.ready()
	pid := o.until("\n")
	o.send(pipe.FrameSignal, "TERM")
	if _, exit := o.exit(); exit.Code != 143 || exit.Signal != "TERM" {
		t.Errorf("%+v", exit)
	}
	gone(t, pid)
}

// TestSlowOperator: a program that ends before its output was taken loses nothing of it.
func TestSlowOperator(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.open(wire.SessionExec, `{"command":["sh","-c","head -c 3000000 /dev/zero; head -c 60000 /dev/zero"]}`)
	o.ready()
	time.Sleep(3 * time.Second) // more than the node waits for output after the end of a program
	if out, exit := o.exit(); len(out) != 3060000 || exit.Code != 0 {
		t.Errorf("%d bytes, %+v", len(out), exit)
	}
}

// TestOutputHeldOpen: a process that is left behind with the program's output does not keep the session open.
func TestOutputHeldOpen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.open(wire.SessionExec, `{"command":["sh","-c","sleep 600 & echo $!"]}`)
	o.ready()
	out, exit := o.exit()
	if exit.Code != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
	kill(t, strings.TrimSpace(out))
}

// TestEndedSession: when the gateway ends a session, all its processes end: those that hang up, and those that do not.
func TestEndedSession(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{wire.SessionExec, wire.SessionShell} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			o := d.open(kind, `{"command":["sh","-c","trap '' HUP; sleep 600 & echo $! $$ ok; wait; while :; do sleep 1; done"]}`)
			o.ready()
			pids := strings.Fields(o.until("ok"))
			o.end()
			gone(t, pids[0])
			gone(t, pids[1])
		})
	}
}

// TestOperatorLeaves: who hangs up ends what runs on the node at once, and jobs behind it too. The end of the input alone ends nothing.
func TestOperatorLeaves(t *testing.T) {
	d := newDesk(t)
	for _, kind := range []string{wire.SessionExec, wire.SessionShell} {
		t.Run(kind, func(t *testing.T) {
			o := d.open(kind, `{"command":["sh","-c","sleep 600 & echo $! $$ ok; wait; while :; do sleep 1; done"]}`)
			o.ready()
			pids := strings.Fields(o.until("ok"))
			o.send(pipe.FrameInputEnd, "")
			if err := o.main.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if _, exit := o.exit(); exit.Error != "the operator has left" {
				t.Errorf("%+v", exit)
			}
			gone(t, pids[0])
			gone(t, pids[1])
		})
	}
}

// TestStop: the agent's end is the session's, and the operator learns why.
func TestStop(t *testing.T) {
	d := newDesk(t)
	o := d.open(wire.SessionShell, `{"command":["sh","-c","echo $$ ok; sleep 600"]}`)
	o.ready()
	pids := strings.Fields(o.until("ok"))
	d.stop()
	if _, exit := o.exit(); !strings.Contains(exit.Error, "stops") || !strings.Contains(o.notice, "stops") {
		t.Errorf("%+v, %q", exit, o.notice)
	}
	gone(t, pids[0])
}
