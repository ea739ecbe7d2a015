package cli

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
	narrowest   = 20
	usualScreen = 80
	widest      = 1000
)

// screen is how many columns the terminal has that the output goes to; 0: it is none, and everything is to be written.
func (s *session) screen() int {
	if s.Screen != nil {
		return s.Screen()
	}
	return 0
}

// screenOf asks the terminal that w is. A person's COLUMNS has the word.
func screenOf(w io.Writer, columns string) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	asked, terminal := windowColumns(f)
	if !terminal {
		return 0
	}
	if n, err := strconv.Atoi(strings.TrimSpace(columns)); err == nil && n >= narrowest && n <= widest {
		return n
	}
	if asked < narrowest || asked > widest { // some say 0
		return usualScreen
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

// wrapped breaks a text into lines of so many columns, at spaces where it can; 0: no limit.
func wrapped(text string, columns int) []string {
	if columns <= 0 || width(text) <= columns {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Split(text, " ") {
		for width(word) > columns { // a word that no line holds
			if line != "" {
				lines, line = append(lines, line), ""
			}
			head := prefix(word, columns)
			lines, word = append(lines, head), word[len(head):]
		}
		switch {
		case line == "":
			line = word
		case width(line)+1+width(word) > columns:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// prefix is as much of a text as so many columns hold, one character at least.
func prefix(s string, columns int) string {
	for i, r := range s {
		if columns -= width(string(r)); columns < 0 && i > 0 {
			return s[:i]
		}
	}
	return s
}
