// Package logfile writes the agent's logs to files of a bounded size.
package logfile

import (
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// maxLog bounds the log file, in bytes. One older file of the same size is kept beside it.
const maxLog = 1 << 20

// reopenPause is the wait after a failure, before the log file is tried again.
const reopenPause = time.Minute

// File writes to a bounded file. A failure of the disk is no error for the code that logs: the lines are lost, and Trouble says why. Its
// methods are safe for concurrent use.
type File struct {
	path string
	now  func() time.Time // nil: time.Now

	mu      sync.Mutex
	file    *os.File
	size    int64
	trouble error
	retry   time.Time
}

// New writes to this path. The file is made with the first line.
func New(path string) *File { return &File{path: path} }

// Write appends a line. Where the file would be too long, it begins a new one first. It never reports an error.
func (l *File) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now
	if l.now != nil {
		now = l.now
	}
	if l.trouble != nil && now().Before(l.retry) {
		return len(line), nil
	}
	l.trouble = l.append(line)
	if l.trouble != nil {
		l.retry = now().Add(reopenPause)
		l.close()
	}
	return len(line), nil
}

// append writes a line. The rename comes before the line that would not fit, so no file is longer than maxLog unless one line is.
func (l *File) append(line []byte) error {
	if l.file != nil && l.size+int64(len(line)) > maxLog {
		l.close()
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return err
		}
	}
	if l.file == nil {
		file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		info, err := file.Stat()
		if err != nil {
			file.Close()
			return err
		}
		l.file = file
		l.size = info.Size()
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	return err
}

func (l *File) close() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

// Trouble is why the log cannot be written, nil where it can.
func (l *File) Trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

// NewLogger logs to stderr and to the file. Where stderr fails, the file still gets every line.
func NewLogger(level slog.Level, stderr io.Writer, file *File) *slog.Logger {
	return slog.New(slog.NewTextHandler(tee{stderr, file}, &slog.HandlerOptions{Level: level}))
}

type tee struct {
	stderr io.Writer
	file   *File
}

// Write gives the line to both.
func (t tee) Write(line []byte) (int, error) {
	t.stderr.Write(line)
	return t.file.Write(line)
}
