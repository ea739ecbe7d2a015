package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// Terminal is the master side of a pseudo terminal: Read returns what programs write, and programs read what Write writes. Read and Write
// may be called at the same time.
type Terminal struct {
	master *os.File
}

const (
	device = "/dev/ptmx"
	slaves = "/dev/pts/"

	getPeer = 0x5441 // TIOCGPTPEER: package syscall does not have it
)

// Open makes a terminal of this size. slave is the side for programs. The caller closes it once they have it.
func Open(rows, columns int) (t *Terminal, slave *os.File, err error) {
	master, err := os.OpenFile(device, os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a terminal: %w", err)
	}
	t = &Terminal{master: master}
	slave, err = t.open()
	if err == nil {
		err = t.Resize(rows, columns)
	}
	if err != nil {
		master.Close()
		if slave != nil {
			slave.Close()
		}
		return nil, nil, fmt.Errorf("make a terminal: %w", err)
	}
	return t, slave, nil
}

// open unlocks the programs' side and opens it.
func (t *Terminal) open() (*os.File, error) {
	var locked int32
	if err := t.control(syscall.TIOCSPTLCK, unsafe.Pointer(&locked)); err != nil {
		return nil, err
	}
	var number uint32
	if err := t.control(syscall.TIOCGPTN, unsafe.Pointer(&number)); err != nil {
		return nil, err
	}
	name := slaves + strconv.Itoa(int(number))
	file, err := t.peer(name)
	if err == nil {
		return file, nil
	}
	return os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0) // a kernel before 4.13
}

// peer opens the programs' side without its name, which could lead elsewhere where /dev is not the terminals' own.
func (t *Terminal) peer(name string) (*os.File, error) {
	var fd uintptr
	var errno syscall.Errno
	raw, err := t.master.SyscallConn()
	if err != nil {
		return nil, err
	}
	err = raw.Control(func(master uintptr) {
		fd, _, errno = syscall.Syscall(syscall.SYS_IOCTL, master, getPeer, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC)
	})
	if err != nil {
		return nil, err
	}
	if errno != 0 {
		return nil, errno
	}
	return os.NewFile(fd, name), nil
}

// control asks the kernel. It does not take the file out of the runtime's poller, as Fd would.
func (t *Terminal) control(request uintptr, argument unsafe.Pointer) error {
	raw, err := t.master.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument))
	})
	switch {
	case err != nil:
		return err
	case errno != 0:
		return errno
	}
	return nil
}

// Resize sets the size of the terminal. The programs in front of it get SIGWINCH.
func (t *Terminal) Resize(rows, columns int) error {
	size := struct{ rows, columns, width, height uint16 }{rows: uint16(rows), columns: uint16(columns)}
	return t.control(syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

// Foreground returns the process group that gets the signals of the keyboard.
func (t *Terminal) Foreground() (int, error) {
	var group int32
	err := t.control(syscall.TIOCGPGRP, unsafe.Pointer(&group))
	return int(group), err
}

// Read returns what programs have written. The error is io.EOF once all have closed their side.
func (t *Terminal) Read(p []byte) (int, error) {
	n, err := t.master.Read(p)
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

// SetReadDeadline sets the time by which Read returns.
func (t *Terminal) SetReadDeadline(at time.Time) error { return t.master.SetReadDeadline(at) }

// Write types bytes into the terminal. It waits while the programs do not read.
func (t *Terminal) Write(p []byte) (int, error) { return t.master.Write(p) }

// Close hangs up: the session in front of the terminal gets SIGHUP.
func (t *Terminal) Close() error { return t.master.Close() }

// Attach sets how a program is started with the programs' side as its standard input, so that this becomes the terminal of a new session.
func Attach(attributes *syscall.SysProcAttr) {
	attributes.Setsid = true
	attributes.Setctty = true
	attributes.Ctty = 0
}
