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

// Event is a key, or the end of the terminal, or else that everything has to be drawn anew.
type Event struct {
	Key Key   // 0: none
	End error // why no more events come
}

// errHangUp is the end of a terminal whose person has gone.
var errHangUp = errors.New("the terminal is gone")

// Terminal is a terminal that shows live pictures.
type Terminal struct {
	in, out *os.File
	events  chan Event
	done    chan struct{}
	input   chan []byte
	signals chan os.Signal

	mu      sync.Mutex // keeps one from drawing while another gives the terminal back
	before  syscall.Termios
	painter painter
	closed  bool
}

// Open takes a terminal over, until Close. It reads keys from in and draws on out.
func Open(in, out *os.File) (*Terminal, error) {
	t := &Terminal{in: in, out: out, events: make(chan Event), done: make(chan struct{}), input: make(chan []byte),
		signals: make(chan os.Signal, 8)}
	if err := control(in, syscall.TCGETS, unsafe.Pointer(&t.before)); err != nil {
		return nil, fmt.Errorf("ask the terminal for its settings: %w", err)
	}
	signal.Notify(t.signals, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGHUP, syscall.SIGQUIT)
	if err := t.take(); err != nil {
		signal.Stop(t.signals)
		return nil, err
	}
	go t.read()
	go t.listen()
	return t, nil
}

// Events are the keys that are pressed. Who leaves them unread is not hurt.
func (t *Terminal) Events() <-chan Event { return t.events }

// Size is that of now.
func (t *Terminal) Size() Size {
	var size struct{ rows, columns, x, y uint16 } // struct winsize of ioctl_tty(2)
	if control(t.out, syscall.TIOCGWINSZ, unsafe.Pointer(&size)) != nil {
		return believed(0, 0)
	}
	return believed(int(size.columns), int(size.rows))
}

// Draw shows lines. What is in them goes to the terminal as it is.
func (t *Terminal) Draw(lines []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	text := t.painter.paint(lines, t.Size().Rows)
	if text == "" {
		return nil
	}
	_, err := io.WriteString(t.out, text)
	return err
}

// Close gives the terminal back as it was. It can be called again.
func (t *Terminal) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	close(t.done)
	signal.Stop(t.signals)
	t.giveBack()
}

// Guard is deferred in goroutines that work for the picture: a panic would end the program without Close.
func (t *Terminal) Guard() {
	if p := recover(); p != nil {
		t.Close()
		panic(p)
	}
}

// take makes the terminal give each key at once, and show nothing by itself.
func (t *Terminal) take() error {
	raw := t.before
	raw.Iflag &^= syscall.IXON | syscall.ICRNL | syscall.INLCR | syscall.IGNCR | syscall.ISTRIP
	raw.Lflag &^= syscall.ECHO | syscall.ECHONL | syscall.ICANON | syscall.ISIG | syscall.IEXTEN
	raw.Cc[syscall.VMIN] = 1
	raw.Cc[syscall.VTIME] = 0
	if err := control(t.in, syscall.TCSETS, unsafe.Pointer(&raw)); err != nil {
		return fmt.Errorf("set the terminal: %w", err)
	}
	t.painter.blank = true
	_, err := io.WriteString(t.out, enter)
	return err
}

// giveBack does all of it, whatever fails: the terminal may be gone.
func (t *Terminal) giveBack() {
	_, _ = io.WriteString(t.out, leave)
	_ = control(t.in, syscall.TCSETS, unsafe.Pointer(&t.before))
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
		t.again()
	case syscall.SIGWINCH:
		t.anew()
	default:
		t.tell(Event{End: fmt.Errorf("ended by the signal %v", s)})
	}
}

// anew has everything drawn again.
func (t *Terminal) anew() {
	t.mu.Lock()
	t.painter.blank = true
	t.mu.Unlock()
	t.tell(Event{})
}

// again takes the terminal over after somebody else had it.
func (t *Terminal) again() {
	t.mu.Lock()
	var err error
	if !t.closed {
		err = t.take()
	}
	t.mu.Unlock()
	t.tell(Event{End: err})
}

// suspend gives the terminal back, stops this program and those of its job, and goes on where a person continues it. Without a shell
// that has jobs nobody could continue it: then it does not stop.
func (t *Terminal) suspend() {
	group := syscall.Getpgrp()
	session, _, failed := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	if failed != 0 || int(session) == group {
		return
	}
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return
	}
	t.giveBack()
	signal.Ignore(syscall.SIGTSTP) // it is for the others
	_ = syscall.Kill(0, syscall.SIGTSTP)
	stopThread()
	signal.Notify(t.signals, syscall.SIGTSTP)
	t.mu.Unlock()
	t.again()
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
