package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ServedError says that a gateway runs on a data directory.
type ServedError struct{ Dir string }

func (e *ServedError) Error() string {
	return "another gateway serves " + e.Dir + " already; choose another --data, or stop that one"
}

// Lock makes the directory if there is none, shuts it to other users, and keeps a second gateway away from it until the file is
// closed. The kernel gives the lock back when the process ends, however it ends: the file itself stays and means nothing. If a
// gateway runs, the error is a *ServedError. If this user may not, the error wraps fs.ErrPermission.
func Lock(dir string) (*os.File, error) {
	err := Check(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.Chmod(dir, 0o700)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("this user may not use the data directory %s: %w", dir, fs.ErrPermission)
	}
	if err != nil {
		return nil, fmt.Errorf("the data directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, &ServedError{dir}
	}
	return file, nil
}
