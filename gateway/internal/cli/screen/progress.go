package screen

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// StatusLine is a line at the bottom of the terminal, and all that is printed above it. It is safe for concurrent use. Without a terminal
// there is no such line.
type StatusLine struct {
	w       io.Writer
	columns int // 0: no terminal

	mu   sync.Mutex
	line string // that is shown
	over bool
}

// NewStatusLine makes an empty line on w, which is a terminal with this many columns.
func NewStatusLine(w io.Writer, columns int) *StatusLine { return &StatusLine{w: w, columns: columns} }

// Set replaces the line.
func (l *StatusLine) Set(line string) {
	l.Around(func() {
		if l.columns > 0 && !l.over {
			l.line = Cut(Printable(line), l.columns-1)
		}
	})
}

// Around prints something while the line is away.
func (l *StatusLine) Around(print func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const clear = "\r\x1b[K"
	if l.line != "" {
		fmt.Fprint(l.w, clear)
	}
	print()
	if l.line != "" {
		fmt.Fprint(l.w, clear+l.line)
	}
}

// Clear takes the line away for good.
func (l *StatusLine) Clear() {
	l.Around(func() {
		l.line = ""
		l.over = true
	})
}

// progressEvery is the least time between two looks of the line of a copy.
const progressEvery = 200 * time.Millisecond

// Progress is a line that says how far a copy is. One goroutine copies; others may print.
type Progress struct {
	*StatusLine
	name  string
	size  int64 // less than 0: unknown
	first int64 // that was there already
	now   func() time.Time
	began time.Time
	shown time.Time
	files int // that are there, of a folder
}

// NewProgress shows the progress of a copy of size bytes, of which first bytes are there already. If size is less than 0, nobody knows it
// before the end.
func NewProgress(l *StatusLine, now func() time.Time, name string, size, first int64) *Progress {
	return &Progress{StatusLine: l, name: name, size: size, first: first, now: now, began: now()}
}

// At says how many bytes are there.
func (p *Progress) At(bytes int64) {
	if now := p.now(); now.Sub(p.shown) >= progressEvery {
		p.shown = now
		p.Set(p.far(bytes) + p.pace(bytes, now.Sub(p.began).Seconds()) + "  " + p.name)
	}
}

// Files says how many files of a folder are there, and how many bytes came for them.
func (p *Progress) Files(files int, bytes int64) {
	p.files = files
	p.At(bytes)
}

// far is how far the copy is.
func (p *Progress) far(bytes int64) string {
	percent := int64(100)
	switch {
	case p.size < 0:
		return fmt.Sprintf("%s  %s", Plural(p.files, "file"), mebibytes(bytes))
	case p.size > 0:
		percent = min(100*bytes/p.size, 100)
	}
	return fmt.Sprintf("%3d%%  %s of %s", percent, mebibytes(bytes), mebibytes(p.size))
}

// pace is how fast it goes, and how long it takes still.
func (p *Progress) pace(bytes int64, took float64) string {
	if took < 1 {
		return ""
	}
	rate := float64(bytes-p.first) / took
	text := fmt.Sprintf("  %s/s", mebibytes(int64(rate)))
	if left := float64(p.size-bytes) / rate; p.size >= 0 && rate > 0 && left >= 1 {
		text += fmt.Sprintf("  %s left", time.Duration(left)*time.Second)
	}
	return text
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
