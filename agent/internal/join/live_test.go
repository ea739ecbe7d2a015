package join

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestTriedAgain: a reason that repeats itself takes one line. A terminal overwrites that line, and cuts it to its width.
func TestTriedAgain(t *testing.T) {
	now := time.Unix(1e9, 0)
	play := func(width int) string {
		var to bytes.Buffer
		l := &live{to: &to, width: func() int { return width }, now: func() time.Time { return now }}
		fmt.Fprintln(l, "first")
		for i := range 20 {
			l.again("not reached yet", fmt.Errorf("lookup on port %d: no answer to anybody who asks there", 40000+i))
			now = now.Add(2 * time.Second)
		}
		l.again("not reached yet", errors.New("refused"))
		fmt.Fprintln(l, "last")
		return to.String()
	}
	got := play(0)
	if want := "first\n      not reached yet, trying again: lookup on port 40000: no answer to anybody who asks there\n" +
		"      not reached yet, trying again: refused\nlast\n"; got != want {
		t.Errorf("without a terminal:\n%s", got)
	}
	got = play(30)
	const end = "\r\x1b[K      not reached yet, trying again: refused\n      not reached yet, tried…\r\x1b[Klast\n"
	if strings.Count(got, "\n") != 4 || !strings.HasSuffix(got, end) {
		t.Errorf("on a terminal: %q", got)
	}
	if got := play(60); !strings.Contains(got, "\r\x1b[K      not reached yet, tried for 38s\r") {
		t.Errorf("on a wide terminal: %q", got)
	}
}

// TestNoTerminal: a buffer and a file have no width.
func TestNoTerminal(t *testing.T) {
	if got := terminalWidth(&bytes.Buffer{}); got != 0 {
		t.Errorf("a buffer is %d wide", got)
	}
}

// TestSay: on a terminal the lines of a step are as long as it holds, and elsewhere as they are.
func TestSay(t *testing.T) {
	var to bytes.Buffer
	columns := 0
	j := &joining{live: &live{to: &to, width: func() int { return columns }}}
	j.Stdout = j.live
	const text = "[1/5] failed: the name vm is taken (choose another with --name)\nwith: muster node allow-recovery vm"
	j.say(text)
	columns = 46
	j.say(text)
	want := strings.ReplaceAll(text, "\n", "\n      ") + `
[1/5] failed: the name vm is taken
      (choose another with --name)
      with: muster node allow-recovery vm
`
	if got := to.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
