// Package logfile writes the agent's logs to files of a bounded size, as lines of JSON, and reads them.
//
// A Masker takes secrets out of texts that leave this machine: logs, settings, what tools print.
//
// It knows the forms that secrets have, and the places where they stand. Each rule looks at the whole text by itself, and everything
// that any of them finds is masked: so no rule can hide a secret from another one. If it is in doubt, it masks.
//
// Starts remembers how often the agent was started on this machine, and how its runs ended, so that people and the gateway see a
// crash loop. It does not matter what restarts the agent.
package logfile

import (
	"os"
	"sync"
	"time"

	"muster/agent/disk"
)

// maxLog bounds the log file, in bytes. One older file of the same size is kept beside it.
const maxLog = 1 << 20

// reopenPause is the wait after a failure, before the log file is tried again.
const reopenPause = time.Minute

// File writes to a bounded file. A failure of the disk is no error for the code that logs: the lines are lost, and Trouble says why. Its
// methods are safe for concurrent use.
type File struct {
	path string
	now  func() time.Time
	sync func(*os.File) error

	mu       sync.Mutex
	file     *os.File
	size     int64
	trouble  error
	retry    time.Time
	syncing  bool // a goroutine syncs
	unsynced bool // and has to do it once more
	masker   Masker
}

// New writes to this path. The file is made with the first line.
func New(path string) *File {
	return &File{path: path, now: time.Now, sync: func(file *os.File) error { return disk.Steps(nil).Sync(path, file) }, masker: NewMasker()}
}

// Older returns the file that was written before the one at this path.
func Older(path string) string { return path + ".1" }

// Write appends a line. If the file would be too long, it begins a new one first. It never reports an error.
func (l *File) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if l.trouble != nil && now.Before(l.retry) {
		return len(line), nil
	}
	l.trouble = l.append(line)
	if l.trouble != nil {
		l.retry = now.Add(reopenPause)
		l.close()
	}
	return len(line), nil
}

// append writes a line. The rename comes before the line that would not fit, so no file is longer than maxLog unless one line is.
func (l *File) append(line []byte) error {
	if l.file != nil && l.size+int64(len(line)) > maxLog {
		l.close()
		if err := os.Rename(l.path, Older(l.path)); err != nil {
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

// Trouble returns why the log cannot be written, nil if it can.
func (l *File) Trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

// Flush waits until everything is on the disk. It is called before this process ends or becomes another program.
func (l *File) Flush() {
	if file := l.opened(); file != nil {
		_ = l.sync(file) // what the disk says later is told when the next line is written
	}
}

// syncSoon brings what was written to the disk, and waits for nothing: a disk that hangs must not stop who logs. While that goes on, a
// further call has it done once more afterwards, so that a flood of warnings costs one sync at a time.
func (l *File) syncSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsynced = true
	if l.syncing || l.file == nil {
		return
	}
	l.syncing = true
	go func() {
		for file := l.toSync(); file != nil; file = l.toSync() {
			_ = l.sync(file)
		}
	}()
}

// toSync is the file where there is something to sync, else nil.
func (l *File) toSync() *os.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.unsynced || l.file == nil {
		l.syncing = false
		return nil
	}
	l.unsynced = false
	return l.file
}

func (l *File) opened() *os.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file
}
