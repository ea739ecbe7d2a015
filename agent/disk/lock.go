package disk

import (
	"errors"
	"os"
	"syscall"
)

// Lock opens a file, or makes it, and takes its lock. The lock is free again when the file is closed, and at the latest when the process
// ends. The error is syscall.EWOULDBLOCK if another process has the lock.
func Lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Locked reports whether somebody has the lock of a file. It holds the lock itself for a moment, if nobody has it.
func Locked(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
