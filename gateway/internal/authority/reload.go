package authority

// This file follows files that others replace while the program runs, such as a certificate that is renewed. What cannot be used
// leaves the last good value in place.

import (
	"log/slog"
	"os"
	"sync"
	"time"
)

// pause is how long a look at the files is good for.
const pause = time.Second

// Followed says which files to follow. Now and Logger may be nil: time.Now and slog.Default().
type Followed[T any] struct {
	What   string   // the value's name in the log
	Names  []string // of the files; an empty name is no file
	Read   func() (T, error)
	Note   func(T) []any // what the log says of a new value beside the first file's name; nil: nothing
	Now    func() time.Time
	Logger *slog.Logger
}

// FollowedFiles is the value that some files hold. It is safe for concurrent use.
type FollowedFiles[T any] struct {
	config Followed[T]

	mu      sync.Mutex
	current T
	looked  time.Time
	seen    []os.FileInfo // of the files that were last read, good or not; nil: the file was not there
	broken  bool          // what is there now was not usable, which is in the log
}

// OpenFollowed reads the files. The error is Read's.
func OpenFollowed[T any](c Followed[T]) (*FollowedFiles[T], error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	f := &FollowedFiles[T]{config: c, seen: look(c.Names), looked: c.Now()}
	var err error
	f.current, err = c.Read()
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Current returns the value. It looks at the files at most once a second.
func (f *FollowedFiles[T]) Current() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.config.Now()
	if since := now.Sub(f.looked); since < 0 || since >= pause {
		f.looked = now
		f.follow()
	}
	return f.current
}

// follow reads the files when they changed. The look comes before the reading, so that a change in between is seen the next time.
// Broken files are read again each time: they may have been caught half written, with nothing to tell it by.
func (f *FollowedFiles[T]) follow() {
	seen := look(f.config.Names)
	changed := !same(f.seen, seen)
	if !changed && !f.broken {
		return
	}
	f.seen = seen
	next, err := f.config.Read()
	if err != nil {
		if changed || !f.broken {
			f.config.Logger.Error("the new "+f.config.What+" cannot be used; the last good one stays in use", "error", err)
		}
		f.broken = true
		return
	}
	f.broken = false
	f.current = next
	said := []any{"file", f.config.Names[0]}
	if f.config.Note != nil {
		said = append(said, f.config.Note(next)...)
	}
	f.config.Logger.Info(f.config.What+" reloaded", said...)
}

// look gives nil for a file that cannot be looked at: Read says what is wrong with it.
func look(names []string) []os.FileInfo {
	var seen []os.FileInfo
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			info = nil
		}
		seen = append(seen, info)
	}
	return seen
}

func same(before, now []os.FileInfo) bool {
	for i := range before {
		if !sameFile(before[i], now[i]) {
			return false
		}
	}
	return true
}

// sameFile compares inode, size and time of change; a file that was replaced by a rename has another inode.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
