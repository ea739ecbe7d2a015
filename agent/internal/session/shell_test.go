package session_test

import (
	"os"
	"strings"
	"testing"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// TestShell: a login shell of the user, with the size, the place and the environment that it needs.
func TestShell(t *testing.T) {
	t.Setenv("MUSTER_TOKEN", "secret")
	d := newDesk(t)
	o := d.open(wire.SessionShell, `{"user":"ada","term":"vt100","rows":50,"columns":132}`)
	if r := o.ready(); r.User != "ada" || r.Directory != d.home {
		t.Errorf("%+v", r)
	}
	o.send(pipe.FrameInput, "stty size; echo en''d\n")
	if got := o.until("end\r\n"); !strings.Contains(got, "50 132") {
		t.Errorf("size: %q", got)
	}
	o.send(pipe.FrameSize, `{"rows":10,"columns":20}`)
	o.send(pipe.FrameSize, `{"rows":0,"columns":20}`)   // cannot be
	o.send(pipe.FrameSize, `{"rows":10,"columns":"x"}`) // nor can this
	o.send('?', "a frame of a later version")
	o.send(pipe.FrameInput, "stty size; echo en''d\n")
	if got := o.until("end\r\n"); !strings.Contains(got, "10 20") {
		t.Errorf("resized: %q", got)
	}
	o.send(pipe.FrameInput, "stty -echo; echo [$0 $TERM $USER $LOGNAME $HOME $SHELL $(pwd) $MUSTER_TOKEN]\n")
	want := "[-sh vt100 ada ada " + d.home + " /bin/sh " + d.home + " ]"
	o.until(want)
	o.send(pipe.FrameInput, "tty >/dev/null && test -t 2 && exit 7\n")
	if _, exit := o.exit(); exit != (pipe.Exit{Code: 7}) {
		t.Errorf("%+v", exit)
	}
}

// TestShellKeys: the interrupt key reaches the program in front, and so does a signal by name. By default the terminal throws away what
// was written around such a key.
func TestShellKeys(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct {
		kind pipe.FrameKind
		data string
	}{{pipe.FrameInput, "\x03"}, {pipe.FrameSignal, "INT"}} {
		o := d.open(wire.SessionShell,
			`{"command":["sh","-c","stty noflsh; trap 'echo got; exit 5' INT; echo ready; while :; do sleep 0.1; done"]}`)
		o.ready()
		o.until("ready")
		o.send(pipe.FrameSignal, "NONE")
		o.send(c.kind, c.data)
		if out, exit := o.exit(); exit.Code != 5 || !strings.Contains(out, "got") {
			t.Errorf("%q, %+v", out, exit)
		}
	}
}

// TestShellLeavesJobs: what the user leaves behind on purpose goes on, as after a login.
func TestShellLeavesJobs(t *testing.T) {
	d := newDesk(t)
	o := d.open(wire.SessionShell, `{"command":["sh","-c","trap '' HUP; sleep 30 >/dev/null 2>&1 & echo job $!"]}`)
	o.ready()
	out, exit := o.exit()
	_, pid, found := strings.Cut(out, "job ")
	if !found || exit.Code != 0 {
		t.Fatalf("%q, %+v", out, exit)
	}
	kill(t, strings.TrimSpace(pid))
}

// TestShellMuchOutput: megabytes arrive whole, though the terminal's buffer is small and the program ends before they are read.
func TestShellMuchOutput(t *testing.T) {
	d := newDesk(t)
	o := d.open(wire.SessionShell, `{"command":["sh","-c","stty -opost; seq 1 200000; echo last"]}`)
	o.ready()
	out, exit := o.exit()
	if exit.Code != 0 || !strings.HasSuffix(out, "\n200000\nlast\n") || len(out) != 1288895+len("last\n") {
		t.Errorf("%d bytes, %+v", len(out), exit)
	}
}

// TestNoShell: a program that is not there, or cannot be run, is named, with the code of shells.
func TestNoShell(t *testing.T) {
	d := newDesk(t)
	if err := os.WriteFile(d.home+"/garbage", []byte("garbage\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]int{"no-such-program": 127, "./garbage": 126} {
		o := d.open(wire.SessionShell, `{"command":["`+name+`"]}`)
		o.ready()
		if _, exit := o.exit(); exit.Code != code || !strings.Contains(exit.Error, strings.TrimPrefix(name, "./")) {
			t.Errorf("%+v", exit)
		}
	}
}
