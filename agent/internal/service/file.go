package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// replace writes a file that is complete at every moment, and on the disk when it returns. The mode does not depend on the
// umask.
func replace(path string, content []byte, mode fs.FileMode) error {
	temporary := path + ".new"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return explain(path, err)
	}
	_, err = file.Write(content)
	if err == nil {
		err = settle(file, mode)
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		os.Remove(temporary)
		return explain(path, err)
	}
	return syncDirectory(filepath.Dir(path))
}

// settle gives an open file its mode and puts it on the disk.
func settle(file *os.File, mode fs.FileMode) error {
	if err := file.Chmod(mode); err != nil {
		return err
	}
	return file.Sync()
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return explain(path, err)
	}
	defer directory.Close()
	return explain(path, directory.Sync())
}

// settlePaths puts on the disk what a tool of the system's wrote, as far as this user may open it.
func settlePaths(patterns ...string) {
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			if file, err := os.Open(path); err == nil {
				file.Sync()
				file.Close()
			}
		}
	}
}

// makeDirectories makes a folder with what lacks above it, and gives the new ones, outermost first.
func makeDirectories(path string, mode fs.FileMode) (made []string, err error) {
	if isDirectory(path) {
		return nil, nil
	}
	if parent := filepath.Dir(path); parent != path {
		if made, err = makeDirectories(parent, mode); err != nil {
			return made, err
		}
	}
	if err := os.Mkdir(path, mode); err != nil {
		return made, explain(path, err)
	}
	return append(made, path), syncDirectory(filepath.Dir(path))
}

// remove deletes a file that may be gone already.
func remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return explain(path, err)
	}
	return syncDirectory(filepath.Dir(path))
}

// explain adds the next step to what the system says about a path.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	step := "see what is there"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		step = "the disk is full: free some space and try again"
	case errors.Is(err, syscall.EROFS):
		step = "it is on a read-only file system: give --state a directory that can be written"
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		step = "run it as root (sudo), or give --state a directory that you may write"
	case errors.Is(err, fs.ErrPermission):
		step = "not even root may write there: give --state another directory"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		step = "there is something else where a directory should be: move it away, or give --state another directory"
	}
	return fmt.Errorf("%s: %s: %w", path, step, err)
}
