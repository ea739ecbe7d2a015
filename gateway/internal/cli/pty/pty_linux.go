// Package pty makes pseudo terminals for tests: what a program draws can be read, and keys be pressed.
package pty

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Pair is a pseudo terminal. Program is the end that a program has for its terminal.
type Pair struct {
	Program *os.File
	person  *os.File

	mu    sync.Mutex
	said  bytes.Buffer
	news  chan struct{} // closed when more was said
	ended chan struct{}
}

// Open makes a pseudo terminal with this many columns and rows.
func Open(columns, rows int) (*Pair, error) {
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	unlocked := int32(0)
	number := uint32(0)
	err = control(person, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	if err == nil {
		err = control(person, syscall.TIOCGPTN, unsafe.Pointer(&number))
	}
	var program *os.File
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		person.Close()
		return nil, err
	}
	p := &Pair{Program: program, person: person, news: make(chan struct{}), ended: make(chan struct{})}
	go p.listen()
	return p, p.Resize(columns, rows)
}

// listen keeps the program from waiting for a reader.
func (p *Pair) listen() {
	defer close(p.ended)
	buffer := make([]byte, 4096)
	for {
		n, err := p.person.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.said.Write(buffer[:n])
		close(p.news)
		p.news = make(chan struct{})
		p.mu.Unlock()
	}
}

// Said returns all that was drawn until now; news is closed when there is more.
func (p *Pair) Said() (text string, news <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String(), p.news
}

// Forget drops what was drawn until now.
func (p *Pair) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said.Reset()
}

// Press types keys.
func (p *Pair) Press(keys string) error {
	_, err := p.person.WriteString(keys)
	return err
}

// Resize gives the terminal another size.
func (p *Pair) Resize(columns, rows int) error {
	size := struct{ rows, columns, x, y uint16 }{uint16(rows), uint16(columns), 0, 0}
	return control(p.person, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

// Settings returns the settings of the terminal now.
func (p *Pair) Settings() (syscall.Termios, error) {
	var now syscall.Termios
	return now, control(p.person, syscall.TCGETS, unsafe.Pointer(&now))
}

// HangUp closes the person's end, as a lost connection does.
func (p *Pair) HangUp() { p.person.Close() }

// Close ends both.
func (p *Pair) Close() {
	p.Program.Close()
	p.person.Close()
	<-p.ended
}

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
