package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/tty"
)

// errLeft is the error of a person who has seen enough.
var errLeft = errors.New("the person has left")

// answerTime is how long a terminal may take to answer what it was asked by what it shows. Its answers look like keys. They are read here,
// so that they do not become words of a command in the shell.
const answerTime = 100 * time.Millisecond

// perform shows on a terminal what another one was sent. No key goes anywhere: q and ^C end it, with errLeft.
func perform(ctx context.Context, s *cli.Session, in, out *os.File, act func(context.Context, io.Writer) error) error {
	raw, err := tty.OpenRaw(in, out)
	if err != nil {
		return err
	}
	defer raw.Close()
	acting, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	go keys(raw, leave)
	go func() {
		defer raw.Guard()
		select {
		case err := <-raw.Ended():
			leave(err)
		case <-acting.Done():
		}
	}()
	st := &stage{to: raw}
	err = act(acting, st)
	if err != nil && acting.Err() != nil {
		err = context.Cause(acting)
	}
	raw.Undo(st.undo())
	return errors.Join(err, s.Pause(context.WithoutCancel(ctx), answerTime))
}

func keys(raw *tty.Raw, leave context.CancelCauseFunc) {
	defer raw.Guard()
	buffer := make([]byte, 256)
	for {
		n, err := raw.Read(buffer)
		if err != nil {
			leave(errLeft)
			return
		}
		if leaves(buffer[:n]) {
			leave(errLeft)
		}
	}
}

// leaves tells whether what came from a terminal has a q or a ^C in it that a person has pressed. The answers of a terminal begin with an
// escape byte, and can have a q in them.
func leaves(typed []byte) bool {
	const interrupt, escape = 0x03, 0x1b
	return bytes.IndexByte(typed, interrupt) >= 0 || bytes.IndexByte(typed, 'q') >= 0 && bytes.IndexByte(typed, escape) < 0
}

// stage remembers whether what it shows has left the terminal's own screen.
type stage struct {
	to    io.Writer
	tail  string
	other bool
}

// longestSwitch is the length of the longest sequence of switches.
const longestSwitch = 8

// switches change to the other screen of a terminal, without the last letter: h goes there, l comes back.
func switches() []string { return []string{"\x1b[?1049", "\x1b[?1047", "\x1b[?47"} }

func (st *stage) Write(p []byte) (int, error) {
	text := st.tail + string(p)
	there := -1
	back := -1
	for _, one := range switches() {
		there = max(there, strings.LastIndex(text, one+"h"))
		back = max(back, strings.LastIndex(text, one+"l"))
	}
	if there != back {
		st.other = there > back
	}
	st.tail = text[max(0, len(text)-longestSwitch+1):]
	return st.to.Write(p)
}

// undo makes a terminal show as it usually does, whatever it was told: no part of a sequence, the whole screen scrolls, letters without
// style, lines that go on, a cursor, and no mouse.
func (st *stage) undo() string {
	text := "\x18\x1b7\x1b[r\x1b8\x1b[m\x1b(B\x0f\x1b>\x1b[0 q\x1b[?1;5;6;66;9;1000;1002;1003;1004;1005;1006;1015;1016;2004;2026l\x1b[?7;25h"
	if st.other {
		text += "\x1b[?1049l"
	}
	return text + "\r\n"
}
