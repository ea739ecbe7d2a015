package join

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
	"unsafe"
)

// live is a screen. Something that is tried again and again takes one line on it, as long as it fails for the same reason. On a
// terminal a second line says for how long, and each try overwrites it. Its methods are safe for concurrent use.
type live struct {
	to    io.Writer
	width func() int       // of the terminal; 0: this is no terminal
	now   func() time.Time // nil: time.Now

	mu    sync.Mutex
	open  bool      // the last line may be overwritten
	said  string    // the last reason; empty: the last text was another one
	since time.Time // when the tries for it began
}

func newLive(to io.Writer) *live {
	return &live{to: to, width: func() int { return terminalWidth(to) }}
}

// Write prints any other text. It begins on a line of its own.
func (l *live) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	l.said = ""
	return l.to.Write(text)
}

// clear removes the line that may be overwritten. The caller holds mu.
func (l *live) clear() {
	if l.open {
		fmt.Fprint(l.to, "\r\x1b[K")
		l.open = false
	}
}

// again says that something is tried again, and for how long it has been tried.
func (l *live) again(what string, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now
	if l.now != nil {
		now = l.now
	}
	text := what + ", trying again: " + strings.ReplaceAll(why.Error(), "\n", " ")
	if l.said == "" {
		l.since = now()
	}
	fresh := !same(l.said, text)
	l.said = text
	if fresh {
		l.clear()
		fmt.Fprintf(l.to, "      %s\n", text)
	}
	if width := l.width(); width > 0 {
		l.clear()
		l.open = true
		fmt.Fprint(l.to, cut(fmt.Sprintf("      %s, tried for %s", what, now().Sub(l.since).Round(time.Second)), width-1))
	}
}

// same compares two texts without their digits: a port or a duration in an error differs each time.
func same(a, b string) bool {
	letters := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}
	return a != "" && strings.Map(letters, a) == strings.Map(letters, b)
}

// cut shortens a line to this many characters.
func cut(line string, most int) string {
	if utf8.RuneCountInString(line) <= most || most < 1 {
		return line
	}
	return string([]rune(line)[:most-1]) + "…"
}

// terminalWidth is the width of the terminal behind a writer, 0 if there is none.
func terminalWidth(to io.Writer) int {
	file, ok := to.(*os.File)
	if !ok {
		return 0
	}
	var size struct{ rows, columns, x, y uint16 }
	_, _, failed := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if failed != 0 {
		return 0
	}
	if size.columns == 0 { // a terminal that does not say
		return 80
	}
	return int(size.columns)
}
