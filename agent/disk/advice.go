package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// TakesNothing reports whether an error says that a disk is full or read-only, whoever writes to it.
func TakesNothing(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}

// NextStep says what a person can do about an error of the system for the state directory or for a file of the agent. It is empty if
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

// Advise puts in front of an error what a person can do about it, if that is known.
func Advise(err error) error {
	if step := NextStep(err); step != "" {
		return fmt.Errorf("%s: %w", step, err)
	}
	return err
}
