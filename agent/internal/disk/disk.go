// Package disk writes files that are complete at every moment, and says what a person can do where the system refuses.
package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// temporary ends the name of a file that is being written. It lies beside the one that it will replace.
const temporary = ".new"

// Steps is told of every change to the disk before it is made. An error from it ends what goes on there, as one of the system would. So a
// test stops the work at every place. nil: nobody is told.
type Steps func(step string) error

// At tells of one step.
func (s Steps) At(step string) error {
	if s == nil {
		return nil
	}
	return s(step)
}

// Replace writes a file. Readers see the old content or the new one, also after a crash. When Replace returns, the new content is on the
// disk. The file has exactly this mode, whatever the umask is. One caller at a time may replace a file.
func Replace(path string, content []byte, mode fs.FileMode) error {
	return Steps(nil).Replace(path, content, mode)
}

// Replace is the function of this name, told step by step.
func (s Steps) Replace(path string, content []byte, mode fs.FileMode) error {
	err := s.swap(path, content, mode, func(file *os.File) error {
		if err := s.At("sync " + filepath.Base(path)); err != nil {
			return err
		}
		return errors.Join(file.Chmod(mode), file.Sync())
	})
	if err == nil {
		err = s.At("sync the folder of " + filepath.Base(path))
	}
	if err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// ReplaceSoon is Replace for a file that may be lost with the power. It does not wait for the disk, and the umask counts.
func ReplaceSoon(path string, content []byte, mode fs.FileMode) error {
	return Steps(nil).swap(path, content, mode, func(*os.File) error { return nil })
}

// swap writes beside the file and renames. settle is called with all content written and before the rename. After a failure the old file
// stays, and nothing lies beside it.
func (s Steps) swap(path string, content []byte, mode fs.FileMode, settle func(*os.File) error) error {
	name := filepath.Base(path)
	if err := s.At("open " + name); err != nil {
		return err
	}
	file, err := os.OpenFile(path+temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if err = s.At("write " + name); err == nil {
		_, err = file.Write(content)
	}
	if err == nil {
		err = settle(file)
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = s.At("rename " + name)
	}
	if err == nil {
		err = os.Rename(path+temporary, path)
	}
	if err != nil {
		os.Remove(path + temporary)
	}
	return err
}

// Sync puts a file, or the entries of a directory, on the disk.
func Sync(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}

// TakesNothing reports whether an error says that a disk is full or read-only, whoever writes to it.
func TakesNothing(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}

// NextStep is what a person can do about an error of the system for the state directory or for a file of the agent. It is empty where
// nothing special is known.
func NextStep(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "the disk is full: free some space and try again"
	case errors.Is(err, syscall.EROFS):
		return "it is on a read-only file system: give --state a directory that can be written"
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return "run it as root (sudo), or give --state a directory that you may write"
	case errors.Is(err, fs.ErrPermission):
		return "not even root may write there: give --state another directory"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return "there is a file where a directory should be: move it away, or give --state another directory"
	}
	return ""
}
