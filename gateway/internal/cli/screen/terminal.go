// Package screen is how the command line prints: lists and pairs that fit the terminal, and one way to write a number, a time, an
// age. What it prints is safe to show: text of others cannot make a terminal do something.
package screen

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// Bounds of what is believed of a screen, in columns.
const (
	narrowest = 20
	usual     = 80
	widest    = 1000
)

// Columns returns how many columns the terminal w has; 0: w is no terminal. set is the value of COLUMNS: it wins over what the terminal
// says.
func Columns(w io.Writer, set string) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	asked, terminal := windowColumns(f)
	if !terminal {
		return 0
	}
	if n, err := strconv.Atoi(strings.TrimSpace(set)); err == nil && n >= narrowest && n <= widest {
		return n
	}
	if asked < narrowest || asked > widest { // some say 0
		return usual
	}
	return asked
}

func windowColumns(f *os.File) (columns int, terminal bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, false
	}
	var size struct{ rows, columns, x, y uint16 } // struct winsize of ioctl_tty(2)
	var failed syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, failed = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	})
	return int(size.columns), err == nil && failed == 0
}
