package tty

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"
)

// Raw is a terminal that passes all keys on, and shows what comes back. It shows and interprets nothing by itself.
type Raw struct {
	in, out *os.File
	before  syscall.Termios
	signals chan os.Signal
	sizes   chan Size
	ended   chan error
	done    chan struct{}

	mu     sync.Mutex
	undo   string
	closed bool
}

// OpenRaw takes a terminal over, until Close.
func OpenRaw(in, out *os.File) (*Raw, error) {
	r, err := takeOver(in, out, syscall.SIGTERM, syscall.SIGINT)
	if err != nil {
		return nil, err
	}
	go r.listen()
	return r, nil
}

// takeOver takes a terminal over. The signals that every terminal is told of come too, and so do more.
func takeOver(in, out *os.File, more ...os.Signal) (*Raw, error) {
	r := &Raw{in: in, out: out, signals: make(chan os.Signal, 8), sizes: make(chan Size, 1), ended: make(chan error, 1),
		done: make(chan struct{})}
	if err := control(in, syscall.TCGETS, unsafe.Pointer(&r.before)); err != nil {
		return nil, fmt.Errorf("ask the terminal for its settings: %w", err)
	}
	signal.Notify(r.signals, append(more, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGHUP, syscall.SIGQUIT)...)
	if err := r.take(); err != nil {
		signal.Stop(r.signals)
		return nil, err
	}
	return r, nil
}

// WindowSize returns the size of a terminal; a side is 0 if the terminal does not say it.
func WindowSize(f *os.File) Size {
	var size struct{ rows, columns, x, y uint16 } // struct winsize of ioctl_tty(2)
	if control(f, syscall.TIOCGWINSZ, unsafe.Pointer(&size)) != nil {
		return Size{}
	}
	return Size{Columns: min(int(size.columns), most), Rows: min(int(size.rows), most)}
}

// Sizes returns a channel that gets the terminal's size each time that it changes.
func (r *Raw) Sizes() <-chan Size { return r.sizes }

// Ended returns a channel that gets the reason why the program has to end: a signal.
func (r *Raw) Ended() <-chan error { return r.ended }

// Read returns what was typed.
func (r *Raw) Read(p []byte) (int, error) { return r.in.Read(p) }

// Write shows bytes. After Close it shows nothing more.
func (r *Raw) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, os.ErrClosed
	}
	return r.out.Write(p)
}

// Undo says what Close writes first, so that the terminal shows as it did before.
func (r *Raw) Undo(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undo = text
}

// Close gives the terminal back as it was. It can be called again.
func (r *Raw) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	close(r.done)
	signal.Stop(r.signals)
	r.giveBack()
}

// giveBack does all of it, whatever fails: the terminal may be gone.
func (r *Raw) giveBack() {
	_, _ = io.WriteString(r.out, r.undo)
	_ = control(r.in, syscall.TCSETS, unsafe.Pointer(&r.before))
}

// Guard is deferred in goroutines that work for the terminal: a panic would end the program without Close.
func (r *Raw) Guard() {
	if p := recover(); p != nil {
		r.Close()
		panic(p)
	}
}

// take sets the terminal as cfmakeraw(3) does.
func (r *Raw) take() error {
	raw := r.before
	raw.Iflag &^= syscall.IGNBRK | syscall.BRKINT | syscall.PARMRK | syscall.ISTRIP | syscall.INLCR | syscall.IGNCR | syscall.ICRNL |
		syscall.IXON
	raw.Oflag &^= syscall.OPOST
	raw.Lflag &^= syscall.ECHO | syscall.ECHONL | syscall.ICANON | syscall.ISIG | syscall.IEXTEN
	raw.Cflag &^= syscall.CSIZE | syscall.PARENB
	raw.Cflag |= syscall.CS8
	raw.Cc[syscall.VMIN] = 1
	raw.Cc[syscall.VTIME] = 0
	if err := control(r.in, syscall.TCSETS, unsafe.Pointer(&raw)); err != nil {
		return fmt.Errorf("set the terminal: %w", err)
	}
	return nil
}

// listen follows the signals. SIGTSTP is caught and not obeyed: a program that stops would leave its shell with a raw terminal.
func (r *Raw) listen() {
	defer r.Guard()
	for {
		select {
		case s := <-r.signals:
			r.signalled(s)
		case <-r.done:
			return
		}
	}
}

func (r *Raw) signalled(s os.Signal) {
	switch s {
	case syscall.SIGTSTP:
	case syscall.SIGCONT: // it was stopped by a signal that nobody can catch
		_ = r.again()
		r.resized()
	case syscall.SIGWINCH:
		r.resized()
	default:
		select {
		case r.ended <- fmt.Errorf("ended by the signal %v", s):
		default:
		}
	}
}

// again takes the terminal over after somebody else had it.
func (r *Raw) again() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	return r.take()
}

// resized leaves the newest size alone in the channel.
func (r *Raw) resized() {
	select {
	case <-r.sizes:
	default:
	}
	r.sizes <- WindowSize(r.out) // this goroutine alone fills it
}
