package tty

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// escapeTime is how long after an escape byte the rest of its key may come.
const escapeTime = 50 * time.Millisecond

// Event is one of three: a key, the end of the terminal, or a call to draw everything again.
type Event struct {
	Key Key   // 0: none
	End error // why no more events come
}

// errHangUp is the end of a terminal whose person has gone.
var errHangUp = errors.New("the terminal is gone")

// Terminal is a terminal that shows live pictures.
type Terminal struct {
	*Raw
	events chan Event
	input  chan []byte

	painting sync.Mutex // guards painter, and is held while the terminal is somebody else's
	painter  painter
}

// Open takes a terminal over, until Close. It reads keys from in and draws on out.
func Open(in, out *os.File) (*Terminal, error) {
	raw, err := takeOver(in, out)
	if err != nil {
		return nil, err
	}
	raw.Undo(leave)
	t := &Terminal{Raw: raw, events: make(chan Event), input: make(chan []byte)}
	if err := t.begin(); err != nil {
		t.Close()
		return nil, err
	}
	go t.read()
	go t.listen()
	return t, nil
}

// begin has the picture on the other screen, of which nothing is known. The caller holds painting, unless nobody draws yet.
func (t *Terminal) begin() error {
	t.painter.blank = true
	_, err := io.WriteString(t.Raw, enter)
	return err
}

// Events returns a channel with the keys that are pressed. A caller may leave them unread.
func (t *Terminal) Events() <-chan Event { return t.events }

// Size returns the present size.
func (t *Terminal) Size() Size {
	size := WindowSize(t.out)
	return believed(size.Columns, size.Rows)
}

// Draw shows lines. Their bytes go to the terminal unchanged.
func (t *Terminal) Draw(lines []string) error {
	t.painting.Lock()
	defer t.painting.Unlock()
	text := t.painter.paint(lines, t.Size().Rows)
	if text == "" {
		return nil
	}
	if _, err := io.WriteString(t.Raw, text); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// read passes on what comes from the terminal. A read that waits ends with the program, or with the terminal.
func (t *Terminal) read() {
	defer t.Guard()
	defer close(t.input)
	for {
		buffer := make([]byte, 256)
		n, err := t.in.Read(buffer)
		if err != nil {
			return
		}
		select {
		case t.input <- buffer[:n]:
		case <-t.done:
			return
		}
	}
}

// listen makes events of bytes and signals.
func (t *Terminal) listen() {
	defer t.Guard()
	var parser Parser
	timer := time.NewTimer(escapeTime)
	defer timer.Stop()
	for {
		select {
		case bytes, ok := <-t.input:
			if !ok {
				t.tell(Event{End: errHangUp})
				return
			}
			t.press(parser.Feed(bytes))
			timer.Reset(escapeTime)
		case <-timer.C:
			t.press(parser.Flush())
		case s := <-t.signals:
			t.signalled(s)
		case <-t.done:
			return
		}
	}
}

func (t *Terminal) press(keys []Key) {
	for _, key := range keys {
		switch key {
		case ctrlZ:
			t.suspend()
		case ctrlL:
			t.anew()
		default:
			t.tell(Event{Key: key})
		}
	}
}

func (t *Terminal) tell(e Event) {
	select {
	case t.events <- e:
	case <-t.done:
	}
}

func (t *Terminal) signalled(s os.Signal) {
	switch s {
	case syscall.SIGTSTP:
		t.suspend()
	case syscall.SIGCONT: // it was stopped by a signal that nobody can catch
		t.away(func() {})
	case syscall.SIGWINCH:
		t.anew()
	default:
		t.tell(Event{End: fmt.Errorf("ended by the signal %v", s)})
	}
}

// anew has everything drawn again.
func (t *Terminal) anew() {
	t.painting.Lock()
	t.painter.blank = true
	t.painting.Unlock()
	t.tell(Event{})
}

// away takes the terminal over after somebody else had it. Nothing is drawn from the beginning of their time on until then.
func (t *Terminal) away(theirs func()) {
	t.painting.Lock()
	theirs()
	err := t.Raw.again()
	if err == nil {
		err = t.begin()
	}
	t.painting.Unlock()
	if !errors.Is(err, os.ErrClosed) {
		t.tell(Event{End: err})
	}
}

// suspend gives the terminal back, stops this program and those of its job, and goes on where a person continues it. Without a shell
// that has jobs nobody could continue it: then it does not stop.
func (t *Terminal) suspend() {
	group := syscall.Getpgrp()
	session, _, failed := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	if failed != 0 || int(session) == group {
		return
	}
	t.away(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.closed {
			return
		}
		t.giveBack()
		signal.Ignore(syscall.SIGTSTP) // it is for the others
		_ = syscall.Kill(0, syscall.SIGTSTP)
		stopThread()
		signal.Notify(t.signals, syscall.SIGTSTP)
	})
}

// stopThread stops the program. A signal to the whole program could reach another thread first, and this one would go on for a moment.
func stopThread() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(syscall.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGSTOP))
}

// control is an ioctl that leaves the file's own way of reading as it is.
func control(f *os.File, request uintptr, argument unsafe.Pointer) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, failed = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument))
	})
	if err == nil && failed != 0 {
		err = failed
	}
	return err
}
