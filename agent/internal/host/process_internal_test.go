package host

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func FuzzStatWords(f *testing.F) {
	f.Add("1 (a) b) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0")
	f.Add("1 (a) Z 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0")
	f.Add(")")
	f.Add("")
	f.Fuzz(func(t *testing.T, line string) {
		if words := statWords(line); words != nil && (words[statStart] == "" || strings.ContainsAny(words[statStart], " )")) {
			t.Errorf("%q: %q", line, words)
		}
	})
}

// TestProcess: a process lives under its id, its start and its boot alone, until it ends.
func TestProcess(t *testing.T) {
	own := ProcessOf(os.Getpid())
	other := own
	other.Ticks += "0"
	before := own
	before.Boot = "another"
	if !own.Lives() || other.Lives() || before.Lives() || (Process{PID: own.PID}).Lives() || (Process{PID: 1}).Lives() {
		t.Errorf("%+v", own)
	}
	c := exec.Command("cat")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p := ProcessOf(c.Process.Pid)
	if !p.Lives() {
		t.Errorf("%+v", p)
	}
	in.Close()
	_ = c.Wait()
	if p.Lives() || InSession(p.PID, p.PID) {
		t.Errorf("%+v has ended", p)
	}
}
