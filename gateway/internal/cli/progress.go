package cli

import (
	"fmt"
	"sync"
	"time"

	"muster/gateway/internal/cli/screen"
)

// progressEvery is the least time between two looks of the line.
const progressEvery = 200 * time.Millisecond

// Progress is a line on the terminal that says how far a copy is. Without a terminal there is none. It is safe for concurrent use.
type Progress struct {
	session *Session
	name    string
	size    int64 // less than 0: unknown
	first   int64 // that was there already
	began   time.Time
	columns int

	mu    sync.Mutex
	files int       // that are there, of a folder
	shown time.Time // zero: there is no line
	over  bool
}

// NewProgress begins a copy of so many bytes, of which the first are there already. If the size is less than 0, nobody knows it before the
// end.
func NewProgress(s *Session, name string, size, first int64) *Progress {
	return &Progress{session: s, name: name, size: size, first: first, began: s.Now(),
		columns: screen.Columns(s.Stderr, s.Getenv("COLUMNS"))}
}

// At says that so many bytes are there.
func (p *Progress) At(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.session.Now()
	if p.columns == 0 || p.over || now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown = now
	fmt.Fprintf(p.session.Stderr, "\r\x1b[K%s", screen.Cut(p.line(bytes, now), p.columns-1))
}

// Files says that so many files of a folder are there, and that so many bytes came for them.
func (p *Progress) Files(files int, bytes int64) {
	p.mu.Lock()
	p.files = files
	p.mu.Unlock()
	p.At(bytes)
}

func (p *Progress) line(bytes int64, now time.Time) string {
	line := p.far(bytes)
	if took := now.Sub(p.began).Seconds(); took >= 1 {
		rate := float64(bytes-p.first) / took
		line += fmt.Sprintf("  %s/s", mebibytes(int64(rate)))
		if left := float64(p.size-bytes) / rate; p.size >= 0 && rate > 0 && left >= 1 {
			line += fmt.Sprintf("  %s left", time.Duration(left)*time.Second)
		}
	}
	return line + "  " + screen.Printable(p.name)
}

// far is how far the copy is.
func (p *Progress) far(bytes int64) string {
	percent := int64(100)
	switch {
	case p.size < 0:
		return fmt.Sprintf("%s  %s", screen.Plural(p.files, "file"), mebibytes(bytes))
	case p.size > 0:
		percent = min(100*bytes/p.size, 100)
	}
	return fmt.Sprintf("%3d%%  %s of %s", percent, mebibytes(bytes), mebibytes(p.size))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Clear takes the line away for good.
func (p *Progress) Clear() {
	p.Wipe()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}

// Wipe takes the line away, so that something else can be printed.
func (p *Progress) Wipe() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shown.IsZero() && !p.over {
		fmt.Fprint(p.session.Stderr, "\r\x1b[K")
	}
	p.shown = time.Time{}
}
