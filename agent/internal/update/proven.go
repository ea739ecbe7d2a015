package update

import (
	"os"
	"syscall"

	"muster/agent/disk"
)

// A version that has proven itself, and finds no room to write that down, must not be taken for one that hangs. It holds a lock of its own
// program's file from then on: that needs no room, works on a read-only disk, and ends with the process.

// showProven takes the lock. If it cannot, the guard goes by the time alone.
func (u *Updater) showProven() {
	if u.shown != nil {
		return
	}
	file, err := os.Open(u.Version(u.build))
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		u.Logger.Warn("the guard cannot be told that this version has proven itself", "error", err)
		file.Close() // a nil file takes it
		return
	}
	u.shown = file
}

// hideProven gives the lock back, once the disk says the same.
func (u *Updater) hideProven() {
	u.shown.Close() // a nil file takes it
	u.shown = nil
}

// showsProven reports whether the version on trial runs, and has proven itself.
func (s *settling) showsProven() bool { return disk.Locked(s.Version(s.record.Last.To)) }
