package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
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
	var modes tty.Modes
	err = act(acting, io.MultiWriter(&modes, raw))
	if err != nil && acting.Err() != nil {
		err = context.Cause(acting)
	}
	raw.Undo(modes.Undo())
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
